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
from uproar.metrics.evaluation import RESAMPLED, Evaluation
from uproar.metrics.registry import metrics, read_metric, sign_of, uses_order
from uproar.protocols import PROTOCOLS, protocol_named
from uproar.results.evaluator import EvaluatorScores
from uproar.seeds import Draws
from uproar.statistics.correlation import area_under_roc
from uproar.statistics.intervals import Numbers
from uproar.statistics.recovery import Recovery, recovery, recovery_of_images, replicates_needed
from uproar.store import Store
from uproar.study.collect import Reading, evaluator_bits
from uproar.study.graph import obtain
from uproar.study.grid import settings_of
from uproar.study.spec import EVALUATORS, Study, study_of
from uproar.study.steps import ANSWERS

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
    return [*(name for name, protocol in PROTOCOLS.items() if protocol.judges), *EVALUATORS]


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
    evaluators = tuple(name for name in judges if name in EVALUATORS and one.trained)
    testing = (*(p.name for p in asked if not p.retrains), *evaluators)
    measuring = tuple(name for name in judges if name not in PROTOCOLS and name not in EVALUATORS)
    parts = [
        (measuring, one.task, known, {"metrics": tuple(map(with_suite_options, measuring)), "protocols": ()}),
        (testing, more, known, {"protocols": testing}),
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
    reading = reading_of(part, root)
    by_kind = {}
    for kind, names in part.orders.items():
        chains = [read_chain(name).name for name in names]
        trained = judge in PROTOCOLS or judge in EVALUATORS
        one = _protocol(reading, judge, chains) if trained else _metric(reading, judge, chains)
        if one is not None:
            by_kind[kind] = one
    return by_kind


def replicated_parts(one: SuiteTask, judges: Sequence[str], orders: Iterable[str] = ORDERS) -> list[Part]:
    """The studies that say how many trainings judges need which train; none where a task has one replicate."""
    if one.replicates == 1:
        return []
    asked = [PROTOCOLS[name] for name in judges if name in PROTOCOLS]
    training = [protocol.name for protocol in asked if protocol.retrains]
    training += [name for name in judges if name in EVALUATORS]
    kinds = [kind for kind in orders if kind in REPLICATED]
    return parts_of(one, training, kinds, tuple(range(one.replicates)))


def trainings_needed(part: Part, root: str, judge: str) -> dict[str, float]:
    """By kind, the replicates that a judge of a finished part needs; without what is missing."""
    reading = reading_of(part, root)
    needed = {}
    for kind, names in part.orders.items():
        chains = [read_chain(name).name for name in names]
        tables = [_by_image(reading, judge, chains, seed) for seed in part.study.seeds]
        means = [table.mean(1) for table in tables if table is not None]
        if len(means) == len(tables):
            needed[kind] = replicates_needed(np.stack(means, 1))
    return needed


def reads_order(judge: str) -> bool:
    """Whether only the order of a map's pixels counts to a judge, as it does to every protocol."""
    return judge in PROTOCOLS or judge in EVALUATORS or uses_order(with_suite_options(judge))


SEEN = 0.003
"""The area under the ROC curve by which the order of pixels must get worse from level to level to count as worse."""


def order_worsens(part: Part, root: str, kind: str) -> bool:
    """Whether every level of a kind has the pixels in a worse order: by the area under the ROC curve of the truth.

    A filter may change all values of a map and leave the important pixels above all others; what reads only the order
    is then right to see no difference. Maps of networks have no such truth, and count as worse.
    """
    if kind not in KNOWN:
        return True
    test = reading_of(part, root).task.test
    truth, images = test.truth(slice(None)), test.read(slice(None))
    assert truth is not None
    context = Context(Draws.of(0, range(len(test)), "test"), truth=truth)
    chains = [read_chain(name) for name in part.orders[kind]]
    maps = explain_chains(nn.Identity(), images, test.labels, context, chains)
    areas = [np.nanmean(area_under_roc(one.flatten(1).numpy(), truth.flatten(1).numpy())) for one in maps]
    return all(better > worse + SEEN for better, worse in itertools.pairwise(areas))


def reading_of(part: Part, root: str) -> Reading:
    """What a store has of a part."""
    (setting,) = settings_of(part.study)
    return Reading(part.study, setting, Store(root))


def _metric(reading: Reading, judge: str, chains: Sequence[str]) -> Recovery | None:
    name, sign = str(read_metric(with_suite_options(judge))), sign_of(judge)
    items = [reading.find(reading.setting.score(read_chain(chain), name, 0)) for chain in chains]
    made = [Evaluation(item.arrays, item.facts) for item in items if item is not None]
    if len(made) < len(chains):
        return None
    if metrics[read_metric(judge).name].facts["statistic"] is None:
        return recovery_of_images(sign * np.stack([one.arrays["value"] for one in made]))
    values = np.array([one.value for one in made])
    return recovery(
        sign * values, sign * np.stack([one.arrays[RESAMPLED] for one in made]), len(made[0].arrays["value"])
    )


def _protocol(reading: Reading, judge: str, chains: Sequence[str]) -> Recovery | None:
    """Larger is better, image by image, in the first replicate."""
    table = _by_image(reading, judge, chains, 0)
    return None if table is None else recovery_of_images(table)


def _by_image(reading: Reading, judge: str, chains: Sequence[str], seed: int) -> Numbers | None:
    """What a protocol says of each map and image in one replicate, (maps, images); None if something is missing."""
    if judge in EVALUATORS:
        scores = EvaluatorScores(evaluator_bits(reading)[EVALUATORS[judge]])
        known = [scores.measurements[chain].by_image[seed] for chain in chains if chain in scores.measurements]
    else:
        protocol = protocol_named(judge)
        items = [reading.find(reading.setting.accuracy(read_chain(c), protocol, FRACTION, seed)) for c in chains]
        answers = [item.arrays[protocol.test.of].argmax(1) for item in items if item is not None]
        labels = reading.task.test.labels.numpy()
        known = [protocol.direction * (classes == labels).astype(float) for classes in answers]
    whole = len(known) == len(chains) and not np.isnan(known).any()
    return np.stack(known) if whole else None


def network_accuracy(part: Part, root: str) -> tuple[float, bool]:
    """The share of test images on which the explained network is right, and whether that is half way above chance."""
    reading = reading_of(part, root)
    scores = obtain(reading.setting.base_model(0), reading.store).arrays[ANSWERS]
    share = float((scores.argmax(1) == reading.task.test.labels.numpy()).mean())
    chance = 1 / len(reading.task.classes)
    return share, share >= chance + LEARNED * (1 - chance)
