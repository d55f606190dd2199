"""Is the time that commands promise right? From a tenth of the time on it should be, within a factor of two.

    python benchmarks/time_left.py            # a study with 1 and 2 processes, its audits, scores, maps
    python benchmarks/time_left.py --quick    # a smaller study
    python benchmarks/time_left.py --study    # the study with one process alone, the evaluator first

While each runs, the time left is noted several times a second with the time that has gone by. When it has ended the truth is
known. Reported: the share of the moments after the first tenth at which something was promised, at which the promise was right
within a factor of two (or within two seconds, which is what a person can tell), and the median and worst ratio.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from uproar.cli.mapping_progress import MapProgress, ScoreProgress
from uproar.cli.progress import Watch, of_study
from uproar.cli.subjects import make_subject, read_image_set
from uproar.estimators import read_chain
from uproar.storage.store import Store
from uproar.study.maps import pieces_of, stored_maps
from uproar.study.run import run_study
from uproar.study.score_cost import ScoreCost
from uproar.study.spec import study_of
from uproar.study.subject_scores import subject_scores

EVERY = 0.1
"""Seconds between two notes."""
TELLABLE = 2.0
"""Seconds that make no difference to who waits."""


def noted(work: Callable[[Watch], None]) -> list[tuple[float, float | None]]:
    """Seconds gone by and seconds promised, again and again while some work is done; the last is its end."""
    watch, ended, notes = Watch("starting"), threading.Event(), []
    began = time.perf_counter()

    def note() -> None:
        while not ended.wait(EVERY):
            notes.append((time.perf_counter() - began, watch.stage.left()))

    thread = threading.Thread(target=note)
    thread.start()
    work(watch)
    total = time.perf_counter() - began
    ended.set()
    thread.join()
    return [*[(at, left) for at, left in notes if at <= total], (total, 0.0)]


def judged(name: str, notes: list[tuple[float, float | None]]) -> None:
    total = notes[-1][0]
    late = [(at, left) for at, left in notes[:-1] if at >= 0.1 * total]
    told = [(max(left, 1e-3), total - at) for at, left in late if left is not None]
    ratios = np.array([promised / max(true, 1e-3) for promised, true in told])
    near = np.array([abs(promised - true) <= TELLABLE for promised, true in told])
    right = near | ((ratios >= 0.5) & (ratios <= 2))
    far = ratios[~near]
    worst = float(np.exp(np.abs(np.log(far)).max())) if len(far) else 1.0
    print(
        f"| {name} | {total:.0f} | {len(told) / max(len(late), 1):.0%} | {right.mean():.0%} | "
        f"{np.median(ratios):.2f} | {worst:.1f}× |",
        flush=True,
    )


def study(folder: Path, quick: bool, jobs: int, audits: tuple[str, ...] = ()) -> Callable:
    settings = {
        "estimators": ["random", "grad", "ig", "sg(grad)", "sg_sq(grad)", "rise"],
        "seeds": 2 if quick else 3,
        "limit": 300 if quick else None,
        "fractions": [0.3, 0.5, 0.7],
        "audits": audits,
    }
    chosen = study_of({k: v for k, v in settings.items() if v is not None})
    return lambda watch: run_study(chosen, folder / "store", jobs, of_study(watch))


def maps(folder: Path, quick: bool, score: bool) -> Callable:
    def work(watch: Watch) -> None:
        store = Store(folder / "maps")
        size = 100 if quick else 300
        images = read_image_set(None, "digits", "cnn-small", None, None, size, None, 0, store, watch)
        subject = make_subject(images, "cnn-small", None, "label", 0, watch)
        names = ("random", "grad", "ig", "sg_sq(grad)", "rise", "lime")
        chains = [read_chain(name) for name in names]
        if not score:
            pieces = pieces_of(subject, chains, store)
            stored_maps(subject, chains, store, MapProgress(watch, pieces, len(subject.x)), pieces)
            return
        asked = ("insertion", "deletion", "road", "average_drop")
        cost = ScoreCost.of(subject, chains, (), asked, store)
        doing = ScoreProgress(watch, cost, None, time.perf_counter())
        maps = stored_maps(subject, chains, store, doing.explained, cost.pieces)
        doing.limited_to(len(subject.x))
        subject_scores(subject, maps, chains, asked, seed=0, labelled=True, listen=doing.scored, over=doing.over)

    return work


def main(quick: bool, alone: bool) -> None:
    torch.set_num_threads(1)
    print("| what | seconds | promised | right within 2× | median ratio | worst |\n|---|---|---|---|---|---|")
    for jobs in (1, 2):
        with tempfile.TemporaryDirectory() as place:
            name = f"study, {jobs} process{'es' * (jobs > 1)}"
            judged(name, noted(study(Path(place), quick, jobs)))
            if alone:
                return
            if jobs == 1:
                more = study(Path(place), quick, jobs, ("geometry", "values", "sparsity"))
                judged("three audits of it, 1 process", noted(more))
    for score in (False, True):
        with tempfile.TemporaryDirectory() as place:
            judged(
                "scores of six estimators" if score else "maps of six estimators",
                noted(maps(Path(place), quick, score)),
            )


if __name__ == "__main__":
    main("--quick" in sys.argv, "--study" in sys.argv)
