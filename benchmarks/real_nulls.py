"""Real studies without a difference: how often is one random ranking called better or worse than others?

    python benchmarks/real_nulls.py             # digits: 200 rankings under the evaluator, ROAR and two metrics
    python benchmarks/real_nulls.py --protocols evaluator --metrics      # what needs no retraining for every ranking
    python benchmarks/real_nulls.py --task fashion-mnist --limit 600 --families 5

Every "estimator" is a random ranking, independent of all others, so that every verdict but "cannot tell" is wrong. The
rankings are dealt into families of ten with a baseline of three of their own, as a study of ten estimators has. Each
family is judged by the tests that every study is judged by: by the evaluator, under ROAR (networks retrained), under
metrics of the maps, against random and pair by pair. At most 5 % of the families may have a wrong verdict, and of the single tests at most
5 % may reach p = .05 before they are corrected.
"""

from __future__ import annotations

import argparse
import itertools
import tempfile
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pandas as pd

import uproar
from uproar.results.evaluator import EvaluatorBits, EvaluatorScores
from uproar.results.study import Results
from uproar.statistics.comparisons import compare_methods, compare_pairs
from uproar.statistics.design import ALPHA, BASELINE, random_ranking
from uproar.statistics.intervals import Measurements
from uproar.statistics.student_t import Numbers
from uproar.statistics.verdicts import compare

ESTIMATORS, RANKINGS = 10, 3
FAMILY = ESTIMATORS + RANKINGS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="digits")
    parser.add_argument("--families", type=int, default=20, help="of ten rankings and a baseline of three")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--limit", type=int, default=400, help="images per split")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=4, help="of the network")
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.5, 0.8])
    parser.add_argument("--protocols", nargs="*", default=["evaluator", "roar"], choices=["evaluator", "roar"])
    parser.add_argument("--metrics", nargs="*", default=["insertion(steps=8)", "deletion(steps=8)"])
    parser.add_argument("--store", help="where results are kept; by default they are not")
    parser.add_argument("--jobs", type=int, default=1)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        results = uproar.run(study(arguments), store=arguments.store or place, jobs=arguments.jobs)
    print(f"{arguments.task}: {arguments.families} families, {arguments.seeds} replicates.", flush=True)
    print("| judge | tests | raw p ≤ .05 | rankings with a wrong verdict | families with any |\n|---|---|---|---|---|")
    for judge, frames in judged(results, arguments.families).items():
        print(f"| {judge} | {summary(frames)} |", flush=True)


def study(arguments: argparse.Namespace) -> dict[str, object]:
    """One study whose estimators are the rankings of all families; families are made of it afterwards."""
    return {
        "name": "nulls",
        "tasks": arguments.task,
        "models": f"cnn-small(width={arguments.width})",
        "estimators": [random_ranking(draw) for draw in range(arguments.families * FAMILY)],
        "random_rankings": 1,
        "protocols": arguments.protocols,
        "metrics": arguments.metrics,
        "fractions": arguments.fractions,
        "seeds": arguments.seeds,
        "limit": arguments.limit,
        "recipe": {"epochs": arguments.epochs},
    }


def judged(results: Results, families: int) -> dict[str, list[pd.DataFrame]]:
    """By judge: the verdicts or pairs of every family."""
    frames: dict[str, list[pd.DataFrame]] = {}
    for family in range(families):
        names = [random_ranking(draw) for draw in range(family * FAMILY, (family + 1) * FAMILY)]
        for judge, frame in (*_evaluator_frames(results, names), *_roar_frames(results, names)):
            frames.setdefault(judge, []).append(frame)
        for metric, frame in _metric_frames(results.image_scores, names):
            frames.setdefault(f"{metric}, pairs and random", []).append(frame)
    return frames


def _roar_frames(results: Results, names: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    cells = results.done[(results.done["fraction"] > 0) & (results.done["protocol"] == "roar")]
    if cells.empty:
        return
    curves = _family_curves(cells, names)
    yield "ROAR, against random", compare(curves)
    yield "ROAR, pairs", compare_pairs(curves[curves["estimator"] != BASELINE])


def _evaluator_frames(results: Results, names: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    """The verdicts and pairs of a family by the evaluators of the study, for each of their targets."""
    for (_, _, target), bits in results.evaluations.items():
        scores = EvaluatorScores(_family_bits(bits, names))
        verdicts = scores.verdicts.rename(columns={"over_random_p": "p"})
        yield f"evaluator of the {target}, against random", verdicts
        yield f"evaluator of the {target}, pairs", scores.pairs


def _family_bits(bits: EvaluatorBits, names: Sequence[str]) -> EvaluatorBits:
    """What the evaluators say of a family; its first ranking is the baseline, since evaluators judge one."""

    def of_family(cells: Mapping[tuple[str, bool], Numbers]) -> dict[tuple[str, bool], Numbers]:
        owners = {BASELINE: names[0], **{name: name for name in names[RANKINGS:]}}
        return {(name, keeps): cells[own, keeps] for name, own in owners.items() for keeps in (False, True)}

    kinds = {BASELINE: "random", **dict.fromkeys(names[RANKINGS:], "method")}
    return EvaluatorBits(of_family(bits.own), of_family(bits.shifted), kinds)  # type: ignore[arg-type]


def _family_curves(cells: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """The tidy table of a family, its first rankings averaged to the baseline."""
    rows = cells[cells["estimator"].isin(names)]
    owner = rows["estimator"].where(~rows["estimator"].isin(names[:RANKINGS]), BASELINE)
    tidy = rows.assign(estimator=owner).groupby(["estimator", "seed", "fraction"])["accuracy"].mean().reset_index()
    return tidy.rename(columns={"seed": "replicate", "accuracy": "value"})


def _metric_frames(scores: pd.DataFrame, names: Sequence[str]) -> Iterator[tuple[str, pd.DataFrame]]:
    if scores.empty:
        return
    for metric, rows in scores[scores["estimator"].isin(names)].groupby("metric", observed=True):
        values = {
            str(name): group.pivot(index="seed", columns="image", values="value").to_numpy()
            for name, group in rows.groupby("estimator", observed=True)
        }
        baseline = np.mean([values.pop(name) for name in names[:RANKINGS]], axis=0)
        methods = {name: Measurements(v) for name, v in {BASELINE: baseline, **values}.items()}
        yield str(metric), compare_methods(methods, True)


def summary(frames: Sequence[pd.DataFrame]) -> str:
    """Tests, the share of small p, and how many rankings and families have a wrong verdict."""
    p = np.concatenate([frame["p"].to_numpy(dtype=float) for frame in frames])
    wrong = [frame[frame["side"] != 0] for frame in frames]
    columns = [c for c in ("estimator", "better", "worse") if c in frames[0]]
    named = {*itertools.chain.from_iterable(frame[c] for frame in wrong for c in columns)} - {BASELINE}
    total = len({*itertools.chain.from_iterable(frame[c] for frame in frames for c in columns)} - {BASELINE})
    families = sum(bool(len(frame)) for frame in wrong)
    small = f"{100 * (p <= ALPHA).mean():.1f} %"
    return f"{len(p)} | {small} | {len(named)} of {total} | {families} of {len(frames)}"


if __name__ == "__main__":
    main()
