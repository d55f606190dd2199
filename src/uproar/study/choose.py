"""Choosing a method for a network that people have: explain, score by what is valid for the images, recommend.

    answer = uproar.choose(model, images)                 # .sentence, .table, .recommended
    answer = uproar.choose(model, images, labels, train=train, train_labels=train_labels, budget="10m")

Without training images the metrics are `insertion` and `deletion`, which together order methods best on the board
(docs/board.md). A network that does not bear that random pixels get the mean colour (`in_domain_share`) is asked by
`road` and `road_lerf`, which fill pixels from their neighbours, and only as far as the network bears that. With
labelled training images fine-tuned copies of the network take part (F-Fidelity, IDSDS). Two checks flag methods: maps
that stay the same for a network with fresh weights, and maps that noise nobody sees changes.

The images come in rounds of 64, 256 and all of them, until the answer stays the same, or the next round would not fit
into the budget at the pace of the last one. Several analyses err more often than one: each planned one spends an equal
share of the error rate, so that all together err no more often than one, whenever they stop: the adjusted p of a pair
is that of Holm's method times the number of planned analyses, and decides at 5 %. A method that fails is left out with
its reason; no other notices.
"""

from __future__ import annotations

import base64
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from uproar.api import declared_method
from uproar.data import Split
from uproar.errors import CODE_ERRORS, BadInput, UproarError, one_line
from uproar.estimators import Chain, Context, estimators, families, read_chain, require_maps
from uproar.estimators.layers import layer_candidates
from uproar.expression import Call, parse
from uproar.metrics.registry import CHECKS, fine_tuning_of
from uproar.models.given import read_given, taking_pixels
from uproar.models.output_kind import Output, assuming_output, predicted_target, recognise_output, sum_tolerance
from uproar.registry import option_types
from uproar.results.answer import Answer
from uproar.results.difference import Difference
from uproar.results.difference import compare as compare_runs
from uproar.results.evidence import IN_DOMAIN, in_domain_share
from uproar.results.plots import plot_scores
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.scoring import checked_maps
from uproar.seeds import Draws
from uproar.statistics.comparisons import decide
from uproar.statistics.design import ALPHA, BASELINE, BASELINES
from uproar.statistics.intervals import Measurements, required_sample_size
from uproar.store import Store
from uproar.study.progress import NotebookLine
from uproar.study.spec import METHODS
from uproar.study.subjects import Subject, stored_maps, subject_scores
from uproar.tensors import check_like, check_model, classes_of, colour_of, in_single, plain, unusual_pixels
from uproar.training import predict
from uproar.wording import duration, seconds_of

FIRST, TIMES = 16, 4
"""Images of the first round, and how many times as many the next one has."""
FEWEST = 8
"""Images below which nothing is scored; so few only where a budget allows no more."""
TRIED = 4
"""Images on which methods and metrics are tried and timed."""
CHECKED = 16
"""Images of which the checks are made."""
SHARE = 0.85
"""Of a budget, for the rounds: checks and the page take the rest."""
REACH = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 1.0)
"""Shares of random pixels filled to see how many the network bears to lose."""
REACHES = (0.1, 0.3, 0.5)
"""Shares up to which pixels are filled: the largest that the network bears; the board has all three."""
POINTS = 3
"""Points of a curve, of which the first is the image as it is. More images separate methods sooner than more
points: on 100 pictures t values of ROAD with 3 points are 10 % below those with 17, for an eighth of the time."""
PICKED_BY = "road_gap(by=probability, fractions=[0, 0.15, 0.3])"
"""The metric by which the best of many variants is picked."""
FILLED = ("insertion(steps=16)", "deletion(steps=16)")
"""The metrics that need no training: those that together order methods best on the board."""
FINE_TUNED = ("ffid_plus(draws=10, sizes=[0.1, 0.3, 0.5])", "idsds")
"""Metrics for which a copy of the network is fine-tuned."""

Tell = Callable[[str, float], None]
"""Says what is being done, and how many seconds are left at most (NaN: nobody knows)."""


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
    tell: Tell = lambda *_: None
    show: Callable[[Answer, int], None] = lambda *_: None
    """Shows the answer so far, and of how many images."""
    clock: Callable[[], float] = time.perf_counter
    began: float | None = None
    """When the budget began by the clock; now, if it is not told."""
    maps: Mapping[str, Tensor] = field(default_factory=dict)
    """Ready maps of all images, which are methods whatever they are called."""
    left_out: dict[str, str] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    explained: dict[str, Tensor] = field(default_factory=dict)
    """By method: the maps of the first images."""
    seconds: dict[str, float] = field(default_factory=dict)
    """By method: seconds per image, those of its whole family where it shares passes."""
    judging: float = 0.0
    """Seconds of scoring one map."""

    def __post_init__(self) -> None:
        self.began = self.clock() if self.began is None else self.began

    @property
    def spent(self) -> float:
        """Seconds since the beginning."""
        return self.clock() - (self.began or 0.0)

    @property
    def left(self) -> float:
        """Seconds that are left for rounds; without a budget, any number."""
        return math.inf if self.budget is None else SHARE * self.budget - self.spent

    def scores(self) -> Scores:
        """The scores of as many images as make the answer stable, or as there is time for."""
        self._pick_variants()
        images = len(self.subject.x)
        chains = self._baselines(min(FIRST, images))
        metrics = self._metrics()
        self.judging = self._seconds_of_judging(chains, metrics)
        chains += self._methods(chains, min(FIRST, images))
        n, done, before = self._first_round(chains), 0, None
        counts = interim_image_counts(images, n)
        for number, planned in enumerate(counts):
            n = planned if number == 0 else self._images_in_time(chains, done, planned)
            if n < min(planned, 1.5 * done):
                more = "a larger budget continues from here"
                self.notices.append(f"Stopped after {done} of {images} images: the time was over ({more}).")
                break
            result, done = self._round(n, chains, metrics, len(counts)), n
            stable = before is not None and bool(before.recommended) and _same(before, result.answer)
            before = result.answer
            self.show(before, done)
            if stable and done < images:
                said = "with more of them the answer stayed the same"
                self.notices.append(f"Stopped after {done} of {images} images: {said}.")
                break
        return self._finished(result, self._checks(result, chains))

    def _pick_variants(self) -> None:
        """Of methods with an option that is `all`, such as `grad_cam(layer=all)`, the best takes its family's place.

        It is picked on images that are not used again: the best of many is better on these than it is.
        """
        found = {name: variants_of(name, self.subject.model, self.subject.x[:2]) for name in self.methods}
        families_of_variants = {name: variants for name, variants in found.items() if variants != [name]}
        n = min(FIRST, len(self.subject.x) // 4)
        if not families_of_variants:
            return
        few = images_between(self.subject, 0, n)
        for family, variants in families_of_variants.items():
            self.tell(f"picking the best of {len(variants)}: {family}", self.left)
            chains = require_maps([read_chain(name) for name in variants])
            if n == 0:
                raise BadInput(f"{family} is picked on some images and scored on others: give at least four.")
            scores = self._scored(few, stored_maps(few, chains, self.store), chains, [PICKED_BY])
            best = str(scores.table.loc[scores.table["value"].idxmax(), "method"])
            found[family] = [best]
            self.notices.append(
                f"`{best}` is the best of {len(variants)} for {family}, picked on {n} images; the other "
                f"{len(self.subject.x) - n} score it."
            )
        self.methods = list(dict.fromkeys(name for variants in found.values() for name in variants))
        self.subject = images_between(self.subject, n, len(self.subject.x))
        self.maps = {name: maps[n:] for name, maps in self.maps.items()}
        self.titles = self.titles[n:]

    def _baselines(self, n: int) -> list[Chain]:
        """The baselines that are no ready maps, with their maps of the first images."""
        chains = require_maps([read_chain(name) for name in BASELINES if name not in self.maps])
        for chain in chains:
            self._explain([chain], n)
        return [chain for chain in chains if chain.name in self.explained]

    def _methods(self, baselines: Sequence[Chain], n: int) -> list[Chain]:
        """The methods that can explain this network here, cheap ones first, as many as a first round has time for.

        Each explains a few images, by which it is timed; until then it costs as much as its passes say.
        """
        chains: list[Chain] = []
        for name in dict.fromkeys(name for name in self.methods if name not in (*BASELINES, *self.maps)):
            try:
                chains += require_maps([read_chain(name)])
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        kept: list[Chain] = []
        pass_seconds = 0.0
        for chain in sorted(chains, key=lambda chain: chain.passes):
            expected = pass_seconds * chain.passes
            if kept and n * (self._per_image([*baselines, *kept]) + expected + self.judging) > self.left:
                self._leave_out(chain.name, expected)
                continue
            self.tell(f"trying {chain.name}", self.left)
            for few in (1, TRIED):  # what is loaded and prepared once is none of the cost per image
                self._explain([chain], few)
            if chain.name in self.explained:
                kept.append(chain)
                pass_seconds = self.seconds[chain.name] / chain.passes if chain.passes else pass_seconds
        if not kept and not self.maps:
            reasons = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())
            raise BadInput(f"No method explains this network: {reasons or 'name some with --methods'}.")
        return kept

    def _leave_out(self, name: str, seconds: float) -> None:
        self.explained.pop(name, None)
        self.left_out[name] = f"{seconds:.2g} s per image are too many for what was left of {duration(self.budget)}"

    def _explain(self, group: Sequence[Chain], n: int) -> None:
        """The maps of the first images by methods that share passes, from where they end; those that fail go."""
        done = min(len(self.explained.get(chain.name, ())) for chain in group)
        if done >= n:
            return
        if n > TRIED:
            self.tell(f"explaining {n} images by {', '.join(chain.name for chain in group)}", self.left)
        began = self.clock()
        try:
            maps = stored_maps(images_between(self.subject, done, n), group, self.store)
        except CODE_ERRORS as error:
            for chain in group if len(group) > 1 else ():
                self._explain([chain], n)
            if len(group) == 1:
                self.explained.pop(group[0].name, None)
                self.left_out[group[0].name] = _reason(error)
            return
        for name, more in maps.items():
            self.seconds[name] = (self.clock() - began) / (n - done)
            self.explained[name] = torch.cat([self.explained[name][:done], more]) if done else more

    def _per_image(self, chains: Sequence[Chain]) -> float:
        """Seconds that an image takes: to be explained by all methods, and scored."""
        making = sum(max(self.seconds[chain.name] for chain in group) for group in families(chains))
        return making + self.judging * (len(chains) + len(self.maps))

    def _metrics(self) -> list[str]:
        """The metrics that decide: filled images as far as the network bears them, fine-tuned copies where it can."""
        self.tell("measuring robustness to replaced pixels", self.left)
        if self._reach(FILLED[1]) >= IN_DOMAIN:
            return [*FILLED, *self._fine_tuned_metrics()]
        reach = self._reach(f"road(by=probability, fractions=[{', '.join(map(str, REACH))}])")
        if reach < IN_DOMAIN:
            self.notices.append(
                f"The network's accuracy is not kept when {100 * reach:.0f} % of the pixels are replaced at random: "
                "what it predicts for changed images says little of any map."
            )
        last = max(level for level in REACHES if level <= max(reach, IN_DOMAIN))
        return [*neighbour_metrics(last), *self._fine_tuned_metrics()]

    def _reach(self, metric: str) -> float:
        """The share of random pixels that the network bears to lose as a metric fills them."""
        few, random = images_between(self.subject, 0, min(CHECKED, len(self.subject.x))), [read_chain(BASELINE)]
        (curves,) = self._scored(few, stored_maps(few, random, self.store), random, [metric]).curves.values()
        mean = np.asarray(curves.lines[BASELINE].mean, dtype=float)
        return in_domain_share(list(zip(curves.fractions.tolist(), mean.tolist(), strict=True)))

    def _fine_tuned_metrics(self) -> list[str]:
        """The metrics whose copies of the network are fine-tuned in half of the time that is left."""
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

    def _seconds_of_judging(self, baselines: Sequence[Chain], metrics: Sequence[str]) -> float:
        """Seconds that scoring a map takes."""
        self.tell("measuring how long scoring takes", self.left)
        few = images_between(self.subject, 0, min(TRIED, len(self.subject.x)))
        maps = {chain.name: self.explained[chain.name] for chain in baselines[:2]} or dict(self.maps)
        seconds = 0.0
        for _ in range(2):  # fine-tuning, kernels and imports take their time once
            began = self.clock()
            self._scored(few, maps, baselines[:2], metrics)
            seconds = (self.clock() - began) / (len(maps) * len(few.x))
        return seconds

    def _first_round(self, chains: list[Chain]) -> int:
        """How many images begin. Where the usual number does not fit into the budget, the slowest methods go."""
        first = min(FIRST, len(self.subject.x))
        methods = [chain for chain in chains if chain.name not in BASELINES]
        methods.sort(key=lambda chain: self.seconds[chain.name])
        while first * self._per_image(chains) > self.left and len(methods) + len(self.maps) > 1:
            slowest = methods.pop()
            chains.remove(slowest)
            self._leave_out(slowest.name, self.seconds[slowest.name])
        needed = min(first, FEWEST) * self._per_image(chains)
        if self.budget is not None and needed > self.left:
            takes = f"{min(first, FEWEST)} images take about {duration(needed)} here"
            least = f"{math.ceil(1.1 * (self.spent + needed) / SHARE)}s"
            if needed > self.budget:
                raise BadInput(
                    f"Nothing can be said within {duration(self.budget)}: {takes}: give a budget of {least}."
                )
            self.notices.append(f"The budget of {duration(self.budget)} was too short ({takes}): give {least} or more.")
        return max(min(first, FEWEST), math.floor(min(self.left / max(self._per_image(chains), 1e-9), first)))

    def _images_in_time(self, chains: Sequence[Chain], done: int, planned: int) -> int:
        """How many of the planned images can be explained and scored in the time left."""
        if self.budget is None:
            return planned
        judging = self.judging * (len(chains) + len(self.maps))
        more = (self.left - done * judging) / max(self._per_image(chains), 1e-9)  # all are judged again
        return min(planned, done + max(math.floor(more), 0))

    def _round(self, n: int, chains: list[Chain], metrics: Sequence[str], analyses: int) -> Scores:
        """The scores of the first images, with verdicts that allow for all planned analyses.

        A method that fails on one of them is left out from now on.
        """
        for group in sorted(families(chains), key=lambda group: self.seconds[group[0].name]):
            self._explain(group, n)
        chains[:] = [chain for chain in chains if chain.name in self.explained]
        if all(chain.name in BASELINES for chain in chains) and not self.maps:
            raise BadInput(f"No method could explain these images; see what each says: {_listed(self.left_out)}.")
        maps = {chain.name: self.explained[chain.name] for chain in chains} | dict(self.maps)
        self.tell(f"scoring {len(maps)} methods on {n} images", self.left)
        began = self.clock()
        scores = self._scored(images_between(self.subject, 0, n), maps, chains, metrics)
        self.judging = (self.clock() - began) / (n * len(maps))
        return adjusted_for_analyses(scores, analyses)

    def _scored(
        self, part: Subject, maps: Mapping[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str]
    ) -> Scores:
        return subject_scores(
            part,
            {name: a[: len(part.x)] for name, a in maps.items()},
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
        methods.sort(key=lambda chain: (chain.name not in scores.answer.recommended, self.seconds[chain.name]))
        part = images_between(self.subject, 0, min(CHECKED, int(scores.table["n"].max())))
        result: list[Scores] = []
        unchecked: list[str] = []
        for chain in methods:
            # each check is one more map of every image
            expected = len(CHECKS) * len(part.x) * self.seconds[chain.name]
            if self.budget is not None and expected > 0.95 * self.budget - self.spent:
                unchecked.append(chain.name)
                continue
            self.tell(f"checking {chain.name}", math.nan if self.budget is None else self.budget - self.spent)
            try:
                maps = {chain.name: self.explained[chain.name]}
                result.append(self._scored(part, maps, [chain], tuple(CHECKS.values())))
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
                "passes": read_chain(name).passes,
                "milliseconds_per_image": 1000 * self.seconds[name],
                "constant_maps": 0,
                "explained_images": 0,
            }
            for name in self.explained
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


@dataclass(frozen=True, repr=False)
class Recommendation(Answer):
    """The recommendation for a network and images, with what it was made from."""

    scores: Scores | None = field(default=None, repr=False)

    @classmethod
    def of(cls, scores: Scores) -> Recommendation:
        """The recommendation that scores make."""
        answer = scores.answer
        return cls(**{each.name: getattr(answer, each.name) for each in fields(answer)}, scores=scores)

    @property
    def details(self) -> tuple[str, ...]:
        """What supports and limits the recommendation, and how it was reached, a sentence each."""
        return (*super().details, *self._scores.notices)

    def plot(self, axes: Any = None) -> Any:
        """Every method by the metric that decides, with 95 % intervals, and baselines as a band: Matplotlib axes."""
        metric = (*self.choice.deciding, *self.metrics)[0]
        table = self._scores.table
        return plot_scores(table[table["metric"] == metric.name], metric.label, axes)

    def plot_curves(self, metric: str = "", axes: Any = None) -> Any:
        """The curves of a metric, by default the first that has any, with the baselines behind them."""
        curves = self._scores.curves
        name = next((name for name in curves if parse(name).name == metric or not metric), None)
        if name is None:
            raise BadInput(f"There is no curve of {metric!r}; there are {', '.join(parse(n).name for n in curves)}.")
        return self._scores.plot_curves(name, axes)

    def save(self, folder: str | Path) -> Path:
        """Write the page, figures and tables into a folder; the page's path."""
        from uproar.report import write_report  # plots load slowly

        return write_report(self._scores, folder)

    @property
    def _scores(self) -> Scores:
        assert self.scores is not None, "it was made of scores"
        return self.scores

    def _repr_html_(self) -> str:
        from uproar.report.files import missing_libraries
        from uproar.report.mapsheet import show

        scores, picture = self._scores, ""
        methods = [*self.recommended[:3], *(name for name in ("centre", *self.methods[-1:]) if name in scores.maps)]
        maps = {name: scores.maps[name] for name in dict.fromkeys(methods) if name in scores.maps}
        if scores.images is not None and maps and not missing_libraries():
            sheet = show(scores.images, maps, scores.titles, limit=3)
            png = base64.b64encode(sheet._repr_png_()).decode()
            picture = f'<img style="max-width:100%" alt="maps" src="data:image/png;base64,{png}">'
        return super()._repr_html_() + picture


Method = str | Callable[..., Tensor] | Mapping[str, Any]


def choose(
    model: nn.Module,
    images: Any,
    labels: Tensor | Sequence[int] | None = None,
    *,
    methods: Sequence[Method] | Mapping[str, Any] = METHODS,
    normalise: Any = None,
    classes: Sequence[str] | None = None,
    train: Any = None,
    train_labels: Tensor | None = None,
    mean: Tensor | None = None,
    limit: int | None = 500,
    budget: float | str | None = "2m",
    store: str | None = None,
    output: Output = "auto",
    seed: int = 0,
) -> Recommendation:
    """Which attribution method to use for a network, by its scores on images.

    `images` is a DataLoader or any other batches, with or without labels, a tensor or array (n, c, h, w), a data set of
    torch or Hugging Face, or a folder; at most `limit` of them are used. A network that expects normalised images says
    so with `normalise`: "imagenet", (mean, std), or the transform; with images that are normalised already it is looked
    up where the network or the data set carries it. `labels` are the classes; without them the predicted class is
    explained. `methods` are names, functions `(model, x, target) -> map`, Attribution objects of Captum and ready maps
    ({"mine": maps}), in any mixture. `grad_cam(layer=all)` and `ig(baseline=all)` stand for the best of all layers or
    baselines, which is picked on some images and scored on the others. `train` (images as above, best with labels) adds
    metrics that fine-tune copies of the network. `classes` are names for the pictures. `budget` is a time in seconds or
    such as "10m"; None takes all images. Maps are kept in `store`, a folder, if there is one. The model is given back
    as it came.
    """
    check_model(model)
    x, known = read_given(images, limit, seed)
    labels = known if labels is None else labels
    seconds = seconds_of(budget, "budget=") if isinstance(budget, str) else budget
    with taking_pixels(model, x, normalise, images) as (network, x), tempfile.TemporaryDirectory() as temporary:
        split, labelled = training_images(train, train_labels, x, seed)
        subject = subject_of_pixels(network, x, labels, split, mean, output, seed)
        names, ready = read_methods(methods, model, subject.x)
        line = NotebookLine()
        chooser = Chooser(
            subject,
            names,
            Store(store or temporary),
            labelled=labels is not None,
            seed=seed,
            output=output,
            titles=[] if classes is None else [classes[int(k)] for k in subject.target],
            budget=seconds,
            tell=lambda text, _: line.say(text),
            maps=ready,
        )
        if split is not None and labelled:
            chooser.fine_tuner = _fine_tuner(split, subject.context.colour(subject.x).flatten(), seed)
        recommendation = Recommendation.of(chooser.scores())
        line.say(f"{len(names) + len(ready)} methods scored in {duration(chooser.spent)}", last=True)
        return recommendation


def compare(
    model: nn.Module | Results,
    images: Any,
    first: Method = "",
    second: Method = "",
    labels: Tensor | Sequence[int] | None = None,
    *,
    metric: str = "road_gap(by=probability)",
    normalise: Any = None,
    train: Any = None,
    mean: Tensor | None = None,
    limit: int | None = 200,
    output: Output = "auto",
    seed: int = 0,
) -> pd.DataFrame | Difference:
    """Two methods on the same images: one row that says how far `first` leads `second` by a metric. Or two runs.

    Columns: `difference` (positive: the first is better) with its 95 % interval `low`, `high`; `p` of the paired t-test
    over images; `better`, empty where the difference is not significant; `n` images; and `would_decide`, the images
    that would show a difference of this size with 80 % power (NaN: far too many). Arguments are those of `choose`.
    """
    if isinstance(model, Results):
        return compare_runs(model, images)
    check_model(model)
    x, known = read_given(images, limit, seed)
    labels = known if labels is None else labels
    with taking_pixels(model, x, normalise, images) as (network, x), tempfile.TemporaryDirectory() as temporary:
        split, _ = training_images(train, None, x, seed)
        subject = subject_of_pixels(network, x, labels, split, mean, output, seed)
        names, ready = read_methods([first, second], model, subject.x)
        chains = require_maps([read_chain(name) for name in names])
        maps = {**stored_maps(subject, chains, Store(temporary)), **ready}
        if len(maps) != 2:
            raise BadInput("Two methods are compared: give two different ones.")
        options = {"output": output, "seed": seed, "labelled": labels is not None}
        scores = subject_scores(subject, maps, chains, [metric], **options)
    one, other = scores.table["method"]
    values = scores.per_image.pivot(index="image", columns="method", values="value")
    sign = 1 if bool(scores.table["higher_is_better"].iloc[0]) else -1
    lead = Measurements(sign * (values[one] - values[other]).to_numpy(dtype=float)[None]).interval()
    decided = lead.p <= ALPHA
    better = "" if not decided else one if lead.value > 0 else other
    row = {"first": one, "second": other, "metric": parse(metric).name, "difference": lead.value, "low": lead.low}
    row |= {"high": lead.high, "p": lead.p, "better": better, "n": lead.n}
    needed = lead.n if decided else required_sample_size(abs(lead.value), lead.half_width, lead.df, lead.n)
    return pd.DataFrame([{**row, "would_decide": needed}])


def subject_of_pixels(
    model: nn.Module,
    x: Tensor,
    labels: Tensor | Sequence[int] | None,
    split: Split | None,
    mean: Tensor | None,
    output: Output,
    seed: int,
) -> Subject:
    """The images with their network, the classes that are explained, and what is known of the training images."""
    for sentence in unusual_pixels(x):
        warnings.warn(sentence, stacklevel=3)
    x = in_single(plain(x)).cpu()
    answers = predict(model, x)
    kind = recognise_output(model, x, answers, output, sum_tolerance(model))
    if labels is None:
        with assuming_output(kind):
            target = predicted_target(kind.read(answers, len(answers)))
    else:
        target = classes_of(plain(labels), len(x), "labels").cpu()
    colour = colour_of(mean, x, "mean")
    colour = (x if split is None else split.read(slice(0, len(split)))).mean((0, 2, 3)) if colour is None else colour
    return Subject(model, x, target, Context(Draws.of(seed, len(x)), colour, split), output=kind)


def training_images(train: Any, labels: Any, x: Tensor, seed: int) -> tuple[Split | None, bool]:
    """The training images, and whether they have labels."""
    if train is None and labels is not None:
        raise BadInput("train_labels are the labels of train, which was not given: give the training images too.")
    if train is None:
        return None, False
    images, known = read_given(train, None, seed)
    check_like(images, x, "train")
    labels = known if labels is None else labels
    classes = torch.zeros(len(images), dtype=torch.long)
    classes = classes if labels is None else classes_of(plain(labels), len(images), "train_labels")
    return Split("train", images, classes), labels is not None


def read_methods(
    methods: Sequence[Method] | Mapping[str, Any], model: nn.Module, x: Tensor
) -> tuple[list[str], dict[str, Tensor]]:
    """The names of methods, functions and Captum's objects declared under theirs, and ready maps by name."""
    names: list[str] = []
    ready: dict[str, Tensor] = {}
    for each in [methods] if isinstance(methods, str | Mapping) else methods:
        for name, method in each.items() if isinstance(each, Mapping) else [("", each)]:
            if isinstance(method, str):
                for variant in variants_of(method, model, x[:2]):
                    read_chain(variant)  # a wrong name is refused before anything is computed
                names.append(method)
            elif isinstance(method, Tensor | np.ndarray):
                ready[name] = checked_maps(method, x, name)
            else:
                names.append(declared_method(method, name, model))
    return list(dict.fromkeys(names)), ready


def _fine_tuner(train: Split, mean: Tensor, seed: int) -> Any:
    from uproar.study.steps import changed_images
    from uproar.training.finetune import FineTunedCopies, KeptInMemory

    kept = KeptInMemory()  # every round asks for the same copies
    return lambda model: FineTunedCopies(model, changed_images(train), train.labels, mean, seed, kept)


def neighbour_metrics(last: float) -> list[str]:
    """The metrics that fill pixels from their neighbours, up to a share of the pixels."""
    fractions = ", ".join(f"{share:.3g}" for share in np.linspace(0, last, POINTS))
    return [f"{name}(by=probability, fractions=[{fractions}])" for name in ("road", "road_lerf")]


def variants_of(name: str, model: nn.Module, x: Tensor) -> list[str]:
    """What an expression stands for whose layer, or an option with a few values, is `all`; itself without any.

    Layers are those whose output has places of the image and that are in no other such layer.

    >>> variants_of("ig(baseline=all)", nn.Identity(), torch.zeros(1, 1, 2, 2))
    ['ig(baseline=black)', 'ig(baseline=white)', 'ig(baseline=mean)', 'ig(baseline=image-mean)']
    """
    call = parse(name)
    option = next(((call, key) for call in call.walk() for key, value in call.options if value == "all"), None)
    if option is None:
        return [name]
    name = str(call)
    inner, key = option
    if key in ("layer", "layers"):
        names = [candidate.name for candidate in layer_candidates(model, x)[0]]
        values = [one for one in names if not any(one.startswith(f"{other}.") for other in names)]
    else:
        values = [str(value) for value in get_args(option_types(estimators[inner.name].function).get(key))]
    if not values:
        raise BadInput(
            f"{name}: {key}=all needs an option with a few values, or a network with layers that have places."
        )
    return [
        more
        for value in values
        for more in variants_of(name.replace(str(inner), str(_with_option(inner, key, value))), model, x)
    ]


def _with_option(call: Call, key: str, value: str) -> Call:
    return Call(call.name, call.args, tuple((k, value if k == key else v) for k, v in call.options))


def images_between(subject: Subject, start: int, stop: int) -> Subject:
    """Some images of a subject."""
    rows = slice(start, stop)
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
