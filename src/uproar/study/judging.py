"""The suite that judges judges: tasks whose evidence is known, maps whose order is known, what a judge made of them.

Every task is a study like any other: its maps are estimators, its judges metrics and protocols, its results in a store.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from uproar.estimators import read_chain
from uproar.estimators.degraded import KINDS, LEVELS
from uproar.metrics.registry import metrics, read_metric, sign_of
from uproar.protocols import PROTOCOLS, protocol_named
from uproar.scoring.evaluation import RESAMPLED
from uproar.statistics.recovery import Recovery, recovery, recovery_of_images
from uproar.study.bench import Bench, bench_for
from uproar.study.cell import Cell, ScoreCell
from uproar.study.collect_scores import evaluation
from uproar.study.settings import Setting
from uproar.study.spec import Study, study_of

FRACTION = 0.15
"""The share of pixels that protocols remove or keep: more than the evidence of all tasks but the texture."""
TRUTH = "oracle"

DEGRADED: dict[str, tuple[str, ...]] = {
    kind: (TRUTH, *(f"degraded(kind={kind}, level={level})" for level in LEVELS)) for kind in KINDS
}
"""By kind, the truth and the truth made worse, best first."""
FORGETTING: dict[str, tuple[str, ...]] = {
    "randomised": ("ig", "randomised(layers=1)", "randomised(layers=3)"),
    "samples": ("rise(masks=256)", "rise(masks=32)", "rise(masks=4)"),
}
"""Maps of a network that has partly forgotten, and maps of fewer samples: best first, as far as the network found the
evidence."""
PREFERENCES: dict[str, tuple[str, ...]] = {
    "random": (TRUTH, "random"),
    "centre": (TRUTH, "centre"),
    "brightness": (TRUTH, "brightness"),
}
"""The truth against maps that know no network: what a judge prefers to it."""
ORDERS: dict[str, tuple[str, ...]] = DEGRADED | FORGETTING | PREFERENCES


@dataclass(frozen=True)
class SuiteTask:
    """A task with a network, by name; `trained` says whether protocols that retrain can be asked."""

    task: str
    model: str = "cnn-small"

    @property
    def trained(self) -> bool:
        """Whether the network is trained; one set by hand learns nothing, so that retraining it says nothing."""
        return not self.model.startswith("hand-set")


SUITE: tuple[SuiteTask, ...] = (
    SuiteTask("planted-fixed(train=512, test=24)"),
    SuiteTask("planted-place(train=512, test=25)"),
    SuiteTask("planted-absence(train=512, test=24)"),
    SuiteTask("planted-texture(train=768, test=24)"),
    SuiteTask("planted-xor(train=768, test=24)"),
    SuiteTask("planted-conjunction(train=768, test=24, moving=false)"),
    SuiteTask("backdoor(digits(test=0.02))"),
    SuiteTask("hand-set(rule=or, test=24)", "hand-set(rule=or)"),
)
"""Small images and few of them: a network learns each task in about a second, all metrics take about half a minute."""
QUICK = (SUITE[0], SUITE[3], SUITE[7])
"""For a metric of one's own, in about a minute."""
RECIPE = {"epochs": 16}


def local_suite(task: str, model: str) -> tuple[SuiteTask, ...]:
    """Backdoors planted in a task of the user's own, for the user's own network."""
    return tuple(SuiteTask(f"backdoor({task}, trigger={trigger})", model) for trigger in ("glyph", "frame"))


def judging_metrics() -> list[str]:
    """Every registered metric that can be asked about given maps; others ask about an estimator."""
    return [entry.name for entry in metrics.values() if not _asks_estimator(entry.name)]


def _asks_estimator(name: str) -> bool:
    return "an estimator" in metrics[name].facts["needs"]


def judging_protocols() -> list[str]:
    """Every protocol that judges estimators."""
    return [name for name, protocol in PROTOCOLS.items() if protocol.judges]


def suite_study(
    one: SuiteTask, metric_names: Sequence[str], protocols: Sequence[str], orders: Iterable[str] = ORDERS
) -> Study:
    """The study of one task of the suite."""
    chains = list(dict.fromkeys(name for kind in orders for name in ORDERS[kind]))
    settings: dict[str, Any] = {
        "name": "judge",
        "tasks": one.task,
        "models": one.model,
        "estimators": tuple(chains),
        "metrics": tuple(metric_names),
        "protocols": tuple(protocols if one.trained else ()),
        "fractions": (FRACTION,),
        "seeds": (0,),
        "target": "label",
        "recipe": RECIPE,
    }
    return study_of(settings)


def recoveries(study: Study, root: str, judge: str, orders: Iterable[str] = ORDERS) -> dict[str, Recovery]:
    """By kind, how well a metric or protocol of a finished study recovers the known order; without what is missing."""
    bench = bench_for(Setting.all_of(study)[0], root)
    found = {}
    for kind in orders:
        chains = [read_chain(name).name for name in ORDERS[kind]]
        one = _metric(bench, judge, chains) if judge not in PROTOCOLS else _protocol(bench, judge, chains)
        if one is not None:
            found[kind] = one
    return found


def _metric(bench: Bench, judge: str, chains: Sequence[str]) -> Recovery | None:
    setting, sign = bench.setting, sign_of(judge)
    each = [evaluation(bench, ScoreCell(setting.task, setting.model, chain, judge, 0)) for chain in chains]
    made = [one for one in each if one is not None]
    if len(made) < len(chains):
        return None
    if metrics[read_metric(judge).name].facts["whole"] is None:
        return recovery_of_images(sign * np.stack([one.arrays["value"] for one in made]))
    values = np.array([one.value for one in made])
    return recovery(
        sign * values, sign * np.stack([one.arrays[RESAMPLED] for one in made]), len(made[0].arrays["value"])
    )


def _protocol(bench: Bench, judge: str, chains: Sequence[str]) -> Recovery | None:
    """The share of test images that are right, image by image: every replicate is tested with the same."""
    setting, sign = bench.setting, 1 if protocol_named(judge).higher_is_better else -1
    cells = [Cell(setting.task, setting.model, chain, judge, FRACTION, 0) for chain in chains]
    items = [bench.store.find("cell", bench.keys.cell(cell)) for cell in cells]
    scores = [item.arrays["test_scores"] for item in items if item is not None]
    if len(scores) < len(cells):
        return None
    labels = bench.task.test.labels.numpy()
    return recovery_of_images(sign * np.stack([(s.argmax(1) == labels).astype(float) for s in scores]))


def accuracy_of(study: Study, root: str) -> float:
    """The share of test images on which the explained network is right."""
    bench = bench_for(Setting.all_of(study)[0], root)
    item: Mapping[str, Any] = bench.base_models.get(0)[1].arrays
    return float((item["test_scores"].argmax(1) == bench.task.test.labels.numpy()).mean())
