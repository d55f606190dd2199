"""Choosing a method for a network that people have: explain, judge by what is valid for what was given, answer.

    answer = uproar.choose(model, images)                 # .sentence, .table, .recommended
    answer = uproar.choose(model, images, labels, train=train, train_labels=train_labels, budget="10m")

Without training images the judges are `road` and `road_lerf`: the most important pixels are filled first, or the least
important ones, and only up to the share of random pixels that this network bears to lose (`in_domain_share`). With
labelled training images fine-tuned copies of the network judge beside them (F-Fidelity, IDSDS). Two checks flag
methods: maps that stay the same for a network with fresh weights, and maps that noise nobody sees changes.

The images come in rounds of 64, 256 and all of them, until the answer stays the same, or the next round would not fit
into the budget at the pace of the last one. Several analyses err more often than one: each planned one spends an equal
share of the error rate, so that all together err no more often than one, whenever they stop: the adjusted p of a pair
is that of Holm's method times the number of planned analyses, and decides at 5 %. A method that fails is left out with
its reason; no other notices.
"""

from __future__ import annotations

import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor, nn

from uproar.api import chain_of
from uproar.data import Split
from uproar.errors import CODE_ERRORS, BadInput, UproarError, one_line
from uproar.estimators import Chain, Context, families, read_chain, require_maps
from uproar.expression import parse
from uproar.metrics.registry import CHECKS, fine_tuning_of
from uproar.results.answer import Answer
from uproar.results.evidence import IN_DOMAIN, in_domain_share
from uproar.results.scores import Scores
from uproar.scoring import checked_maps
from uproar.seeds import Draws
from uproar.statistics.comparisons import decide
from uproar.statistics.design import ALPHA, BASELINE, BASELINES
from uproar.store import Store
from uproar.study.progress import NotebookLine
from uproar.study.spec import METHODS
from uproar.study.subjects import MapMaker, Subject, pieces_of, stored_maps, subject_scores
from uproar.tensors import check_images, check_model, classes_of, in_single, plain, unusual_pixels
from uproar.training import predict
from uproar.wording import duration, seconds_of

FIRST, TIMES = 64, 4
"""Images of the first round, and how many times as many the next one has."""
FEWEST = 8
"""Images below which nothing is judged; so few only where a budget allows no more."""
TRIED = 4
"""Images on which methods and judges are tried and timed."""
CHECKED = 32
"""Images of which the checks are made."""
REACH = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Shares of random pixels filled to see how many the network bears to lose."""
REACHES = (0.1, 0.3, 0.5)
"""Shares up to which pixels are filled: the largest that the network bears; the board has all three."""
POINTS = 17
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
    clock: Callable[[], float] = time.perf_counter
    began: float | None = None
    """When the budget began by the clock; now, if it is not told."""
    left_out: dict[str, str] = field(default_factory=dict)
    costs: dict[str, tuple[float, float]] = field(default_factory=dict)
    """By method: passes and seconds per image."""
    notices: list[str] = field(default_factory=list)
    maps: Mapping[str, Tensor] = field(default_factory=dict)
    """Ready maps of all images, which are methods whatever they are called."""

    def __post_init__(self) -> None:
        self.began = self.clock() if self.began is None else self.began

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - (self.began or 0.0)

    @property
    def left(self) -> float:
        """Seconds that are left of the budget; without one, any number."""
        return math.inf if self.budget is None else self.budget - self.spent

    def scores(self) -> Scores:
        """The scores of as many images as make the answer stable, or as there is time for."""
        chains = self._applicable()
        judges = self._judges()
        counts = interim_image_counts(len(self.subject.x), self._first_round(chains, judges))
        began, n = self.clock(), counts[0]
        result = self._round(n, chains, judges, len(counts))
        pace = (self.clock() - began) / n
        checks = self._checks(result, chains)
        for planned in counts[1:]:
            if pace * planned > self.left:
                again = f"the next round would take about {duration(pace * planned)}"
                self.notices.append(f"Stopped after {n} of {len(self.subject.x)} images: {again}.")
                break
            before, began = result.answer, self.clock()
            result, n = self._round(planned, chains, judges, len(counts)), planned
            pace = (self.clock() - began) / n
            if _same(before, result.answer) and result.answer.recommended and n < len(self.subject.x):
                said = "with more of them the answer stayed the same"
                self.notices.append(f"Stopped after {n} of {len(self.subject.x)} images: {said}.")
                break
        return self._finished(result, checks)

    def _applicable(self) -> list[Chain]:
        """The methods that can explain this network here, controls first, with what each costs per image.

        They are tried by rising number of passes, so that one that is too slow is known before it is tried.
        """
        chains: dict[str, Chain] = {}
        names = dict.fromkeys(name for name in (*BASELINES, *self.methods) if name not in self.maps)
        for name in names:
            try:
                (chains[name],) = require_maps([read_chain(name)])
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        pass_seconds = 0.0
        for name, chain in sorted(chains.items(), key=lambda item: item[1].passes):
            self.tell(f"trying {name}")
            try:
                if not self._too_slow(name, pass_seconds * chain.passes):
                    passes, seconds = self.costs[chain.name] = self._cost(chain)
                    self._too_slow(name, seconds)
                    pass_seconds = seconds / passes if chain.needs_model and passes else pass_seconds
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        found = [chain for name, chain in chains.items() if chain.name in self.costs and name not in self.left_out]
        if all(chain.name in BASELINES for chain in found) and not self.maps:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise BadInput(f"No method explains this network: {reasons or 'name some with --methods'}.")
        return found

    def _too_slow(self, name: str, seconds: float) -> bool:
        """Whether a first round by a method alone would take more than half of the time; it is left out then."""
        slow = name not in BASELINES and FIRST * seconds > self.left / 2
        if slow:
            self.left_out[name] = f"{seconds:.2g} s per image are too many for what was left of {duration(self.budget)}"
        return slow

    def _cost(self, chain: Chain) -> tuple[float, float]:
        """Passes and seconds per image; the second of two explanations is measured, unless the first took long."""
        few = first_images(self.subject, min(TRIED, len(self.subject.x)))
        maker = MapMaker(few, [chain])
        (piece,) = pieces_of(few, [chain], self.store)[:1]
        images = piece.rows.stop - piece.rows.start
        for _ in range(2):
            began = self.clock()
            maker.make(piece)
            seconds = self.clock() - began
            if FIRST * seconds / images > self.left:
                break
        return piece.passes, seconds / images

    def _judges(self) -> list[str]:
        """The metrics that judge: filled images as far as the network bears them, fine-tuned copies where it can."""
        self.tell("measuring robustness to replaced pixels")
        shares = ", ".join(map(str, REACH))
        few, random = first_images(self.subject, min(CHECKED, len(self.subject.x))), [read_chain(BASELINE)]
        metric = f"road(by=probability, fractions=[{shares}])"
        (curves,) = self._scored(few, stored_maps(few, random, self.store), random, [metric]).curves.values()
        mean = np.asarray(curves.lines[BASELINE].mean, dtype=float)
        reach = in_domain_share(list(zip(curves.fractions.tolist(), mean.tolist(), strict=True)))
        if reach < IN_DOMAIN:
            self.notices.append(
                f"The network's accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random: "
                "what it predicts for changed images says little of any map."
            )
        last = max(level for level in REACHES if level <= max(reach, IN_DOMAIN))
        return [*filled_metrics(last), *self._fine_tuned_judges()]

    def _fine_tuned_judges(self) -> list[str]:
        """The judges whose copies of the network are fine-tuned in half of the time that is left."""
        if self.fine_tuner is None or self.budget is None:
            return [] if self.fine_tuner is None else list(FINE_TUNED)
        copies, chosen, total = self.fine_tuner(self.subject.model), list[str](), 0.0
        for name in FINE_TUNED:
            tuning = fine_tuning_of(name)
            seconds = 0.0 if tuning is None else copies.expected_seconds(tuning, self.clock)
            if 2 * (total + seconds) <= self.left:
                chosen.append(name)
                total += seconds
            else:
                self.notices.append(
                    f"`{parse(name).name}` is left out: fine-tuning a copy of the network for it takes about "
                    f"{duration(seconds)}, too long for what was left of {duration(self.budget)}."
                )
        return chosen

    def _first_round(self, chains: Sequence[Chain], judges: Sequence[str]) -> int:
        """How many images begin: fewer than usual where they take more than half of the time, by a short trial."""
        if self.budget is None:
            return FIRST
        self.tell("measuring how long judging takes")
        controls = [read_chain(BASELINE), read_chain("centre")]
        few = first_images(self.subject, min(TRIED, len(self.subject.x)))
        maps = stored_maps(few, controls, self.store)
        self._scored(few, maps, controls, judges)  # fine-tuning, kernels and imports take their time once
        began = self.clock()
        self._scored(few, maps, controls, judges)
        judging = (self.clock() - began) / (len(controls) * len(few.x))
        each = sum(self.costs[chain.name][1] + judging for chain in chains)
        if FEWEST * each > self.left:
            least = math.ceil(1.1 * (self.spent + FEWEST * each))
            raise BadInput(
                f"Nothing can be said within {duration(self.budget)}: {FEWEST} images take about "
                f"{duration(FEWEST * each)} here: give a budget of {least}s."
            )
        return max(FEWEST, min(FIRST, math.floor(min(self.left / 2 / max(each, 1e-9), 1e9))))

    def _round(self, n: int, chains: list[Chain], judges: Sequence[str], analyses: int) -> Scores:
        """The scores of the first images, with verdicts that allow for all planned analyses.

        A method that fails on one of them is left out from now on.
        """
        part = first_images(self.subject, n)
        maps: dict[str, Tensor] = {}
        for group in families(chains):
            self.tell(f"explaining {n} images by {', '.join(chain.name for chain in group)}")
            maps |= self._explained(part, group)
        chains[:] = [chain for chain in chains if chain.name in maps]
        if all(name in BASELINES for name in maps) and not self.maps:
            raise BadInput("No method could explain these images; see what each says: " + _listed(self.left_out) + ".")
        self.tell(f"judging {len(maps) + len(self.maps)} methods on {n} images")
        ordered = {
            **{chain.name: maps[chain.name] for chain in chains},
            **{name: a[:n] for name, a in self.maps.items()},
        }
        return adjusted_for_analyses(self._scored(part, ordered, chains, judges), analyses)

    def _explained(self, part: Subject, group: Sequence[Chain]) -> dict[str, Tensor]:
        """The maps of methods that share passes; where they fail together, each alone."""
        try:
            return stored_maps(part, group, self.store)
        except CODE_ERRORS as error:
            if len(group) == 1:
                self.left_out[group[0].name] = _reason(error)
                return {}
        alone = [self._explained(part, [chain]) for chain in group]
        return {name: maps for each in alone for name, maps in each.items()}

    def _scored(
        self, part: Subject, maps: Mapping[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str]
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
        )

    def _checks(self, scores: Scores, chains: Sequence[Chain]) -> list[Scores]:
        """What the checks say of each method alone, so that one that fails takes none with it; the best come first."""
        methods = [chain for chain in chains if chain.name not in BASELINES and not chain.files]
        methods.sort(key=lambda chain: chain.name not in scores.answer.recommended)
        part = first_images(self.subject, min(CHECKED, int(scores.table["n"].max())))
        result: list[Scores] = []
        unchecked: list[str] = []
        ratio = 0.0  # seconds of a check by those of a map
        for chain in methods:
            cost = self.costs[chain.name][1]
            if ratio * cost > self.left:
                unchecked.append(chain.name)
                continue
            self.tell(f"checking {chain.name}")
            began = self.clock()
            try:
                maps = stored_maps(part, [chain], self.store)
                result.append(self._scored(part, maps, [chain], CHECKS))
                ratio = (self.clock() - began) / max(cost, 1e-9)
            except CODE_ERRORS as error:
                self.notices.append(f"{chain.name} could not be checked: {_reason(error)}.")
        if unchecked:
            self.notices.append(f"The time was over before these methods were checked: {', '.join(unchecked)}.")
        return result

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
    methods: Sequence[str | Callable[..., Tensor]] = METHODS,
    maps: Mapping[str, Tensor] | None = None,
    train: Tensor | None = None,
    train_labels: Tensor | None = None,
    mean: Tensor | None = None,
    budget: float | str | None = None,
    store: str | None = None,
    output: str = "auto",
    seed: int = 0,
) -> Answer:
    """Which attribution method to use for a network, judged on images (n, c, h, w) in [0, 1].

    `y` are the labels; without them the predicted class is explained. `methods` are names and functions, `maps` ready
    maps (n, h, w) by name, judged beside them. Labelled training images (`train`, `train_labels`) add metrics that ask
    fine-tuned copies of the network. `budget` is a time in seconds, or such as
    "10m". Maps are kept in `store`, a folder; without one, until the end. The model is given back as it came.
    """
    check_model(model)
    check_images(x)
    for sentence in unusual_pixels(x):
        warnings.warn(sentence, stacklevel=2)
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
        given = {name: checked_maps(a, images, name) for name, a in (maps or {}).items()}
        names = [each if isinstance(each, str) else chain_of(each, "none", "sum").name for each in methods]
        chooser = Chooser(
            subject, names, place, y is not None, seed, output, tuner, budget=seconds, tell=line.say, maps=given
        )
        answer = chooser.scores().answer
        line.say(f"{len(names) + len(given)} methods judged in {duration(chooser.spent)}", last=True)
        return answer


def _fine_tuner(train: Split, mean: Tensor, seed: int) -> Any:
    from uproar.study.steps import changed_images
    from uproar.training.finetune import FineTunedCopies, KeptInMemory

    kept = KeptInMemory()  # every round asks for the same copies
    return lambda model: FineTunedCopies(model, changed_images(train), train.labels, mean, seed, kept)


def filled_metrics(last: float) -> list[str]:
    """The metrics that need no training, up to a share of the pixels."""
    fractions = ", ".join(f"{share:.3g}" for share in np.linspace(0, last, POINTS))
    return [f"{name}(by=probability, fractions=[{fractions}])" for name in ("road", "road_lerf")]


def first_images(subject: Subject, n: int) -> Subject:
    """The first images of a subject."""
    rows = slice(0, n)
    return replace(subject, x=subject.x[rows], target=subject.target[rows], context=subject.context[rows])


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
    frame = pd.concat([decide(own, ALPHA / analyses) for _, own in pairs], ignore_index=True)
    adjusted = (frame["p_holm"] * analyses).clip(upper=1.0)
    return replace(scores, comparisons=frame.assign(p_holm=adjusted, analyses=analyses))


def _same(before: Answer, after: Answer) -> bool:
    """Whether two answers recommend the same methods."""
    return set(before.recommended) == set(after.recommended)


def _reason(error: BaseException) -> str:
    """Why a method was left out, in one line."""
    return str(error).rstrip(".") if isinstance(error, UproarError) else one_line(error).rstrip(".")


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())
