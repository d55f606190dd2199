"""`uproar score`: all metrics of maps you have, or of estimators, on a fixed model; no retraining."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from uproar.cli.checks import check_folder, default_folder, tell_other_folder
from uproar.cli.console import note, output, print_file, some
from uproar.cli.interrupt import AGAIN, NOTHING, keeping
from uproar.cli.next_steps import command, open_page_hint, print_next
from uproar.cli.options import Limit, ScoredTarget, flag, names, option, with_options
from uproar.cli.print_answers import print_answers, print_headline
from uproar.cli.print_results import add_scores_to_json
from uproar.cli.print_tables import print_metric_tables
from uproar.cli.progress import watched
from uproar.cli.report import written
from uproar.cli.subjects import Network, compile_imputer, cut_maps, read_labels, read_maps
from uproar.errors import BadInput
from uproar.paths import public_command
from uproar.remaining_time import duration, seconds_of
from uproar.statistics.design import BASELINES

if TYPE_CHECKING:
    from torch import Tensor

    from uproar.cli.progress import Watch
    from uproar.estimators import Chain
    from uproar.results.scores import Scores
    from uproar.store import Store
    from uproar.study.subjects import Subject

FOLDER = Path("runs/score")
"""Where scores go that were not told where; their maps are kept in its store, also by others with a number."""
DEFAULT_METRICS = ("insertion", "deletion", "road")
DEFAULT_ESTIMATORS = ("saliency", "ig", "smoothgrad")
"""Scored beside all others unless told not to."""


@with_options(network=Network)
def score(
    network: Network,
    maps: Annotated[list[str] | None, option(takes="FILE", text="Your own maps: .npz, .npy, .safetensors")] = None,
    estimators: Annotated[
        list[str] | None, names(kind="estimators", text="uproar ls estimators", default="three usual")
    ] = None,
    metrics: Annotated[list[str] | None, names(kind="metrics", text="uproar ls metrics", default="usual ones")] = None,
    limit: Limit = 500,
    budget: Annotated[str | None, option(takes="TIME", text="Stop after about 90s, 10m, 1h")] = None,
    out: Annotated[
        Path | None,
        option(
            takes="FOLDER",
            text="The report goes here",
            default="runs/score; runs/score-2, … if that holds the scores of another command",
            advanced=True,
        ),
    ] = None,
    labels: Annotated[
        str | None,
        option(
            takes="FILE",
            text="Labels of the images: .npy, .npz or .safetensors",
            default="those of the images, else what the model predicts",
            advanced=True,
        ),
    ] = None,
    train: Annotated[
        str | None,
        option(
            takes="PATH",
            text="Training images with labels, for metrics that fine-tune the network: a folder per class, or an array "
            "file",
            default="those of the task",
            advanced=True,
        ),
    ] = None,
    target: ScoredTarget = None,
    no_baselines: Annotated[
        bool, flag("--no-baselines", text=f"Without the baselines {', '.join(BASELINES)}", advanced=True)
    ] = False,
) -> int:
    """Score maps by metrics that need no retraining, with a report."""
    network.check(limit, target)
    asked_by = public_command(["uproar", *sys.argv[1:]])
    kept_maps = (FOLDER if out is None else out) / "store"
    told, out = out, default_folder(FOLDER, asked_by) if out is None else out
    check_folder(out)
    from uproar.data.user_images import WAYS  # torch loads slowly
    from uproar.estimators import read_chain, require_maps
    from uproar.metrics.registry import fine_tuning_of
    from uproar.store import Store
    from uproar.study.subjects import fine_tuner_of, with_applicable

    network.load_plugins()
    asked = some("--metrics", metrics, DEFAULT_METRICS)
    fine_tuned = [name for name in asked if fine_tuning_of(name) is not None]
    if fine_tuned and network.images is not None and train is None:
        raise BadInput(f"{fine_tuned[0]} asks a fine-tuned copy of the network: give --train, {WAYS}.")
    began, seconds = time.perf_counter(), None if budget is None else seconds_of(budget)
    place = Store(kept_maps)
    given = read_maps(maps)
    made = some("--estimators", estimators, () if maps else DEFAULT_ESTIMATORS)
    own = [name for maps_of in given.values() for name in maps_of]
    chains = require_maps([read_chain(name) for name in _with_baselines(made, own, not no_baselines)])
    with watched("reading the images") as watch, keeping(_left(kept_maps)):
        chosen = network.read(limit, place, watch, train)
        arrays = cut_maps(given, chosen.x)
        right = None if labels is None else read_labels(labels, chosen)
        subject, how = network.scored_subject(chosen, right, target, watch)
        epochs = watch.counting("epochs", f"fine-tuning {network.model}")
        tune = fine_tuner_of(subject, chosen, network.seed, place, epochs)
        compile_imputer("mean", asked, watch)
        how |= {"fine_tuner": tune if fine_tuned else None}

        def scored(kept: list[Chain]) -> Scores:
            return _in_rounds(subject, kept, arrays, asked, place, watch, seconds, began, how)

        scores, left_out = with_applicable(subject, chains, scored, () if own else BASELINES)
        scores = replace(scores, notices=(*left_out, *scores.notices))
        watch.say("drawing the report")
        from uproar.report import write_scores  # tables and plots load slowly

        facts = {"command": asked_by, "seed": network.seed}
        page = written(lambda: write_scores(replace(scores, provenance=facts), out))
    if told is None:
        tell_other_folder(FOLDER, out)
    note(*place.faults.take_notices(), *scores.notices)
    add_scores_to_json(scores, page)
    _print(scores)
    print_answers([scores.answer])
    print_headline(scores.answer)
    print_file("Report", page)
    retrained = [chain.name for chain in chains if chain.role == "method" and chain.name in scores.maps]
    again = replace(network, answers="auto", seed=0).words
    asked_again = f"{command('run', *again, '--estimators', ','.join(retrained))} asks the same by retraining"
    print_next(open_page_hint(page), asked_again if network.images is None and retrained else "")
    return 0


def _in_rounds(
    subject: Subject,
    chains: list[Chain],
    own: dict[str, Tensor],
    metrics: Sequence[str],
    store: Store,
    watch: Watch,
    budget: float | None,
    began: float,
    how: dict[str, Any],
) -> Scores:
    """The scores of all images; with a budget of as many as there is time for, in rounds."""
    from uproar.study.choose import FIRST, first_images, interim_image_counts
    from uproar.study.subjects import pieces_of, stored_maps, subject_scores

    images = len(subject.x)
    counts = (images,) if budget is None else interim_image_counts(images, FIRST)
    for n, following in zip(counts, (*counts[1:], images), strict=True):
        start, part = time.perf_counter(), first_images(subject, n)
        pieces = pieces_of(part, chains, store)
        maps = {name: each[:n] for name, each in own.items()}
        maps |= stored_maps(part, chains, store, watch.explaining(pieces, n), pieces)
        listen = _counted(watch, n, len(maps))
        scores = subject_scores(part, maps, chains, metrics, listen=listen, **how)
        expected = (time.perf_counter() - start) * following / n
        if budget is not None and n < images and time.perf_counter() - began + expected > budget:
            said = f"Stopped after {n} of {images} images: the next round would take about {duration(expected)}."
            return replace(scores, notices=(*scores.notices, said))
    return scores


def _counted(watch: Watch, images: int, methods: int) -> Callable[[str, int, int, float], None]:
    """A listener that shows how many images have been scored by how many methods."""
    count, done = watch.counting("scores", "scoring"), 0
    count(0, images * methods)

    def listen(method: str, more: int, whole: int, seconds: float) -> None:
        nonlocal done
        done += more
        count(done, images * methods)

    return listen


def _with_baselines(names: Sequence[str], given: Collection[str], wanted: bool) -> list[str]:
    """The estimators after the baselines, without which no number can be read; maps that are given keep their names.

    >>> _with_baselines(["grad"], {"sobel"}, True), _with_baselines(["grad"], {}, False)
    (['random', 'centre', 'brightness', 'block_random', 'grad'], ['grad'])
    """
    twice = next((name for name in names if name in given), None)
    if twice is not None:
        raise BadInput(f"There are maps called {twice!r} and an estimator of that name: give the maps another name.")
    return list(dict.fromkeys([*(name for name in BASELINES if wanted and name not in given), *names]))


def _left(store: Path) -> Callable[[], str]:
    """What is left of scores that were stopped: their maps, as far as there were any."""
    return lambda: (
        f"Finished maps are in {store}, scores are not kept; {AGAIN}" if (store / "maps").is_dir() else NOTHING
    )


def _print(scores: Scores) -> None:
    """How good the network is, and a table per metric."""
    if scores.quality is not None:
        output.print(escape(scores.quality.sentence), soft_wrap=True)
    print_metric_tables(scores)
    output.print(f"{scores.forwards:,} images shown to the model.")
