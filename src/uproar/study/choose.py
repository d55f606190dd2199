"""Choosing a method for a network that people have: explain, score by what is valid for the images, recommend.

    answer = uproar.choose(model, images)                 # .sentence, .table, .recommended
    answer = uproar.choose(model, images, train=train, budget="10m")      # evaluators, too; labels are not needed

Metrics are those that the board trusts without training images, as it has them (docs/board.md). Methods explain a few
images first, cheap ones before expensive ones; one for which the first round would not fit into the budget is left out.
Then images come in rounds of 16, 64, 256 and all of them, until the answer stays the same, or the next round would not
fit at the pace of the last one. Two checks flag methods: maps that stay the same for a network with fresh weights, and
maps that noise nobody sees changes.

Several analyses err more often than one: each planned one spends an equal share of the error rate, so that all together
err no more often than one, whenever they stop: the adjusted p of a pair is that of Holm's method times the number of
planned analyses, and decides at 5 %. A method that fails is left out with its reason; no other notices.
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
from uproar.metrics.registry import CHECKS
from uproar.models.given import read_given, taking_pixels
from uproar.models.output_kind import Output, assuming_output, predicted_target, recognise_output, sum_tolerance
from uproar.registry import option_types
from uproar.results.answer import Answer
from uproar.results.difference import Difference
from uproar.results.difference import compare as compare_runs
from uproar.results.plots import plot_scores
from uproar.results.scores import Scores
from uproar.results.study import Results
from uproar.scoring import checked_maps
from uproar.seeds import Draws
from uproar.statistics.comparisons import decide
from uproar.statistics.design import ALPHA, BASELINES
from uproar.statistics.intervals import Measurements, required_sample_size
from uproar.store import Store
from uproar.study.evaluations import as_study, with_evaluators
from uproar.study.progress import NotebookLine
from uproar.study.spec import METHODS
from uproar.study.subjects import Subject, stored_maps, subject_scores
from uproar.tensors import check_like, check_model, classes_of, colour_of, in_single, plain, unusual_pixels
from uproar.training import predict
from uproar.wording import duration, seconds_of

METRICS = ("insertion(steps=8)", "road(by=probability, fractions=[0, 0.25, 0.5])")
"""The metrics that need no training images: of those that the board trusts, with these settings, the two that together
put most methods and baselines in the right order on real pictures."""
PICKED_BY = METRICS[0]
"""The metric by which the best of many variants is picked."""
FIRST, TIMES = 16, 4
"""Images of the first round, and how many times as many the next one has."""
FEWEST = 8
"""Images of the first round where there is no time for more."""
TRIED = 4
"""Images on which methods and metrics are tried and timed."""
SHARE = 0.85
"""Of a budget, for the rounds: checks and the page take the rest."""

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
    scoring: float = 0.0
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
        images, done, before = len(self.subject.x), 0, None
        chains = self._methods(self._baselines())
        counts = interim_image_counts(images, FIRST)
        for planned in counts:
            n = min(planned, done + self._images_in_time(chains, done))
            if done and n < min(planned, 1.5 * done):
                more = "a larger budget continues from here"
                self.notices.append(f"Stopped after {done} of {images} images: the time was over ({more}).")
                break
            done = max(n, min(FEWEST, images))
            result = self._round(done, chains, len(counts))
            self.show(result.answer, done)
            stable = before is not None and {*before.recommended} == {*result.answer.recommended} != set()
            before = result.answer
            if stable and done < images:
                said = "with more of them the answer stayed the same"
                self.notices.append(f"Stopped after {done} of {images} images: {said}.")
                break
        return self._finished(result, self._checks(result, chains))

    def _pick_variants(self) -> None:
        """Of methods with an option that is `all`, such as `grad_cam(layer=all)`, the best takes its family's place.

        It is picked on images that are not used again: the best of many is better on these than it is.
        """
        variants_by_name = {name: variants_of(name, self.subject.model, self.subject.x[:2]) for name in self.methods}
        families_of_variants = {name: variants for name, variants in variants_by_name.items() if variants != [name]}
        n = min(FIRST, len(self.subject.x) // 4)
        if not families_of_variants:
            return
        few = images_between(self.subject, 0, n)
        for family, variants in families_of_variants.items():
            self.tell(f"picking the best of {len(variants)}: {family}", self.left)
            chains = require_maps([read_chain(name) for name in variants])
            if n == 0:
                raise BadInput(f"{family} is picked on some images and scored on others: give at least four.")
            table = self._scored(few, stored_maps(few, chains, self.store), chains, [PICKED_BY]).table
            sign = 1 if bool(table["higher_is_better"].iloc[0]) else -1
            best = str(table.loc[(sign * table["value"]).idxmax(), "method"])
            variants_by_name[family] = [best]
            self.notices.append(
                f"`{best}` is the best of {len(variants)} for {family}, picked on {n} images; the other "
                f"{len(self.subject.x) - n} score it."
            )
        self.methods = list(dict.fromkeys(name for variants in variants_by_name.values() for name in variants))
        self.subject = images_between(self.subject, n, len(self.subject.x))
        self.maps = {name: maps[n:] for name, maps in self.maps.items()}
        self.titles = self.titles[n:]

    def _baselines(self) -> list[Chain]:
        """The baselines that are no ready maps, with maps of some images, by which scoring is timed."""
        chains = require_maps([read_chain(name) for name in BASELINES if name not in self.maps])
        for chain in chains:
            self._explain([chain], TRIED)
        chains = [chain for chain in chains if chain.name in self.explained]
        self.tell("measuring how long scoring takes", self.left)
        maps = {chain.name: self.explained[chain.name] for chain in chains} or dict(self.maps)
        for n in (1, TRIED):  # kernels and imports take their time once
            few, began = images_between(self.subject, 0, n), self.clock()
            self._scored(few, maps, chains, METRICS)
            self.scoring = (self.clock() - began) / (len(maps) * len(few.x))
        return chains

    def _methods(self, baselines: Sequence[Chain]) -> list[Chain]:
        """The baselines and the methods that can explain this network, cheap ones first, as far as there is time.

        Each explains a few images, by which it is timed; until then it costs as much as its passes say. Maps of a first
        round may take half of the time.
        """
        chains: list[Chain] = []
        for name in dict.fromkeys(name for name in self.methods if name not in (*BASELINES, *self.maps)):
            try:
                chains += require_maps([read_chain(name)])
            except CODE_ERRORS as error:
                self.left_out[name] = _reason(error)
        kept, pass_seconds, n = list(baselines), 0.0, min(FIRST, len(self.subject.x))
        for chain in sorted(chains, key=lambda chain: chain.passes):
            self.seconds[chain.name] = pass_seconds * chain.passes
            tried = len(kept) == len(baselines) and not self.maps  # one method at least
            if tried or n * self._making([*kept, chain]) <= self.left / 2:
                self.tell(f"trying {chain.name}", self.left)
                for few in (1, TRIED):  # what is loaded and prepared once is none of the cost per image
                    self._explain([chain], few)
                if chain.name not in self.explained:
                    continue
                pass_seconds = self.seconds[chain.name] / chain.passes if chain.passes else pass_seconds
                if tried or n * self._making([*kept, chain]) <= self.left / 2:
                    kept.append(chain)
                    continue
            self.explained.pop(chain.name, None)
            seconds = f"{self.seconds[chain.name]:.2g} s per image"
            self.left_out[chain.name] = f"{seconds} are too many for what was left of {duration(self.budget)}"
        if len(kept) == len(baselines) and not self.maps:
            raise BadInput(f"No method explains this network: {_listed(self.left_out) or 'name some with --methods'}.")
        return kept

    def _explain(self, group: Sequence[Chain], n: int) -> None:
        """The maps of the first images by methods that share passes, from where they end; those that fail go."""
        n = min(n, len(self.subject.x))
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

    def _making(self, chains: Sequence[Chain]) -> float:
        """Seconds that all maps of an image take."""
        return sum(max(self.seconds[chain.name] for chain in group) for group in families(chains))

    def _images_in_time(self, chains: Sequence[Chain], done: int) -> int:
        """How many images more can be explained and scored in the time left; the others are scored again, too."""
        if self.budget is None:
            return len(self.subject.x)
        scoring = self.scoring * (len(chains) + len(self.maps))
        return max(math.floor((self.left - done * scoring) / max(self._making(chains) + scoring, 1e-9)), 0)

    def _round(self, n: int, chains: list[Chain], analyses: int) -> Scores:
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
        scores = self._scored(images_between(self.subject, 0, n), maps, chains, METRICS)
        self.scoring = (self.clock() - began) / (n * len(maps))
        return adjusted_for_analyses(scores, analyses)

    def _scored(
        self, subject: Subject, maps: Mapping[str, Tensor], chains: Sequence[Chain], metrics: Sequence[str]
    ) -> Scores:
        few = {name: a[: len(subject.x)] for name, a in maps.items()}
        options = {"output": self.output, "seed": self.seed, "labelled": self.labelled}
        return subject_scores(subject, few, chains, metrics, **options)

    def _checks(self, scores: Scores, chains: Sequence[Chain]) -> list[Scores]:
        """What the checks say of each method alone, so that one that fails takes none with it; the best come first."""
        methods = [chain for chain in chains if chain.name not in BASELINES and not chain.files]
        methods.sort(key=lambda chain: (chain.name not in scores.answer.recommended, self.seconds[chain.name]))
        subject = images_between(self.subject, 0, min(FIRST, int(scores.table["n"].max())))
        result: list[Scores] = []
        unchecked: list[str] = []
        for chain in methods:
            # each check is one more map of every image
            expected = len(CHECKS) * len(subject.x) * self.seconds[chain.name]
            if self.budget is not None and expected > 0.95 * self.budget - self.spent:
                unchecked.append(chain.name)
                continue
            self.tell(f"checking {chain.name}", math.nan if self.budget is None else self.budget - self.spent)
            try:
                maps = {chain.name: self.explained[chain.name]}
                result.append(self._scored(subject, maps, [chain], tuple(CHECKS.values())))
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
        return replace(
            scores,
            table=pd.concat([frame.table for frame in frames], ignore_index=True),
            per_image=pd.concat([frame.per_image for frame in frames], ignore_index=True),
            comparisons=pd.concat(
                [frame.comparisons for frame in frames if len(frame.comparisons)] or [scores.comparisons],
                ignore_index=True,
            ),
            forwards=sum(frame.forwards for frame in frames),
            notices=tuple(dict.fromkeys([*scores.notices, *self.notices])),
            titles=tuple(self.titles[: len(scores.titles)]) or scores.titles,
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
    baselines, which is picked on some images and scored on the others. With `train` (images as above) evaluators learn
    the network's answers in half of the time; where there are labels they learn these, too. `classes` are names for the
    pictures. `budget` is a time in seconds or such as "10m"; None takes all images. Maps are kept in `store`, a folder,
    if there is one. The model is given back as it came.
    """
    check_model(model)
    x, known = read_given(images, limit, seed)
    labels = known if labels is None else labels
    seconds = seconds_of(budget, "budget=") if isinstance(budget, str) else budget
    with taking_pixels(model, x, normalise, images) as (network, x), tempfile.TemporaryDirectory() as temporary:
        split = training_images(train, train_labels, x, seed)
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
            budget=seconds if split is None or seconds is None else seconds / 2,
            tell=lambda text, _: line.say(text),
            maps=ready,
        )
        scores = chooser.scores()
        if split is not None:
            line.say("training evaluators")
            left = None if seconds is None else seconds - chooser.spent
            scores = evaluated(scores, subject, [*chooser.explained], seed, store or temporary, left)
        line.say(f"{len(names) + len(ready)} methods scored in {duration(chooser.spent)}", last=True)
        return Recommendation.of(scores)


def evaluated(
    scores: Scores,
    subject: Subject,
    methods: Sequence[str],
    seed: int,
    store: str,
    budget: float | None,
    **options: Any,
) -> Scores:
    """The scores with those of evaluators that are trained on the training images of the subject, if time suffices."""
    try:
        with as_study(subject) as settings:
            return with_evaluators(scores, settings, methods, seed, store, budget, 1, **options)
    except BadInput as error:
        return replace(scores, notices=(*scores.notices, f"No evaluator was trained: {error}."))


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
        split = training_images(train, None, x, seed)
        subject = subject_of_pixels(network, x, labels, split, mean, output, seed)
        names, ready = read_methods([first, second], model, subject.x)
        chains = require_maps([read_chain(name) for name in names])
        maps = {**stored_maps(subject, chains, Store(temporary)), **ready}
        if len(maps) != 2:
            raise BadInput("Two methods are compared: give two different ones.")
        options = {"output": output, "seed": seed, "labelled": labels is not None}
        scores = subject_scores(subject, maps, chains, [metric], **options)
    method, other = scores.table["method"]
    values = scores.per_image.pivot(index="image", columns="method", values="value")
    sign = 1 if bool(scores.table["higher_is_better"].iloc[0]) else -1
    lead = Measurements(sign * (values[method] - values[other]).to_numpy(dtype=float)[None]).interval()
    decided = lead.p <= ALPHA
    better = "" if not decided else method if lead.value > 0 else other
    row = {"first": method, "second": other, "metric": parse(metric).name, "difference": lead.value}
    row |= {"low": lead.low, "high": lead.high, "p": lead.p, "better": better, "n": lead.n}
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


def training_images(train: Any, labels: Any, x: Tensor, seed: int) -> Split | None:
    """The training images; without labels all have the label 0."""
    if train is None and labels is not None:
        raise BadInput("train_labels are the labels of train, which was not given: give the training images too.")
    if train is None:
        return None
    images, known = read_given(train, None, seed)
    check_like(images, x, "train")
    labels = known if labels is None else labels
    classes = torch.zeros(len(images), dtype=torch.long)
    classes = classes if labels is None else classes_of(plain(labels), len(images), "train_labels")
    return Split("train", images, classes)


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
        values = [layer for layer in names if not any(layer.startswith(f"{other}.") for other in names)]
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
    frame = pd.concat([decide(comparisons, ALPHA / analyses) for _, comparisons in pairs], ignore_index=True)
    adjusted = (frame["p_holm"] * analyses).clip(upper=1.0)
    return replace(scores, comparisons=frame.assign(p_holm=adjusted, analyses=analyses))


def _reason(error: BaseException) -> str:
    """Why a method was left out, in one line."""
    return str(error).rstrip(".") if isinstance(error, UproarError) else one_line(error).rstrip(".")


def _listed(reasons: Mapping[str, str]) -> str:
    return "; ".join(f"{name}: {why}" for name, why in reasons.items())
