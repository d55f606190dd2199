"""Choosing a method for a network that people have: explain, judge by what is valid for what was given, answer.

    answer = uproar.choose(model, images)                 # .sentence, .table, .recommended
    answer = uproar.choose(model, images, labels, train=train, train_labels=train_labels, budget="10m")

Without training images the judges are `road` and `road_lerf`: the most important pixels are filled first, or the least
important ones, and only up to the share of random pixels that this network bears to lose (`in_domain_share`). With
labelled training images fine-tuned copies of the network judge beside them (F-Fidelity, IDSDS). Two checks flag
methods: maps that stay the same for a network with fresh weights, and maps that noise nobody sees changes.

Some images come first, then four times as many, until the answer stays the same, no images are left, or the time is
over. A budget is kept by what steps take on this machine now: each is timed, and none begins that is not expected to
end in time (`TimeBudget`); expensive methods and images are left out before. Several analyses err more often than one:
each planned interim analysis spends an equal share of the error rate, so that all together err no more often than one,
whenever they stop: the adjusted p of a pair is that of Holm's method times the number of planned analyses, and decides
at 5 %. A method that fails is left out with its reason; no other notices.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from uproar.checks import check_images, check_model, classes_of, in_single, plain
from uproar.data import Split
from uproar.errors import CODE_ERRORS, BadInput, UproarError, one_line
from uproar.estimators import Chain, Context, families, read_chain, require_maps
from uproar.expression import parse
from uproar.metrics.flagging import CHECKS
from uproar.metrics.probabilities import follows_values
from uproar.metrics.registry import fine_tuning_of
from uproar.models.output_kind import assuming_output
from uproar.notebook import NotebookLine
from uproar.remaining_time import duration, seconds_of
from uproar.results.answer import Answer
from uproar.results.evidence import IN_DOMAIN, in_domain_share
from uproar.results.scores import Scores
from uproar.scoring.evaluation import TOGETHER
from uproar.seeds import Draws
from uproar.statistics.comparisons import comparisons_at
from uproar.statistics.design import ALPHA, BASELINE, BASELINES
from uproar.storage.store import Store
from uproar.study.maps import MapMaker, Subject, pieces_of, stored_maps
from uproar.study.spec import METHODS
from uproar.study.subject_scores import subject_scores
from uproar.study.time_budget import TimeBudget
from uproar.training import predict

FIRST, TIMES = 64, 4
"""Images of the first round, and how many times as many the next one has."""
FEWEST = 8
"""Images below which nothing is judged: a budget that is too short for so many leaves methods out instead."""
TRIED = 4
"""Images by which steps are timed before they begin."""
CHECK_PASSES = 3.0
"""How many times as long as explaining them the checks of some images take, until one was made."""
FOR_METHODS, FOR_FIRST, FOR_REACH = 0.25, 0.4, 0.1
"""Shares of the time that is left: for the fewest images by all methods, for the first round, for the reach."""
PAGE_BY_SPENT = 0.25
"""How long the page of two methods takes, as a share of all that was spent before it; until one was written."""
PAGE_BY_METHODS = 0.3
"""How much longer than the page of two methods a page takes, for each further one."""
CHECKED = 32
"""Images of which the checks are made."""
REACH = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Shares of random pixels filled to see how many the network bears to lose."""
POINTS = 5
"""Points of a judging curve that every image is shown at, of which the first is the image as it is."""
FINE_TUNED = ("ffid_plus(draws=10, sizes=[0.1, 0.3, 0.5])", "idsds")
"""Judges for which a copy of the network is fine-tuned."""

Tell = Callable[[str], None]
"""Says what is being done."""


@dataclass
class Chooser:
    """The images with their network, and what is found of the methods on them."""

    subject: Subject
    methods: Sequence[str]
    store: Store
    labelled: bool = True
    seed: int = 0
    output: Any = "auto"
    fine_tuner: Any = None
    """Makes fine-tuned copies of the network, where there are training images."""
    titles: Sequence[str] = ()
    budget: float | None = None
    """Seconds."""
    tell: Tell = lambda _: None
    write: Callable[[Scores], object] | None = None
    """Writes a page of scores to nowhere: time is kept for as long as the page of the answer takes by it."""
    clock: Callable[[], float] = time.perf_counter
    began: float | None = None
    """When the budget began by the clock; now, if it is not told."""
    left_out: dict[str, str] = field(default_factory=dict)
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By method: passes and seconds per image."""
    notices: list[str] = field(default_factory=list)
    timer: TimeBudget = field(init=False)

    def __post_init__(self) -> None:
        self.timer = TimeBudget(self.budget, self.clock, self.began)

    def scores(self) -> Scores:
        """The scores of as many images as make the answer stable, or as there is time for."""
        chains = self._applicable()
        judges = self._judges()
        self._measure_judging(judges)
        chains = self._affordable(chains)
        n, *later = counts = interim_image_counts(len(self.subject.x), self._first_round(chains))
        analyses = len(counts)
        result = self._round(n, chains, judges, analyses)
        assert result is not None  # the first round leaves methods out, never all of them
        checks = self._checks(result, chains)
        why = "the time is over"
        for planned in later:
            n_next = self._in_time(planned, chains)
            if n_next < min(2 * n, planned):
                break
            more = self._round(n_next, chains, judges, analyses, later=True)
            if more is None:
                break
            stable = _same(result.answer, more.answer) and bool(more.answer.recommended)
            result, n = more, _images_of(more)
            if stable:
                why = "with more of them the answer stayed the same"
                break
        n = _images_of(result)
        if n < len(self.subject.x):
            self.notices.append(f"Judged on the first {n} of {len(self.subject.x)} images: {why}.")
        return self._finished(result, checks)

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.timer.spent

    def _applicable(self) -> list[Chain]:
        """The methods that can explain this network here, controls first, with what each costs per image.

        They are tried by rising number of passes, so that one that is too slow is known before it is tried.
        """
        chains: dict[str, Chain] = {}
        names = dict.fromkeys([*BASELINES, *self.methods])
        for name in names:
            try:
                (chains[name],) = require_maps([read_chain(name)])
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        for name, chain in sorted(chains.items(), key=lambda item: _passes(item[1])):
            self.tell(f"trying {name}")
            each = self.timer.expected("pass", _passes(chain))
            if not self.timer.allows((TRIED + FEWEST) * each / FOR_METHODS):
                self.left_out[name] = self._too_slow(each)
                continue
            try:
                self.costs[chain.name] = self._cost(chain, each)
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        found = [chains[name] for name in names if name in chains and chains[name].name in self.costs]
        if all(chain.name in BASELINES for chain in found):
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise BadInput(f"No method explains this network: {reasons or 'name some with --methods'}.")
        return found

    def _too_slow(self, each: float) -> str:
        return f"{each:.2g} s per image are too many for what was left of {duration(self.budget)}"

    def _cost(self, chain: Chain, expected: float) -> tuple[float, float]:
        """Passes and seconds per image; the second of two explanations is measured, or the first if it took long."""
        n = TRIED if self.timer.allows(TRIED * expected / FOR_REACH) else 1
        few = _first(self.subject, min(n, len(self.subject.x)))
        maker = MapMaker(few, [chain])
        (piece,) = pieces_of(few, [chain], self.store)[:1]
        images = piece.rows.stop - piece.rows.start
        for _ in range(2):
            began = self.clock()
            maker.make(piece)
            seconds = self.clock() - began
            if not self.timer.allows(seconds / FOR_REACH):
                break
        if chain.needs_model:
            self.timer.took("pass", images * max(piece.passes, 1.0), seconds)
        self.timer.took(("explain", chain.name), images, seconds)
        return piece.passes, seconds / images

    def _judges(self) -> list[str]:
        """The metrics that judge: filled images as far as the network bears them, fine-tuned copies where it can."""
        self.tell("measuring robustness to replaced pixels")
        shares = ", ".join(map(str, REACH))
        scores = self._random_filled(f"road(by=probability, fractions=[{shares}])")
        (curves,) = scores.curves.values()
        mean = np.asarray(curves.lines[BASELINE].mean, dtype=float)
        reach = in_domain_share(list(zip(curves.fractions.tolist(), mean.tolist(), strict=True)))
        if reach < IN_DOMAIN:
            self.notices.append(
                f"The network's accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random: "
                "what it predicts for changed images says little of any map."
            )
        last = max(reach, IN_DOMAIN)
        fractions = ", ".join(f"{share:.3g}" for share in np.linspace(0, last, POINTS))
        with assuming_output(self.subject.output):
            between = "" if follows_values() else ", points=adaptive"
        filled = [f"{name}(by=probability, fractions=[{fractions}]{between})" for name in ("road", "road_lerf")]
        return [*filled, *self._fine_tuned_judges()]

    def _random_filled(self, metric: str) -> Scores:
        """The scores of random maps of as many images as there is time for."""
        random, most = [read_chain(BASELINE)], min(CHECKED, len(self.subject.x))

        def scored(n: int) -> Scores:
            part = _first(self.subject, n)
            with self.timer.timing("reach", n):
                return self._scored(part, stored_maps(part, random, self.store), random, [metric])

        if self.budget is None:
            return scored(most)
        first = scored(min(TRIED, most))
        n = min(most, max(FEWEST, _whole(self.timer.left * FOR_REACH / self.timer.expected("reach", otherwise=1e-9))))
        return scored(n) if n > TRIED and self.timer.allows(self.timer.expected("reach", n)) else first

    def _fine_tuned_judges(self) -> list[str]:
        """The judges whose copies of the network are fine-tuned in time."""
        if self.fine_tuner is None:
            return []
        if self.budget is None:
            return list(FINE_TUNED)
        copies, chosen, total = self.fine_tuner(self.subject.model), list[str](), 0.0
        for name in FINE_TUNED:
            tuning = fine_tuning_of(name)
            seconds = 0.0 if tuning is None else copies.expected_seconds(tuning, self.clock)
            if self.timer.allows(2 * (total + seconds)):
                chosen.append(name)
                total += seconds
            else:
                self.notices.append(
                    f"`{parse(name).name}` does not judge: fine-tuning a copy of the network for it takes about "
                    f"{duration(seconds)}, too long for what was left of {duration(self.budget)}."
                )
        return chosen

    def _measure_judging(self, judges: Sequence[str]) -> None:
        """Time judging and writing on few images of two rankings, one of scattered pixels and one of a patch.

        Both are done once before: fine-tuning, kernels and imports take their time once, for any number of methods.
        """
        if self.budget is None:
            return
        self.tell("measuring how long judging takes")
        chains = [read_chain(BASELINE), read_chain("centre")]
        few = _first(self.subject, min(TRIED, len(self.subject.x)))
        maps = stored_maps(few, chains, self.store)
        self._scored(few, maps, chains, judges)
        with self.timer.timing("judge", len(chains) * len(few.x)):
            scores = self._scored(few, maps, chains, judges)
        if self.write is not None:
            guess = PAGE_BY_SPENT * self.spent
            if not self.timer.allows(guess):
                self.timer.kept = guess
                raise BadInput(self._too_short(self.timer.expected("judge", FEWEST * (len(BASELINES) + 1))))
            began = self.clock()
            self.write(self._finished(scores, []))
            if self.timer.allows(self.clock() - began):
                with self.timer.timing("page"):
                    self.write(self._finished(scores, []))
            else:
                self.timer.took("page", 1, self.clock() - began)

    def _keep_for_page(self, methods: int) -> None:
        """Keep the time that a page of so many methods takes."""
        self.timer.kept = self.timer.expected("page", 1 + PAGE_BY_METHODS * (methods - 2))

    def _affordable(self, chains: list[Chain]) -> list[Chain]:
        """The methods that can be judged on the fewest images in a part of the time that is left, cheap ones first.

        Controls and the cheapest method are never left out: without them nothing can be said.
        """
        if self.budget is None:
            return chains
        cheap = sorted((c for c in chains if c.name not in BASELINES), key=lambda chain: self.costs[chain.name][1])
        kept = [*(c for c in chains if c.name in BASELINES), cheap[0]]
        smallest = self._seconds(FEWEST, kept)
        self._keep_for_page(len(kept))
        if not self.timer.allows(smallest):
            raise BadInput(self._too_short(smallest))
        for chain in cheap[1:]:
            self._keep_for_page(len(kept) + 1)
            if self.timer.allows(self._seconds(FEWEST, [*kept, chain]) / FOR_METHODS):
                kept.append(chain)
            else:
                self.left_out[chain.name] = self._too_slow(self.costs[chain.name][1] + self.timer.expected("judge"))
        self._keep_for_page(len(kept))
        return [chain for chain in chains if chain in kept]

    def _too_short(self, seconds: float) -> str:
        """What can be said where the budget is too short for the smallest round: how long that takes, and the costs."""
        least = math.ceil(1.1 * (self.spent + seconds + self.timer.kept))
        costs = ", ".join(
            f"{name} {1000 * each:.2g}" for name, (_, each) in self.costs.items() if name not in BASELINES
        )
        return (
            f"Nothing can be judged within {duration(self.budget)}: the smallest round, {FEWEST} images by one method "
            f"and {len(BASELINES)} rankings to compare it with, takes about {duration(seconds)} here, and all at least "
            f"{duration(least)}: give a budget of {least}s. Milliseconds per map: {costs}."
        )

    def _seconds(self, n: int, chains: Sequence[Chain]) -> float:
        """How long a round of so many images is expected to take: maps that are not there yet, and all scores."""
        judging = self.timer.expected("judge", n * len(chains)) + self.timer.expected("answer")
        return self._explaining(n, chains) + judging

    def _explaining(self, n: int, chains: Sequence[Chain]) -> float:
        """How long the maps of so many images take that are not there yet."""
        pieces = pieces_of(_first(self.subject, n), chains, self.store)
        new = [(c, piece.rows.stop - piece.rows.start) for piece in pieces if not piece.there for c in piece.group]
        return sum(self.timer.expected(("explain", chain.name), images) for chain, images in new)

    def _first_round(self, chains: Sequence[Chain]) -> int:
        """How many images begin: fewer than usual where a part of the time would not do for them."""
        if self.budget is None:
            return FIRST
        each = self._seconds(FEWEST, chains) / FEWEST
        return max(FEWEST, min(FIRST, _whole(self.timer.left * FOR_FIRST / max(each, 1e-9))))

    def _in_time(self, planned: int, chains: Sequence[Chain]) -> int:
        """As many images of a planned round as are expected to be judged in time."""
        seconds = self._seconds(planned, chains)
        if self.timer.allows(seconds):
            return planned
        return max(0, math.floor(planned * self.timer.left / seconds))

    def _round(
        self, n: int, chains: list[Chain], judges: Sequence[str], analyses: int, later: bool = False
    ) -> Scores | None:
        """The scores of the first images, with verdicts that allow for all planned analyses.

        A method that fails on one of them is left out from now on. Where steps take longer than expected, the first
        round leaves methods out, and a later one is given up.
        """
        part = _first(self.subject, n)
        maps: dict[str, Tensor] = {}
        for group in sorted(families(chains), key=lambda group: self._explaining(n, group)):
            rest = self._explaining(n, group) + self.timer.expected("judge", n * (len(maps) + len(group)))
            if not self.timer.allows(rest) and (later or any(name not in BASELINES for name in maps)):
                if later:
                    return None
                self.left_out |= {chain.name: self._too_slow(self._explaining(n, [chain]) / n) for chain in group}
                continue
            self.tell(f"explaining {n} images by {', '.join(chain.name for chain in group)}")
            maps |= self._explained(part, group)
        chains[:] = [chain for chain in chains if chain.name in maps]
        if all(name in BASELINES for name in maps):
            raise BadInput("No method could explain these images; see what each says: " + _listed(self.left_out) + ".")
        self.tell(f"judging {len(maps)} methods on {n} images")
        ordered = {chain.name: maps[chain.name] for chain in chains}
        scores = self._judged(part, ordered, chains, judges)
        with self.timer.timing("answer"):
            result = adjusted_for_analyses(scores, analyses)
            _ = result.answer
        return result

    def _explained(self, part: Subject, group: Sequence[Chain]) -> dict[str, Tensor]:
        """The maps of methods that share passes; where they fail together, each alone."""
        made = self._explaining(len(part.x), group) > 0
        began = self.clock()
        try:
            maps = stored_maps(part, group, self.store)
        except CODE_ERRORS as error:
            if len(group) == 1:
                self.left_out[group[0].name] = _reason(error)
                return {}
        else:
            for chain in group if made else ():
                self.timer.took(("explain", chain.name), len(part.x) * len(group), self.clock() - began)
            return maps
        alone = [self._explained(part, [chain]) for chain in group]
        return {name: maps for each in alone for name, maps in each.items()}

    def _judged(
        self, part: Subject, maps: Mapping[str, Tensor], chains: Sequence[Chain], judges: Sequence[str]
    ) -> Scores:
        """The scores of the maps; where they take longer than expected, those of the first images."""
        began, done = self.clock(), 0

        def listen(_: str, images: int, whole: int, __: float) -> None:
            nonlocal done
            done = max(done, whole)

        def over() -> bool:
            step = (self.clock() - began) * min(TOGETHER, len(part.x) - done) / max(done, 1)
            return not self.timer.allows(step)

        scores = self._scored(part, maps, chains, judges, listen=listen, over=over)
        self.timer.took("judge", _images_of(scores) * len(chains), self.clock() - began)
        return scores

    def _scored(
        self,
        part: Subject,
        maps: Mapping[str, Tensor],
        chains: Sequence[Chain],
        metrics: Sequence[str],
        **progress: Any,
    ) -> Scores:
        return subject_scores(
            part,
            dict(maps),
            chains,
            metrics,
            output=self.output,
            seed=self.seed,
            labelled=self.labelled,
            fine_tuner=self.fine_tuner if any(name in FINE_TUNED for name in metrics) else None,
            **progress,
        )

    def _checks(self, scores: Scores, chains: Sequence[Chain]) -> list[Scores]:
        """What the checks say of each method alone, so that one that fails takes none with it; the best come first."""
        best = [*scores.answer.recommended]
        methods = [chain for chain in chains if chain.name not in BASELINES and not chain.files]
        methods.sort(key=lambda chain: chain.name not in best)
        n = self._checked_images(_images_of(scores), methods)
        part = _first(self.subject, n)
        result: list[Scores] = []
        unchecked: list[str] = []
        for chain in methods:
            each = self.costs[chain.name][1]
            work = n * each
            if not self.timer.allows(self.timer.expected("check", work, CHECK_PASSES)):
                unchecked.append(chain.name)
                continue
            self.tell(f"checking {chain.name}")
            try:
                with self.timer.timing("check", work):
                    maps = stored_maps(part, [chain], self.store)
                    result.append(self._scored(part, maps, [chain], CHECKS))
            except CODE_ERRORS as error:
                self.notices.append(f"{chain.name} could not be checked: {_reason(error)}.")
        if unchecked:
            self.notices.append(f"The time was over before these methods were checked: {', '.join(unchecked)}.")
        return result

    def _checked_images(self, judged: int, methods: Sequence[Chain]) -> int:
        """How many images the checks are made of: fewer than usual where they would take half of the time left."""
        most = min(CHECKED, judged)
        each = CHECK_PASSES * sum(self.costs[chain.name][1] for chain in methods)
        return (
            most if self.timer.allows(2 * most * each) else max(min(FEWEST, most), _whole(self.timer.left / 2 / each))
        )

    def _finished(self, scores: Scores, checks: Sequence[Scores]) -> Scores:
        """The scores with checks, costs, and what was left out."""
        frames = [scores, *checks]
        costs = [
            {
                "estimator": name,
                "passes": passes,
                "milliseconds_per_image": 1000 * seconds,
                "constant_maps": 0,
                "explained_images": 0,
            }
            for name, (passes, seconds) in self.costs.items()
            if name in scores.maps
        ]
        titles = tuple(self.titles[: len(scores.titles)]) or scores.titles
        return replace(
            scores,
            table=pd.concat([one.table for one in frames], ignore_index=True),
            per_image=pd.concat([one.per_image for one in frames], ignore_index=True),
            comparisons=pd.concat(
                [one.comparisons for one in frames if len(one.comparisons)] or [scores.comparisons], ignore_index=True
            ),
            forwards=sum(one.forwards for one in frames),
            notices=tuple(dict.fromkeys([*scores.notices, *self.notices])),
            titles=titles,
            costs=pd.DataFrame(costs),
            left_out=dict(self.left_out),
        )


def choose(
    model: nn.Module,
    x: Tensor,
    y: Tensor | Sequence[int] | None = None,
    *,
    methods: Sequence[str] = METHODS,
    train: Tensor | None = None,
    train_labels: Tensor | None = None,
    mean: Tensor | None = None,
    budget: float | str | None = None,
    store: str | None = None,
    output: str = "auto",
    seed: int = 0,
) -> Answer:
    """Which attribution method to use for a network, judged on images (n, c, h, w) in [0, 1].

    `y` are the labels; without them the predicted class is explained. Labelled training images (`train`,
    `train_labels`) add judges that ask fine-tuned copies of the network. `budget` is a time in seconds, or such as
    "10m". Maps are kept in `store`, a folder; without one, until the end. The model is given back as it came.
    """
    check_model(model)
    check_images(x)
    if (train is None) != (train_labels is None):
        raise BadInput("Training images and their labels go together: give train= and train_labels=, or neither.")
    images = in_single(plain(x)).cpu()
    answers = predict(model, images)
    target = answers.argmax(1) if y is None else classes_of(plain(y), len(images), "labels").cpu()
    split = None if train is None else Split("train", train, classes_of(train_labels, len(train), "train_labels"))
    colour = mean if mean is not None else (images if train is None else train).mean((0, 2, 3))
    context = Context(Draws.of(seed, len(images)), colour, split)
    seconds = seconds_of(budget, "budget=") if isinstance(budget, str) else budget
    with tempfile.TemporaryDirectory() as temporary:
        place = Store(store or temporary)
        subject = Subject(model, images, target, context)
        tuner = None if split is None else _fine_tuner(split, colour, seed)
        line = NotebookLine()
        chooser = Chooser(subject, methods, place, y is not None, seed, output, tuner, budget=seconds, tell=line.say)
        answer = chooser.scores().answer
        line.say(f"{len(methods)} methods judged in {duration(chooser.spent)}", last=True)
        return answer


def _fine_tuner(train: Split, mean: Tensor, seed: int) -> Any:
    from uproar.study.changed_images import changed_images
    from uproar.training.finetune import FineTunedCopies, KeptInMemory

    kept = KeptInMemory()  # every round asks for the same copies
    return lambda model: FineTunedCopies(model, changed_images(train), train.labels, mean, seed, kept)


def _first(subject: Subject, n: int) -> Subject:
    """The first images of a subject."""
    rows = slice(0, n)
    return replace(subject, x=subject.x[rows], target=subject.target[rows], context=subject.context[rows])


def _images_of(scores: Scores) -> int:
    """How many images were judged."""
    return int(scores.table["n"].max())


def _passes(chain: Chain) -> float:
    return float(chain.passes_for(10))


def _whole(number: float) -> int:
    """A number of images that need not be finite."""
    return math.floor(min(number, 1e9))


def interim_image_counts(images: int, first: int) -> tuple[int, ...]:
    """How many images each interim analysis has: `first`, then four times as many, until there are no more.

    >>> interim_image_counts(500, 64), interim_image_counts(40, 64)
    ((64, 256, 500), (40,))
    """
    counts = [min(first, images)]
    while counts[-1] < images:
        counts.append(min(TIMES * counts[-1], images))
    return tuple(counts)


def adjusted_for_analyses(scores: Scores, analyses: int) -> Scores:
    """Scores whose adjusted p are also multiplied by the number of planned analyses, which a column names.

    A pair is decided where this p is at most 5 %, that is at an equal share of the error rate in each analysis.
    """
    if scores.comparisons.empty:
        return scores
    pairs = scores.comparisons.groupby("metric", sort=False)
    frame = pd.concat([comparisons_at(own, "images", ALPHA / analyses) for _, own in pairs], ignore_index=True)
    adjusted = (frame["p_holm"] * analyses).clip(upper=1.0)
    return replace(scores, comparisons=frame.assign(p_holm=adjusted, analyses=analyses))


def _same(before: Answer, after: Answer) -> bool:
    """Whether two answers recommend the same method and name the same ones beside it."""
    return set(before.recommended) == set(after.recommended)


def _reason(error: BaseException) -> str:
    """Why a method was left out, in one line."""
    return str(error).rstrip(".") if isinstance(error, UproarError) else one_line(error).rstrip(".")


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())
