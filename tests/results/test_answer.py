"""The answer: who is recommended, who is not and why, which judges decide, and what would tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.stats

from uproar.errors import BadInput
from uproar.metrics import metrics
from uproar.results import judges
from uproar.results.answer import Answer, Placing, answer_of_scores
from uproar.results.evaluator import EvaluatorBits
from uproar.results.flags import Flag
from uproar.results.judges import Judge, Pair, check_judges
from uproar.results.open_question import OpenQuestion
from uproar.results.quality import NetworkQuality
from uproar.results.recovery import JudgeRecovery
from uproar.results.scores import Curves, Line
from uproar.results.study import Results
from uproar.statistics.intervals import Interval
from uproar.statistics.sample_size import required_sample_size

from ..report.test_score_report import scores_of
from .test_view import MODEL, TASK, cells, results

CONTROLS = {"random": 0.30, "centre": 0.40, "brightness": 0.50}


@pytest.fixture(autouse=True)
def board(monkeypatch):
    """The board of judges as a test fills it, recovery by name; empty at first."""
    known: dict[str, float] = {}

    def trust(judge, kinds):
        value = known.get(judge.partition("(")[0])
        return None if value is None else JudgeRecovery(judge, Interval(value, value - 0.1, value), {}, 0.0, 10.0, 0.5)

    monkeypatch.setattr(judges, "trust", trust)
    return known


def test_a_judge_that_recovers_known_orders_decides_before_one_that_does_not(board):
    filled = {"random": 0.6, "centre": 0.55, "ig": 0.5, "grad": 0.3}
    levels = {"insertion": CONTROLS | {"ig": 0.8, "grad": 0.7}, "deletion": filled}
    assert answer_of_scores(scores_of(levels)).recommended == "ig", (
        "both decide, and ig has the better mean rank or ties"
    )
    board |= {"insertion": 0.5, "deletion": 0.95}
    answer = answer_of_scores(scores_of(levels))
    assert [judge.label for judge in answer.deciding] == ["deletion"]
    assert answer.recommended == "grad"
    assert "low confidence" not in answer.sentence
    assert any("insertion 0.50, deletion 0.95 (trusted)" in line for line in answer.details)


def test_where_no_judge_is_trusted_the_answer_stays_and_says_how_far_to_believe_it(board):
    board |= {"insertion": 0.62}
    answer = answered({"ig": 0.80, "grad": 0.60})
    assert answer.recommended == "ig"
    assert answer.sentence.endswith(
        "judged by insertion alone, without an evaluator; low confidence: insertion scores 0.62 on benchmarks with "
        "known answers (trusted from 0.8)."
    )
    board["insertion"] = 0.9
    assert "low confidence" not in answered({"ig": 0.80}).sentence


def test_where_there_are_no_classes_no_mask_can_encode_one():
    values = NetworkQuality(8, 1, float("nan"), None, kind="regression")
    assert set(judges.kinds_that_matter(None)) - set(judges.kinds_that_matter(values)) == {
        "encoder",
        "encoding",
        "leak",
    }


@pytest.mark.parametrize(
    ("metric", "shown"),
    [("road", False), ("road_lerf:leemann", True), ("insertion", True), ("insertion:rise", True), ("deletion", False)],
)
def test_the_random_curve_of_a_judge_is_read_by_the_share_of_pixels_that_are_filled(metric, shown):
    line = Line(np.array([0.9, 0.2]), np.zeros(2), np.ones(2))
    scores = replace(
        scores_of({metric: CONTROLS | {"ig": 0.8}}), curves={metric: Curves(np.array([0.25, 1.0]), {"random": line})}
    )
    (judge,) = judges.judges_of_scores(scores)
    assert judge.random_curve == (((0.0, 0.2), (0.75, 0.9)) if shown else ((0.25, 0.9), (1.0, 0.2)))


def test_two_settings_of_a_metric_are_two_columns_of_the_answer():
    values = CONTROLS | {"ig": 0.8}
    answer = answer_of_scores(scores_of({"insertion": values, "insertion(fill=blur)": values, "road": values}))
    assert [judge.label for judge in answer.judges] == ["insertion", "insertion(fill=blur)", "road"]
    assert {"insertion", "insertion(fill=blur)", "road"} <= set(answer.table.columns)


def test_many_settings_of_a_metric_are_counted_in_the_sentence_and_named_below_it():
    values = CONTROLS | {"ig": 0.8}
    filled = {"road": {"random": 0.6, "centre": 0.5, "ig": 0.2}}
    answer = answer_of_scores(scores_of({f"insertion(steps={n})": values for n in (8, 16, 20, 32)} | filled))
    assert "judged by insertion (in 4 settings) and road alone" in answer.sentence
    assert "Decided by insertion(steps=8), insertion(steps=16)" in answer.details[0]


def test_a_metric_of_the_user_is_no_variant_by_its_name(monkeypatch):
    """Only the declaration says what a metric is a variant of."""
    monkeypatch.setitem(metrics._entries, "road:mine", replace(metrics["soundness"], name="road:mine"))
    assert judges.kind_of_metric("road:leemann") == "filled"
    assert judges.kind_of_metric("road:mine") is None


def answered(insertion: dict[str, float], **changes):
    return answer_of_scores(scores_of({"insertion": CONTROLS | insertion}, **changes))


def test_two_methods_share_a_letter_if_and_only_if_they_are_not_told_apart_and_the_sentence_agrees(monkeypatch):
    answer = answered({"ig": 0.80, "grad": 0.60, "lrp": 0.55})
    monkeypatch.setattr(Answer, "preferred", lambda self, one, other: (one, other) == ("ig", "grad"))
    assert answer.groups == (("ig", "lrp"), ("grad", "lrp"))
    assert answer.table.set_index("method")["group"].to_dict() == {"ig": "a", "grad": "b", "lrp": "ab"}
    assert answer.tied == ("lrp",)
    assert answer.sentence.startswith("Use `ig`; `lrp` cannot be told from it; `grad` comes after it;")


def test_a_method_below_the_bar_that_is_not_decidedly_worse_than_the_best_one_shares_its_letter(monkeypatch):
    """As on a study where all methods were in one group although some pairs of them were decided."""
    answer = answered({"ig": 0.80, "grad": 0.60, "deconv": 0.35})
    monkeypatch.setattr(Answer, "preferred", lambda self, one, other: (one, other) == ("grad", "deconv"))
    assert answer.letters == {"ig": "ab", "grad": "a", "deconv": "b"}
    assert "`grad` and `deconv` cannot be told from it" in answer.sentence
    assert "`deconv` is no better than a ranking by brightness" in answer.sentence


def test_a_method_that_no_deciding_judge_ranks_has_no_letter():
    levels = {"evaluator": CONTROLS | {"ig": 0.9}, "insertion": CONTROLS | {"ig": 0.8, "grad": 0.7}}
    made = [
        Judge(
            name,
            name,
            kind,
            "model",
            levels[name],
            {("ig", "random"): Pair(Interval(0.4, 0.3, 0.5, p=0.01), True)},
            "images",
            9,
            3,
        )
        for name, kind in (("evaluator", "evaluator"), ("insertion", "filled"))
    ]
    assert Answer(tuple(made)).letters == {"ig": "a"}


def test_the_best_method_above_every_control_is_recommended_with_those_that_cannot_be_told_from_it():
    answer = answered({"ig": 0.80, "grad": 0.78, "lrp": 0.60, "guided_backprop": 0.45, "deconv": 0.35})
    assert (answer.recommended, answer.tied) == ("ig", ("grad",))
    assert answer.groups == (("ig", "grad"), ("lrp",), ("guided_backprop",), ("deconv",))
    assert list(answer.table["group"]) == ["a", "a", "b", "c", "d"]
    assert answer.sentence == (
        "Use `ig`; `grad` cannot be told from it; `lrp` comes after it; `guided_backprop` and `deconv` are no better "
        "than a ranking by brightness; judged by insertion alone, without an evaluator."
    )
    table = answer.table.set_index("method")
    assert table["insertion"].to_dict() == {
        "ig": "better",
        "grad": "better",
        "lrp": "better",
        "guided_backprop": "no better",  # behind brightness by its interval, undecided over all pairs
        "deconv": "worse",
    }


def test_better_than_random_alone_is_no_recommendation():
    answer = answered({"ig": 0.47, "grad": 0.35})
    assert answer.recommended is None
    assert answer.sentence.startswith("No method can be recommended: none is better than the best network-free ranking")


@pytest.mark.parametrize(
    ("lead", "level", "words"),
    [
        ((0.026, -0.126, 0.178), "undecided", "`ig` cannot be told from a ranking by brightness"),
        ((0.026, 0.0, 0.052), "no better", "`ig` is no better than a ranking by brightness"),
        ((0.026, 0.001, 0.051), "no better", "`ig` is no better than a ranking by brightness"),
        ((0.026, float("nan"), float("nan")), "undecided", "`ig` cannot be told from a ranking by brightness"),
    ],
)
@pytest.mark.parametrize("recommended", [True, False])
def test_no_better_is_said_only_where_the_interval_of_the_difference_shows_it(lead, level, words, recommended):
    better = {("grad", "brightness"): Pair(Interval(0.3, 0.2, 0.4, p=0.001), decided=True)} if recommended else {}
    judge = Judge(
        "insertion",
        "insertion",
        "filled",
        "model",
        {"brightness": 0.5, "ig": 0.474} | ({"grad": 0.8} if recommended else {}),
        {("brightness", "ig"): Pair(Interval(*lead, df=39, p=0.6), decided=False), **better},
        "images",
        40,
    )
    answer = Answer((judge,))
    assert answer.placing("ig", judge) == Placing(level, "brightness", ahead=False)
    assert words in answer.sentence
    shown = "shown to be " * (level == "undecided")
    start = "Use `grad`;" if recommended else f"No method can be recommended: none is {shown}better than the best"
    assert answer.sentence.startswith(start)
    asked = level == "undecided" and np.isfinite(lead[1])
    end = "images instead of 40 would tell `brightness` from `ig` under insertion."
    assert answer.would_tell.endswith(end) if asked else answer.would_tell == ""


def test_a_method_is_no_better_where_any_network_free_ranking_is_above_it_by_its_interval():
    pairs = {
        ("brightness", "ig"): Pair(Interval(0.1, -0.1, 0.3, p=0.3), decided=False),
        ("centre", "ig"): Pair(Interval(0.05, 0.01, 0.09, p=0.02), decided=False),
    }
    values = {"brightness": 0.6, "centre": 0.55, "ig": 0.5}
    judge = Judge("insertion", "insertion", "filled", "model", values, pairs, "images", 40)
    assert Answer((judge,)).placing("ig", judge) == Placing("no better", "centre", ahead=False)


def test_a_control_is_never_recommended_and_never_a_method():
    answer = answered({"gaussian(sobel)": 0.95, "ig": 0.8})
    assert "gaussian(sobel)" in answer.controls
    assert answer.methods == ("ig",)
    assert answer.recommended is None


def test_where_random_is_the_only_control_nothing_is_recommended_and_the_sentence_says_what_is_missing():
    answer = answer_of_scores(scores_of({"insertion": {"random": 0.3, "ig": 0.8, "grad": 0.6}}))
    assert (answer.recommended, answer.leading) == (None, "ig")
    assert answer.sentence.startswith(
        "No method can be recommended, since a random ranking is the only control here: the best against it is `ig`; "
        "`grad` comes after `ig`;"
    )
    assert "`--estimators …,centre,brightness,sobel,block_random`" in answer.would_tell
    assert not answer.table["recommended"].any()


def test_where_only_informed_rankings_were_judged_the_sentence_does_not_say_that_they_were_judged():
    values = CONTROLS | {"oracle": 0.9, "degraded(kind=noise, level=0.4)": 0.8}
    answer = answer_of_scores(scores_of({"insertion": values}))
    assert answer.deciding and not answer.methods
    assert answer.sentence == (
        "No method can be recommended: only rankings that are told the important pixels or the class were judged, "
        "which are controls."
    )
    assert not any("Decided by" in line for line in answer.details)


def test_one_judge_against_the_bar_forbids_what_another_recommends():
    levels = {"insertion": CONTROLS | {"ig": 0.8, "grad": 0.7}, "deletion": {"random": 0.6, "ig": 0.9, "grad": 0.3}}
    answer = answer_of_scores(scores_of(levels))
    assert answer.recommended == "grad"
    assert "`ig` is no better than a random ranking" in answer.sentence


@pytest.mark.parametrize(("metric", "kind"), [("randomisation", "fails sanity"), ("sensitivity_max", "unstable")])
def test_flags_are_raised_by_whole_intervals_and_sanity_disqualifies(metric, kind):
    flagged = {"random": 0.0, "ig": 1.5, "grad": 0.2, "lrp": 0.505 if metric == "randomisation" else 1.005}
    levels = {"insertion": CONTROLS | {"ig": 0.9, "grad": 0.8, "lrp": 0.7}, metric: flagged}
    answer = answer_of_scores(scores_of(levels))
    assert {m: [flag.kind for flag in flags] for m, flags in answer.flags.items()} == {"ig": [kind]}
    assert answer.recommended == ("grad" if kind == "fails sanity" else "ig")
    words = {"fails sanity": "`ig` fails the sanity check", "unstable": "`ig` is unstable"}
    assert words[kind] in answer.sentence


@pytest.mark.parametrize(("images", "least", "flagged"), [(59, 0.99, True), (58, 0.99, False), (200, 0.4, False)])
def test_maps_that_no_image_shows_to_change_fail_the_sanity_check_though_other_networks_may_differ(
    images, least, flagged
):
    scores = scores_of({"insertion": CONTROLS | {"ig": 0.9, "grad": 0.8}, "randomisation": {"ig": 1.0, "grad": 0.1}})
    at_the_end = (scores.table["metric"] == "randomisation") & (scores.table["method"] == "ig")
    table = scores.table.assign(least=-1.0)
    table.loc[at_the_end, ["low", "least", "n", "nan"]] = [-0.26, least, images, 0]
    answer = answer_of_scores(replace(scores, table=table))
    assert ("ig" in answer.flags) == flagged
    if flagged:
        assert "similarity 1.00 (at least 0.99 in every image)" in answer.flags["ig"][0].why


def test_metrics_that_only_describe_or_localise_do_not_judge():
    answer = answer_of_scores(scores_of({"sparseness": {"random": 0.1, "ig": 0.9}, "pointing_game": {"ig": 1.0}}))
    assert not answer.judges
    assert answer.sentence == "No method can be recommended: nothing that was run judges methods yet."


def test_a_network_that_fails_on_any_filled_image_cannot_judge_by_filled_images():
    made = scores_of({"deletion": {"random": 0.5, "ig": 0.1}}, curves=["deletion"])
    answers = np.array([1.0, 0.1, 0.1, 0.1, 0.0])
    curves = made.curves["deletion"]
    line = replace(curves.lines["random"], mean=answers)
    fragile = replace(made, curves={"deletion": replace(curves, lines={**curves.lines, "random": line})})
    near = replace(curves, fractions=curves.fractions / 4)
    fragile = replace(fragile, curves={"deletion": replace(near, lines={**curves.lines, "random": line})})
    answer = answer_of_scores(fragile)
    assert not answer.deciding
    assert "accuracy is not kept when 3 % of the pixels are replaced at random" in answer.sentence


def test_roar_and_kar_that_contradict_each_other_do_not_vote():
    made = results(
        cells("roar", {"random": 0.8, "grad": 0.9, "ig": 0.9}), cells("kar", {"random": 0.5, "grad": 0.7, "ig": 0.7})
    )
    answer = made.answer
    assert [judge.votes for judge in answer.judges] == [False, False]
    assert answer.recommended is None
    assert "ROAR and KAR contradict each other on 2 of 2 methods" in answer.sentence
    agreeing = results(
        cells("roar", {"random": 0.8, "grad": 0.6, "sobel": 0.75}),
        cells("kar", {"random": 0.5, "grad": 0.7, "sobel": 0.55}),
    )
    assert agreeing.answer.recommended == "grad"
    assert agreeing.answer.sentence.endswith("judged by ROAR and KAR alone, without an evaluator.")


def retrained(name: str, sides: dict[str, int], unable: str = "") -> Judge:
    """A judge by retraining with verdicts against random: 1 better, -1 worse."""
    lead = Interval(0.2, 0.1, 0.3, p=0.001)
    pairs = {((m, "random") if side > 0 else ("random", m)): Pair(lead, True) for m, side in sides.items()}
    values = {"random": 0.0, **{m: 0.2 * side for m, side in sides.items()}}
    return Judge(name, name.upper(), "retrained", "data", values, pairs, "replicates", replicates=3, unable=unable)


def test_a_judge_that_failed_its_control_does_not_silence_decoupled_roar():
    roar = retrained("roar", {"ig": -1, "grad": -1}, unable="none of 2 methods is decidedly above random rankings")
    decoupled, kar = retrained("decoupled", {"ig": 1, "grad": 1}), retrained("kar", {"ig": 1, "grad": 1})
    votes = {judge.name: judge.votes for judge in check_judges([roar, decoupled, kar])}
    assert votes == {"roar": False, "decoupled": True, "kar": False}, "the rule is about ROAR and KAR alone"


def test_kar_that_failed_its_control_does_not_silence_roar():
    kar = retrained("kar", {"ig": -1, "grad": -1}, unable="none of 2 methods is decidedly above random rankings")
    votes = {judge.name: judge.votes for judge in check_judges([retrained("roar", {"ig": 1, "grad": 1}), kar])}
    assert votes == {"roar": True, "kar": False}, "masks that give the class away are worse by ROAR, better by KAR"


def test_judges_that_would_be_called_the_same_are_told_apart():
    one = retrained("roar", {"ig": 1})
    labels = [judge.label for judge in check_judges([one, replace(one, name="roar:mine")])]
    assert labels == ["roar", "roar:mine"]


def test_checks_that_nobody_asked_for_are_not_passed():
    plain = answered({"ig": 0.8})
    assert plain.flag_words("ig") == "not checked"
    assert "sanity by `--metrics randomisation`, stability by `--metrics sensitivity_max`" in plain.checks_to_ask
    assert plain.table["not_checked"].tolist() == ["sanity, stability, encoding"]
    levels = {"insertion": CONTROLS | {"ig": 0.9, "grad": 0.8}, "randomisation": {"ig": 0.9, "grad": 0.1}}
    checked = answer_of_scores(scores_of(levels))
    assert checked.flag_words("ig") == "fails sanity; not checked: stability, encoding"
    assert checked.flag_words("grad") == "not checked: stability, encoding"


def test_the_most_trusted_kind_decides_and_the_others_are_shown():
    levels = {"random": 0.8, "centre": 0.78, "grad": 0.6, "ig": 0.7}
    metric = scores_of({"insertion": CONTROLS | {"ig": 0.8, "grad": 0.7}})
    made = results(cells("roar", levels))
    made = Results(
        made.study, made.table, made.costs, made.protocols, roles=made.roles, metric_scores={(TASK, MODEL): metric}
    )
    answer = made.view(TASK, MODEL).answer
    assert [judge.label for judge in answer.judges] == ["insertion", "ROAR"]
    assert answer.recommended == "ig"
    assert "Other judges disagree with `ig`: ROAR puts `grad` above it." in answer.details


def test_a_study_of_several_networks_has_an_answer_for_each():
    one = cells("roar", {"random": 0.8, "grad": 0.6})
    made = results(one, one.assign(model="other"))
    assert [answer.model for answer in made.answers] == [MODEL, "other"]
    with pytest.raises(BadInput, match=r"use \.answers"):
        _ = made.answer


def test_what_is_open_says_how_many_images_would_tell_and_how_long_that_takes():
    made = scores_of({"insertion": {"centre": 0.30, "ig": 0.39}}, images=20, seconds=60.0, apart=0.1)
    answer = answer_of_scores(made)
    assert answer.recommended is None
    assert "`ig` is ahead of every network-free ranking, but not decidedly with 20 images" in answer.sentence
    assert answer.open is not None
    assert (answer.open.method, answer.open.other) == ("ig", "centre")
    times = answer.open.n / 20
    assert answer.open.seconds == pytest.approx(60 * (times - 1))
    assert answer.would_tell.startswith(f"About {answer.open.n} images instead of 20 would tell `ig` from `centre`")


def test_what_is_undecided_says_what_would_tell_also_where_more_images_do_not():
    def judge(lead: Interval, **changes) -> Judge:
        pairs = {("centre", "ig"): Pair(lead, False)}
        return Judge("road", "road", "filled", "model", {"centre": 0.5, "ig": 0.45}, pairs, "images", 40, **changes)

    wide = Interval(0.05, -0.05, 0.15, df=39, p=0.3)
    assert "images instead of 40 would tell `centre` from `ig`" in Answer((judge(wide),)).would_tell
    few = Answer((judge(wide, available_images=40, seconds=60.0),)).would_tell
    assert "and the task has 40: a task with more test images, or replicates with networks trained anew" in few
    assert "(`--seeds 5`, about 1 min" in few
    tiny = Answer((judge(Interval(1e-6, -0.1, 0.1, df=39, p=0.99)),), task="digits").would_tell
    assert "differ too little under road" in tiny and "`uproar run --protocols evaluator`" in tiny


def test_one_image_asks_for_more_images_and_one_evaluator_for_more_of_them():
    values = {"random": 0.0, "ig": 1.0}
    single = Judge("road", "road", "filled", "model", values, {}, "images", 1)
    assert "More images could decide this: 1 image has no spread" in Answer(tuple(check_judges([single]))).would_tell
    alone = Judge("evaluator", "evaluator", "evaluator", "data", values, {}, "images", 50, 1, 60.0)
    told = Answer(tuple(check_judges([alone])), task="digits").would_tell
    assert told.startswith("3 evaluators instead of 1 could decide this (`--seeds 3`) (2 min")


@pytest.mark.parametrize(
    ("there", "words", "seconds"),
    [
        (
            None,
            "About 12 replicates of 2400 images instead of 2 of 400 (`evaluator_images = 2400`), where there are as many, would tell",
            35.0,
        ),
        (9000, "About 12 replicates of 2400 images instead of 2 of 400 (`evaluator_images = 2400`) would tell", 35.0),
        (400, "At least 12 replicates instead of 2 are needed to tell", 5.0),
        (
            800,
            "At least 12 replicates of 800 images instead of 2 of 400 (`evaluator_images = 800`) are needed to tell",
            11.0,
        ),
    ],
)
def test_no_more_images_are_advised_than_there_are(there, words, seconds):
    pair = Pair(Interval(0.1, -0.05, 0.25), False)
    judge = Judge("evaluator", "evaluator", "evaluator", "data", {}, {("ig", "centre"): pair}, "images", 400, 2, 1.0)
    asked = OpenQuestion("ig", "centre", replace(judge, available_images=there), 2400)
    assert asked.sentence.startswith(f"{words} `ig` from `centre` under evaluator (")
    assert asked.seconds == pytest.approx(seconds)
    assert ("more replicates alone may not be enough" in asked.sentence) == (there in (400, 800))


def test_so_many_images_decide_four_times_out_of_five():
    draws, n, effect = np.random.default_rng(0), 25, 0.3
    values = draws.normal(effect, 1, n)
    error = values.std(ddof=1) / np.sqrt(n)
    half = float(scipy.stats.t.ppf(0.975, n - 1) * error)
    more = required_sample_size(effect, half, n - 1, n)
    assert more is not None
    spread = values.std(ddof=1)
    samples = draws.normal(effect, spread, (4000, more))
    power = (scipy.stats.ttest_1samp(samples, 0, axis=1).pvalue < 0.05).mean()
    assert power == pytest.approx(0.8, abs=0.03)


def test_an_evaluator_is_advised_only_where_none_was_asked_and_something_could_be_judged():
    unable = Judge(
        "evaluator", "evaluator", "evaluator", "data", {"ig": 1.0, "random": 0.0}, {}, "images", 5, unable="x"
    )
    advice = "Running the evaluator could decide this"
    assert not any(advice in line for line in Answer((unable,), task="digits").details)
    failed = Answer((), left_out={"ig": "NaN"}, task="digits")
    assert not any(advice in line for line in failed.details) and "no method could be judged" in failed.sentence
    assert any(f"{advice}: `uproar run" in line for line in Answer((), task="digits").details)
    assert any("--train FOLDER" in line for line in Answer(()).details)


def test_a_method_that_no_metric_ranks_is_not_judged_and_says_why():
    scores = scores_of({"insertion": CONTROLS | {"ig": 0.8, "grad": 0.6}})
    own = scores.table["method"] == "grad"
    table = scores.table.assign(ranked=~own, note=np.where(own, "undefined for 3 of 3 images", ""))
    assert answer_of_scores(replace(scores, table=table)).left_out == {"grad": "undefined for 3 of 3 images"}


def test_a_judge_without_a_control_or_a_test_is_unable():
    alone = Judge("x", "x", "filled", "model", {"ig": 1.0}, {}, "images", 5)
    single = Judge("y", "y", "filled", "model", {"ig": 1.0, "random": 0.0}, {}, "images", 1)
    assert [bool(judge.unable) for judge in check_judges([alone, single])] == [True, True]
    assert check_judges([single])[0].unable == "1 image cannot be tested"


def test_a_mask_that_encodes_the_class_is_flagged_and_disqualifies_where_retrained_networks_decide():
    made = results(cells("roar", {"random": 0.8, "sobel": 0.78, "grad": 0.6, "ig": 0.7}))
    answer = made.answer
    flagged = replace(answer, flags={"grad": (Flag("grad", "encodes", "0.4 bits"),)})
    assert (answer.recommended, flagged.recommended) == ("grad", "ig")
    assert "`grad` encodes the class in its masks" in flagged.sentence
    metric = answered({"ig": 0.8})
    assert replace(metric, flags={"ig": (Flag("ig", "encodes", "0.4 bits"),)}).recommended == "ig"


def test_the_evaluator_decides_before_all_others():
    draws = np.random.default_rng(0)

    def bits(level):
        return draws.normal(level, 0.1, (3, 60))

    costs = {"ig": 1.5, "grad": 0.5, "random": 0.0, "sobel": 0.5}
    places = [(name, keeps) for name in costs for keeps in (False, True)]
    own = {(name, keeps): bits(2.0 + (-costs[name] if keeps else costs[name])) for name, keeps in places}
    shifted = {place: bits(2.0) for place in places}
    kinds = {"ig": "method", "grad": "method", "random": "random", "sobel": "baseline"}
    evaluations = {(TASK, MODEL, "label"): EvaluatorBits(own, shifted, kinds)}
    made = results(cells("roar", {"random": 0.8, "grad": 0.6, "ig": 0.7, "sobel": 0.75}))
    made = Results(made.study, made.table, made.costs, made.protocols, roles=made.roles, evaluations=evaluations)
    answer = made.answer
    assert [judge.label for judge in answer.deciding] == ["evaluator"]
    assert answer.recommended == "ig"
    assert "no evaluator" not in answer.sentence
    assert answer.placing("grad", answer.judges[0]).level in ("undecided", "no better")


def test_a_method_of_a_study_without_defined_scores_is_not_judged_also_where_its_cells_are_done():
    scores = scores_of({"insertion": CONTROLS | {"ig": 0.8, "half_nan": 0.6}})
    own = scores.table["method"] == "half_nan"
    table = scores.table.assign(ranked=~own, note=np.where(own, "undefined for 100 of 200 images", ""))
    made = results(cells("roar", {"random": 0.8, "ig": 0.6, "half_nan": 0.7}).query("estimator != 'half_nan'"))
    scores = replace(scores, table=table)
    made = Results(
        made.study, made.table, made.costs, made.protocols, roles=made.roles, metric_scores={(TASK, MODEL): scores}
    )
    assert made.answer.left_out == {"half_nan": "undefined for 100 of 200 images"}
