"""`uproar choose`: which attribution method to use for a network that you have, with or without its training images."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.checks import check_folder, default_folder, tell_other_folder
from uproar.cli.console import note, output, print_file, some
from uproar.cli.interrupt import AGAIN, NOTHING, keeping
from uproar.cli.next_steps import command, open_page_hint, print_next
from uproar.cli.options import Limit, ScoredTarget, names, option, with_options
from uproar.cli.print_answers import print_answers, print_headline
from uproar.cli.print_results import add_scores_to_json
from uproar.cli.progress import Watch, of_study, watched
from uproar.cli.report import written
from uproar.cli.subjects import Network, compile_imputer
from uproar.paths import public_command
from uproar.remaining_time import duration, seconds_of

if TYPE_CHECKING:
    from uproar.results.evaluator import EvaluatorBits
    from uproar.results.scores import Scores

FOLDER = Path("runs/choose")
"""Where an answer goes that was not told where; its maps are kept in its store, also by others with a number."""


@with_options(network=Network)
def choose(
    network: Network,
    methods: Annotated[
        list[str] | None, names(kind="estimators", text="uproar ls estimators", default="ten usual")
    ] = None,
    train: Annotated[str | None, option(takes="PATH", text="Training images in class folders: more metrics")] = None,
    limit: Limit = 500,
    budget: Annotated[str | None, option(takes="TIME", text="Stop after about 90s, 10m, 1h")] = None,
    out: Annotated[
        Path | None,
        option(
            takes="FOLDER",
            text="The report goes here",
            default="runs/choose; runs/choose-2, … if that holds the answer to another command",
            advanced=True,
        ),
    ] = None,
    target: ScoredTarget = None,
) -> int:
    """Say which attribution method to use for a network, and which ones not."""
    began = time.perf_counter()  # loading torch is part of the time
    network.check(limit, target)
    asked_by = public_command(["uproar", *sys.argv[1:]])
    kept_maps = (FOLDER if out is None else out) / "store"
    told, out = out, default_folder(FOLDER, asked_by) if out is None else out
    check_folder(out)
    seconds = None if budget is None else seconds_of(budget)
    from uproar.estimators import read_chain  # torch loads slowly
    from uproar.store import Store
    from uproar.study.choose import METHODS, Chooser
    from uproar.study.subjects import fine_tuner_of

    network.load_plugins()
    asked, place = some("--methods", methods, METHODS), Store(kept_maps)
    for name in asked:
        read_chain(name)  # a slip of the pen is told before anything is computed
    with watched("reading the images") as watch, keeping(_left(kept_maps)):
        chosen = network.read(limit, place, watch, train, mixed=True)
        subject, how = network.scored_subject(chosen, None, target, watch)
        on_task = network.images is None
        tuner = None if on_task else fine_tuner_of(subject, chosen, network.seed, place)
        compile_imputer("linear", ("road",), watch)
        share = None if seconds is None else seconds * (0.5 if on_task else 1.0)
        how |= {"fine_tuner": tuner, "titles": chosen.titles, "budget": share, "tell": watch.say, "began": began}
        chooser = Chooser(subject, asked, place, **how)
        scores = chooser.scores()
        if on_task or train is not None:
            task = network.task if on_task else _training_task(train, subject.x.shape)
            left = None if seconds is None else seconds - chooser.spent
            scores = _evaluated(scores, task, network, kept_maps, left, watch)
        watch.say("drawing the report")
        from uproar.report import write_scores  # tables and plots load slowly

        facts = {"command": asked_by, "seed": network.seed}
        page = written(lambda: write_scores(replace(scores, provenance=facts), out))
    if told is None:
        tell_other_folder(FOLDER, out)
    note(*place.faults.take_notices(), *scores.notices)
    add_scores_to_json(scores, page)
    if scores.quality is not None:
        output.print(escape(scores.quality.sentence), soft_wrap=True)
    print_answers([scores.answer])
    print_headline(scores.answer)
    output.print(f"Answered in {duration(time.perf_counter() - began)}.")
    print_file("Report", page)
    best = scores.answer.recommended
    again = [*network.words, *([] if target is None else ["--target", target])]
    maps = f"{command('explain', *again, '--estimators', best[0])} shows its maps" if best else ""
    print_next(open_page_hint(page), maps)
    return 0


def _training_task(train: str | None, shape: Sequence[int]) -> str | None:
    """The task that an evaluator is trained on where images are one's own: a folder with a folder per class."""
    if train is None or not Path(train).is_dir() or shape[2] != shape[3]:
        return None
    return f"folder(root={train!r}, size={shape[2]})".replace("'", '"')


def _evaluated(
    scores: Scores, task: str | None, network: Network, store: Path, budget: float | None, watch: Watch
) -> Scores:
    """The scores with what evaluators say of the same methods, where there is time and a task to train them on."""
    from uproar.study.evaluations import evaluations_of

    evaluations: Mapping[str, EvaluatorBits] = {}
    if task is None:
        why = "No evaluator was asked: it is trained on square pictures in a folder per class."
    elif budget is not None and budget <= 0:
        again = "The same command with a larger `--budget` asks them."
        why = f"No evaluator was asked: the time was over. {again}"
    else:
        watch.note("asking evaluators")
        names = list(dict.fromkeys(scores.table["method"]))
        named = (task, network.model, network.weights, names, network.plugin or (), network.seed)
        evaluations, why = evaluations_of(*named, str(store), budget, of_study(watch))
    return replace(scores, evaluations=evaluations, notices=(*scores.notices, *([why] if why else [])))


def _left(store: Path) -> Callable[[], str]:
    """What is left of a choice that was stopped."""
    return lambda: f"Finished maps are in {store}; {AGAIN}" if (store / "maps").is_dir() else NOTHING
