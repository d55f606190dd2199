"""`uproar report` and `uproar compare`: the page, tables and claims of what is finished; two runs or methods beside
each other."""

from __future__ import annotations

import math
import webbrowser
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from uproar.cli.interrupt import keeping
from uproar.cli.options import RunAt, Trust, argument, check_folder, flag, names, option
from uproar.cli.progress import watched
from uproar.cli.results import add_scores_to_json, finish, interval_text, number_text, p_text, print_results
from uproar.cli.screen import add_to_json, output, print_file, print_table, some, styled
from uproar.errors import BadInput
from uproar.wording import counted, setting_text

if TYPE_CHECKING:
    import pandas as pd

    from uproar.results.difference import Difference


def report(
    run: RunAt,
    show: Annotated[bool, flag("--open", "Open the page in the browser")] = False,
    latex: Annotated[Path | None, option("FOLDER", "Instead write LaTeX tables and PDF figures here")] = None,
    markdown: Annotated[Path | None, option("FOLDER", "Instead write a Markdown page here")] = None,
    claims: Annotated[list[str] | None, names("claims", "Test these claims (uproar ls claims)")] = None,
    out: Annotated[Path | None, option("FOLDER", "Write the page here", default="FOLDER")] = None,
) -> int:
    """Write the report of a run or of scores: page, tables, LaTeX, claims.

    It shows whatever is finished, also while the run goes on.
    """
    if markdown is not None and latex is not None:
        raise BadInput("--markdown and --latex write different things: give one at a time.")
    target = latex or markdown or out or run.folder
    check_folder(target)
    from uproar.results.scores import Scores  # torch loads slowly
    from uproar.study.sessions import open as open_results

    with watched("collecting the results") as watch, keeping("The results are as they were."):
        if claims is not None:
            from uproar.papers.claims import claims_named, judge

            claims = some("--claims", claims, ())
            claims_named(claims)  # an unknown name is refused before results are collected
        results = open_results(run.folder, weights=run.weights, store=run.store, trust=run.trust)
        watch.say("drawing the page and its figures")
        if isinstance(results, Scores):
            from uproar.report import write_latex, write_report

            if markdown is not None or claims is not None:
                raise BadInput("--markdown and --claims are for runs: scores have their page and --latex.")
            page = write_report(results, target) if latex is None else write_latex(results, latex)
        else:
            results = results if claims is None else replace(results, claims=tuple(judge(results, claims)))
            page = results.report(target, "latex" if latex else "markdown" if markdown else "html")
    if isinstance(results, Scores):
        add_scores_to_json(results, page)
        print_file("Report", page)
        code = 0
    else:
        print_results(results)
        code = finish(results, page, run.folder)
    if show:
        webbrowser.open(page.resolve().as_uri())
    return code


def compare(
    first: Annotated[Path, argument("RUN", "Folder of a run or of scores")],
    other: Annotated[str, argument("RUN|METHOD", "Another run, or a method")],
    against: Annotated[str | None, argument("METHOD", "The method to compare it with; without one, each")] = None,
    trust: Trust = False,
) -> int:
    """Compare two runs, or two methods of one run.

    Of runs: settings, values, verdicts, with exit code 1 if verdicts changed.

    uproar compare runs/a runs/b

    uproar compare runs/a ig grad
    """
    from uproar.results.scores import Scores  # torch loads slowly
    from uproar.study.sessions import open as open_results
    from uproar.study.sessions import open_folder

    if Path(other).is_dir():
        if against is not None:
            raise BadInput("Two runs are compared as a whole: name two runs, or one run and its methods.")
        from uproar.results.difference import compare as difference_of  # tables load slowly

        with watched("collecting the results"):
            difference = difference_of(open_folder(first, trust=trust), open_folder(Path(other), trust=trust))
        print_difference(difference)
        return 1 if len(difference.decisive) else 0
    with watched("collecting the results"):
        results = open_results(first, trust=trust)
        if isinstance(results, Scores):
            pairs, levels = results.comparisons.rename(columns={"metric": "measure"}), dict[str, float]()
        else:
            from uproar.metrics.retraining import RETRAININGS

            pairs, levels = results.comparisons, dict.fromkeys(RETRAININGS, results.comparison_alpha)
    known = list(dict.fromkeys([*pairs["better"], *pairs["worse"]]))
    for name in (other, *([against] if against else [])):
        if name not in known:
            raise BadInput(f"{first} has no method {name!r} to compare; it has {', '.join(known) or 'none'}.")
    add_to_json(comparisons=print_pairs(pairs, levels, other, against))
    return 0


def print_difference(difference: Difference) -> None:
    """Settings, values and verdicts that differ between two runs: verdicts of evaluators first."""
    add_to_json(
        settings=[{"setting": name, "before": a, "after": b} for name, (a, b) in difference.settings.items()],
        values=asdict(difference.values),
        verdicts=difference.verdicts,
        matters=len(difference.decisive) > 0,
        sentence=difference.sentence,
    )
    rows = [(name, *map(setting_text, values)) for name, values in difference.settings.items()]
    if rows:
        print_table("Settings that differ", ("setting", "before", "after"), rows)
    else:
        output.say("The studies are the same.")
    output.say(f"Values: {difference.values.sentence}.")
    several = len(difference.verdicts[["task", "model"]].drop_duplicates()) > 1
    for unit, scale, form, words in (
        ("bits", 1, "{:+.3f}", "score against random, in bits"),
        ("accuracy", 100, "{:+.1f}", "area against random, in points of accuracy, mean average precision or R²"),
    ):
        rows = []
        for row in difference.decisive[difference.decisive["unit"] == unit].itertuples():
            metric = f"{row.metric} on {row.task} with {row.model}" if several else row.metric
            advantages = [number_text(scale * value, form) for value in (row.advantage_before, row.advantage_after)]
            rows.append((metric, row.estimator, row.before, row.after, *advantages))
        if rows:
            columns = ("metric", "method", "before", "after", ">advantage before", ">after")
            print_table(f"Verdicts that changed ({words})", columns, rows)
    output.say(difference.sentence)


def print_pairs(pairs: pd.DataFrame, levels: dict[str, float], method: str, against: str | None) -> pd.DataFrame:
    """A table per metric: how far a method leads, corrected over the pairs shown; the rows of all of them.

    `levels` are those of the tests of metrics that retrain.
    """
    import pandas as pd

    from uproar.statistics.comparisons import comparisons_with
    from uproar.statistics.design import ALPHA

    places = [name for name in ("task", "model") if name in pairs]
    if against is not None:
        pairs = pairs[(pairs["better"] == against) | (pairs["worse"] == against)]
    frames = []
    for key, group in pairs.groupby([*places, "measure"], sort=False):
        metric, retrained = str(key[-1]), key[-1] in levels
        frame = comparisons_with(group, method, levels.get(metric, ALPHA))
        frames.append(frame)
        scale, form = (100, "{:+.1f}") if retrained else (1, "{:+.3f}")
        rows = []
        for row in frame.itertuples():
            ahead = row.better == method
            towards = scale * (1 if ahead == (row.difference >= 0) else -1)
            lead = number_text(towards * row.difference, form)
            low, high = sorted((towards * row.low, towards * row.high))
            verdict = ("better", "green") if ahead else ("worse", "red")
            if row.side != 1:
                verdict = ("not tested" if math.isnan(row.p_holm) else "not significant", "yellow")
            rival = row.worse if ahead else row.better
            rows.append((rival, lead, interval_text(low, high, form), p_text(row.p_holm), str(row.n), styled(verdict)))
        where = f" on {key[0]} with {key[1]}" if places else ""
        print_table(
            f"{metric}{where}: lead of {method}{', points' * retrained} ({counted(len(frame), 'pair')}, Holm)",
            ("against", ">lead", ">95 % CI", ">p (Holm)", ">n", "verdict"),
            rows,
        )
    return pd.concat(frames, ignore_index=True) if frames else pairs
