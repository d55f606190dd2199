"""The suite that judges judges: tasks whose evidence is known, maps whose order is known, what a judge made of them.

Every task is a study like any other: its maps are estimators, its judges metrics and protocols, its results in a store.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from torch import nn

from uproar.data import load
from uproar.errors import BadInput
from uproar.estimators import Context, explain_chains, read_chain
from uproar.estimators.control import KINDS, LEVELS
from uproar.expression import parse
from uproar.metrics.evaluation import RESAMPLED
from uproar.metrics.registry import metrics, read_metric, sign_of, uses_order
from uproar.protocols import PROTOCOLS, Protocol, protocol_named
from uproar.protocols.catalogue import SCORED, evaluator_protocol, first_of_family
from uproar.protocols.evaluator import FRACTIONS
from uproar.results.evaluator import mask_gain
from uproar.seeds import Draws
from uproar.statistics.correlation import area_under_roc
from uproar.statistics.intervals import Numbers
from uproar.statistics.recovery import Recovery, recovery, recovery_of_images, replicates_needed
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, ScoreCell
from uproar.study.collect import entropies, evaluation, losses
from uproar.study.settings import Setting
from uproar.study.spec import Study, study_of

FRACTION = 0.15
"""The share of pixels that ROAR, KAR and the like remove or keep: more than the evidence of all tasks but the texture;
evaluators judge at their own."""
TRUTH = "oracle"
LEARNED = 0.5
"""How far above chance a network must be right for its task to tell anything of judges: 1 is always."""

DEGRADED: dict[str, tuple[str, ...]] = {
    kind: (TRUTH, *(f"degraded(kind={kind}, level={level})" for level in LEVELS)) for kind in KINDS if kind != "leak"
}
"""By kind, the truth and the truth made worse, best first."""
TELLING: dict[str, tuple[str, ...]] = {
    "encoding": ("degraded(kind=missing, level=0.75)", "degraded(kind=encoder, level=1)"),
    "leak": ("degraded(kind=leak, level=1)", "random"),
}
"""Masks that tell the class against others: a quarter of the evidence is better than a place that tells the class and
has none of it; all of the evidence with such a place beside it is better than a random map."""
FORGETTING: dict[str, tuple[str, ...]] = {
    "randomised": ("ig", "randomised(layers=1)", "randomised(layers=3)"),
    "samples": ("rise(masks=256)", "rise(masks=32)", "rise(masks=4)"),
}
"""Maps of a network that has partly forgotten, and maps of fewer samples: best first, as far as the network found the
evidence."""
RANDOM: dict[str, tuple[str, ...]] = {"random": (TRUTH, "random")}
"""What no judge may turn round; both maps are shown anyway."""
PREFERENCES: dict[str, tuple[str, ...]] = {"centre": (TRUTH, "centre"), "brightness": (TRUTH, "brightness")}
"""The truth against maps that know no network: what a judge prefers to it."""
KNOWN: dict[str, tuple[str, ...]] = DEGRADED | TELLING | RANDOM
"""What every judge is asked, also one of the user's own."""
ORDERS: dict[str, tuple[str, ...]] = KNOWN | FORGETTING | PREFERENCES


@dataclass(frozen=True)
class SuiteTask:
    """A task with a network, by name."""

    task: str
    model: str = "cnn-small"
    tested: str = ""
    """The same task with more test images, for protocols, to which images cost little; empty: the task itself."""
    replicates: int = 1
    """Explained networks, each with trainings of its own: several say how many it takes."""

    @property
    def trained(self) -> bool:
        """Whether the network is trained; one set by hand learns nothing, so that retraining it says nothing."""
        return parse(self.model).name != "hand-set"


TESTED = 200
"""Test images of the protocols."""


REPLICATES, REPLICATED = 4, ("noise", "missing", "encoder")
"""On the two tasks where the number of trainings is asked for: so many, and the kinds that they are asked for."""


def _planted(name: str, train: int, images: int = 48, replicates: int = 1, **options: object) -> SuiteTask:
    more = "".join(f", {option}={str(value).lower()}" for option, value in options.items())
    few, many = (f"planted-{name}(train={train}, test={test}{more})" for test in (images, TESTED))
    return SuiteTask(few, tested=many, replicates=replicates)


SUITE: tuple[SuiteTask, ...] = (
    _planted("fixed", 512, replicates=REPLICATES),
    _planted("place", 512, 50),
    _planted("absence", 512),
    _planted("conjunction", 768, moving=False),
    SuiteTask("backdoor(digits(test=0.03))", tested="backdoor(digits(test=0.11))", replicates=REPLICATES),
    SuiteTask("backdoor(digits(test=0.03), strength=0.5)", tested="backdoor(digits(test=0.11), strength=0.5)"),
    SuiteTask("hand-set(rule=or, test=48)", "hand-set(rule=or)"),
    SuiteTask("hand-set(rule=linear, test=48)", "hand-set(rule=linear)"),
    SuiteTask("hand-set(rule=and, test=48)", "hand-set(rule=and)"),
    SuiteTask("hand-set(rule=saturating, test=48)", "hand-set(rule=saturating)"),
)
"""Small images and few of them: a network learns each task in about a second."""
QUICK = (
    _planted("fixed", 512, 24),
    _planted("texture", 768, 24),
    SuiteTask("hand-set(rule=or, test=24)", "hand-set(rule=or)"),
)
"""For a metric of one's own, in about a minute."""
RECIPE = {"epochs": 16}


LOCAL_IMAGES, LOCAL_TRAINING = 64, 4096
"""Test and training images of a task of the user's own, at most."""
TRIGGERS = ("trigger=glyph", "trigger=frame", "trigger=glyph, strength=0.5")


def local_suite(task: str, model: str) -> tuple[SuiteTask, ...]:
    """Backdoors planted in a task of the user's own, for the user's own network: all that fit into its images."""
    options = f"train={LOCAL_TRAINING}, test={LOCAL_IMAGES}"
    planted, refused = [], []
    for trigger in TRIGGERS:
        name = f"backdoor({task}, {trigger}, {options})"
        try:
            load(name)
        except BadInput as error:
            refused.append(error)
        else:
            planted.append(SuiteTask(name, model))
    if not planted:
        raise refused[0]
    return tuple(planted)


def judging_metrics() -> list[str]:
    """Every registered metric that can be asked about given maps; others ask about an estimator."""
    return [entry.name for entry in metrics.values() if not _asks_estimator(entry.name)]


def _asks_estimator(name: str) -> bool:
    return "an estimator" in metrics[name].facts["needs"]


STEPS = 16
ECONOMICAL: Mapping[str, str] = {
    **{
        name: f"{name}(steps={STEPS})"
        for name in ("deletion", "insertion", "deletion:coherency", "insertion:coherency")
    },
    "soundness": f"soundness(steps={2 * STEPS})",
    "ffid_plus": "ffid_plus(draws=8, sizes=[0.05, 0.1, 0.2, 0.3])",
    "ffid_minus": "ffid_minus(draws=8, sizes=[0.05, 0.1, 0.2, 0.3])",
}
"""How a metric of many passes is asked here when it is named without options: with fewer points of its curve, which
have the same expectation of the area, and fewer draws, whose mean over images and levels is the same."""
OUT_OF_DISTRIBUTION = tuple(f"{name}(fill=uniform, repeats=1, steps={STEPS})" for name in ("deletion", "insertion"))
"""Variants on the board: noise as bright as any evidence, which no network has seen in training."""
SOUND = f"soundness(epsilon=0.05, fill=mean, level=0.9, steps={4 * STEPS})"
"""A variant on the board: read above chance, with a gain of some images and not of one, filled as insertion does."""


def judging_protocols() -> list[str]:
    """Every protocol that judges estimators."""
    return [name for name, protocol in PROTOCOLS.items() if protocol.judges]


def every_judge() -> list[str]:
    """What the board has: every metric and protocol that judges maps, and variants of some."""
    return [*judging_metrics(), *OUT_OF_DISTRIBUTION, SOUND, *judging_protocols()]


def with_suite_options(metric: str) -> str:
    """A metric with the options that the suite asks it with."""
    return ECONOMICAL.get(metric, metric)


@dataclass(frozen=True)
class Part:
    """Judges of one task of the suite that share a study: the same images, the same maps."""

    judges: tuple[str, ...]
    study: Study
    orders: Mapping[str, tuple[str, ...]]
    """The maps of each kind, best first."""


def parts_of(
    one: SuiteTask, judges: Sequence[str], orders: Iterable[str] = ORDERS, seeds: tuple[int, ...] = (0,)
) -> list[Part]:
    """The studies that a task of the suite takes for some judges: metrics, protocols, protocols that retrain."""
    known, more = {kind: ORDERS[kind] for kind in orders}, one.tested or one.task
    asked = [PROTOCOLS[name] for name in judges if name in PROTOCOLS]
    learning = tuple(p.name for p in asked if p.retrains and one.trained)
    testing = tuple(p.name for p in asked if not p.retrains and (one.trained or not p.evaluator))
    measuring = tuple(name for name in judges if name not in PROTOCOLS)
    parts = [
        (measuring, one.task, known, {"metrics": tuple(map(with_suite_options, measuring)), "protocols": ()}),
        (testing, more, known, {"protocols": _with_controls(testing)}),
        (learning, more, _of_retraining(known), {"protocols": learning}),
    ]
    return [
        Part(who, _study(task, one.model, own, {"seeds": seeds, **what}), own)
        for who, task, own, what in parts
        if who and own
    ]


def _study(task: str, model: str, orders: Mapping[str, Sequence[str]], asked: Mapping[str, Any]) -> Study:
    settings: dict[str, Any] = {
        "name": "judge",
        "tasks": task,
        "models": model,
        "estimators": tuple(dict.fromkeys(name for chains in orders.values() for name in chains)),
        "fractions": (FRACTION,),
        "target": "label",
        "recipe": RECIPE,
        "checks": (),
    }
    return study_of({**settings, **asked})


def _with_controls(protocols: Iterable[str]) -> tuple[str, ...]:
    """The protocols with those whose numbers their own score is made of: of an evaluator both directions, shifted."""
    asked = [PROTOCOLS[name] for name in protocols]
    return tuple(dict.fromkeys(each.name for one in asked for each in (one, first_of_family(one))))


def _of_retraining(orders: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Orders that are worth a training per map, without the middle level of three.

    Not `contrast`, whose maps all remove the same pixels, nor `sign`, which for the order is much as `missing`.
    """
    left_out = ("contrast", "sign", *FORGETTING)
    return {kind: _ends(chains) for kind, chains in orders.items() if kind not in left_out}


def _ends(chains: tuple[str, ...]) -> tuple[str, ...]:
    """All but the middle one of three degraded levels."""
    return (*chains[:2], *chains[3:]) if len(chains) == 1 + len(LEVELS) else chains


def recoveries(part: Part, root: str, judge: str) -> dict[str, Recovery]:
    """By kind, how well a judge of a finished part recovers the known order; without what is missing."""
    bench = bench_for(Setting.all_of(part.study)[0], root)
    by_kind = {}
    for kind, names in part.orders.items():
        chains = [read_chain(name).name for name in names]
        one = _metric(bench, judge, chains) if judge not in PROTOCOLS else _protocol(bench, judge, chains)
        if one is not None:
            by_kind[kind] = one
    return by_kind


def replicated_parts(one: SuiteTask, judges: Sequence[str], orders: Iterable[str] = ORDERS) -> list[Part]:
    """The studies that say how many trainings judges need which train; none where a task has one replicate."""
    if one.replicates == 1:
        return []
    asked = [PROTOCOLS[name] for name in judges if name in PROTOCOLS]
    training = [protocol.name for protocol in asked if protocol.retrains or protocol.evaluator]
    kinds = [kind for kind in orders if kind in REPLICATED]
    return parts_of(one, training, kinds, tuple(range(one.replicates)))


def trainings_needed(part: Part, root: str, judge: str) -> dict[str, float]:
    """By kind, the replicates that a judge of a finished part needs; without what is missing."""
    bench = bench_for(Setting.all_of(part.study)[0], root)
    needed = {}
    for kind, names in part.orders.items():
        chains = [read_chain(name).name for name in names]
        tables = [_by_image(bench, judge, chains, seed) for seed in part.study.seeds]
        means = [table.mean(1) for table in tables if table is not None]
        if len(means) == len(tables):
            needed[kind] = replicates_needed(np.stack(means, 1))
    return needed


def reads_order(judge: str) -> bool:
    """Whether only the order of a map's pixels counts to a judge, as it does to every protocol."""
    return judge in PROTOCOLS or uses_order(with_suite_options(judge))


SEEN = 0.003
"""The area under the ROC curve by which the order of pixels must get worse from level to level to count as worse."""


def order_worsens(part: Part, root: str, kind: str) -> bool:
    """Whether every level of a kind has the pixels in a worse order: by the area under the ROC curve of the truth.

    A filter may change all values of a map and leave the important pixels above all others; what reads only the order
    is then right to see no difference. Maps of networks have no such truth, and count as worse.
    """
    if kind not in KNOWN:
        return True
    test = bench_for(Setting.all_of(part.study)[0], root).task.test
    truth, images = test.truth(slice(None)), test.read(slice(None))
    assert truth is not None
    context = Context(Draws.of(0, range(len(test)), "test"), truth=truth)
    chains = [read_chain(name) for name in part.orders[kind]]
    maps = explain_chains(nn.Identity(), images, test.labels, context, chains)
    areas = [np.nanmean(area_under_roc(one.flatten(1).numpy(), truth.flatten(1).numpy())) for one in maps]
    return all(better > worse + SEEN for better, worse in itertools.pairwise(areas))


def _metric(bench: Bench, judge: str, chains: Sequence[str]) -> Recovery | None:
    setting, sign = bench.setting, sign_of(judge)
    cells = [ScoreCell(setting.task, setting.model, chain, with_suite_options(judge), 0) for chain in chains]
    each = [evaluation(bench, cell) for cell in cells]
    made = [one for one in each if one is not None]
    if len(made) < len(chains):
        return None
    if metrics[read_metric(judge).name].facts["statistic"] is None:
        return recovery_of_images(sign * np.stack([one.arrays["value"] for one in made]))
    values = np.array([one.value for one in made])
    return recovery(
        sign * values, sign * np.stack([one.arrays[RESAMPLED] for one in made]), len(made[0].arrays["value"])
    )


def _protocol(bench: Bench, judge: str, chains: Sequence[str]) -> Recovery | None:
    """Larger is better, image by image, in the first replicate."""
    table = _by_image(bench, judge, chains, 0)
    return None if table is None else recovery_of_images(table)


def _by_image(bench: Bench, judge: str, chains: Sequence[str], seed: int) -> Numbers | None:
    """What a protocol says of each map and image in one replicate, (maps, images); None if something is missing."""
    protocol = protocol_named(judge)
    score = _bits if protocol.evaluator else _right
    values = [score(bench, protocol, chain, seed) for chain in chains]
    known = [one for one in values if one is not None]
    return np.stack(known) if len(known) == len(values) else None


def _right(bench: Bench, protocol: Protocol, chain: str, seed: int) -> Numbers | None:
    """Whether an image is recognised, or is not where pixels were removed."""
    item = _cell(bench, protocol.name, chain, seed)
    if item is None:
        return None
    right = item["test_scores"].argmax(1) == bench.task.test.labels.numpy()
    return np.asarray(protocol.direction * right.astype(float))


def _bits(bench: Bench, protocol: Protocol, chain: str, seed: int) -> Numbers | None:
    """The score of an evaluator: bits that the mask costs beyond the same mask elsewhere, or saves where it keeps.

    The first of its family is asked in both directions, as in a study; `keep` alone in its own.
    """
    gains = [_gain(bench, protocol, keeps, chain, seed) for keeps in dict.fromkeys((protocol.keeps, True))]
    known = [gain for gain in gains if gain is not None]
    return np.mean(known, 0) if len(known) == len(gains) else None


def _gain(bench: Bench, protocol: Protocol, keeps: bool, chain: str, seed: int) -> Numbers | None:
    asked = (evaluator_protocol(protocol.target, keeps, masks) for masks in SCORED)
    most = entropies(bench, protocol, [seed])
    own, shifted = (np.minimum(losses(bench, one, chain, FRACTIONS, [seed]), most).mean(1)[0] for one in asked)
    gain = mask_gain(own, shifted, keeps)
    return None if np.isnan(gain).any() else gain


def _cell(bench: Bench, protocol: str, chain: str, seed: int) -> Mapping[str, Any] | None:
    cell = Cell(bench.setting.task, bench.setting.model, chain, protocol, FRACTION, seed)
    item = bench.cells.find(cell)
    return None if item is None else item.arrays


def network_accuracy(part: Part, root: str) -> tuple[float, bool]:
    """The share of test images on which the explained network is right, and whether that is half way above chance."""
    bench = bench_for(Setting.all_of(part.study)[0], root)
    item: Mapping[str, Any] = bench.base_models.get(0)[1].arrays
    share = float((item["test_scores"].argmax(1) == bench.task.test.labels.numpy()).mean())
    chance = 1 / len(bench.task.classes)
    return share, share >= chance + LEARNED * (1 - chance)
