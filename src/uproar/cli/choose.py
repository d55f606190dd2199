"""`uproar choose`: which attribution method to use for a network that you have, with or without its training images."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.checks import check_classes, check_folder, check_output_option, check_target_option
from uproar.cli.console import check_size, note, output, print_file, some
from uproar.cli.default_folder import default_folder, tell_other_folder
from uproar.cli.interrupt import AGAIN, NOTHING, keeping
from uproar.cli.next_steps import command, open_page_hint, print_next, same_subject
from uproar.cli.options import (
    Classes,
    DataRoot,
    Images,
    Limit,
    Model,
    OutputOption,
    PictureSize,
    Plugins,
    ScoredTarget,
    Seed,
    Task,
    Weights,
    names,
    option,
)
from uproar.cli.print_answers import print_answers, print_headline
from uproar.cli.print_results import add_scores_to_json
from uproar.cli.progress import Watch, of_study, watched
from uproar.cli.report import written
from uproar.errors import BadInput
from uproar.remaining_time import duration, seconds_of
from uproar.storage.backends import public_command

if TYPE_CHECKING:
    from uproar.results.scores import Scores

FOLDER = Path("runs/choose")
"""Where an answer goes that was not told where; its maps are kept in its store, also by others with a number."""


def choose(
    images: Images = None,
    methods: Annotated[
        list[str] | None, names(kind="estimators", text="uproar ls estimators", default="ten usual")
    ] = None,
    task: Task = "digits",
    model: Model = "cnn-small",
    weights: Weights = None,
    size: PictureSize = None,
    train: Annotated[str | None, option(takes="PATH", text="Training images in class folders: more metrics")] = None,
    limit: Limit = 500,
    budget: Annotated[str | None, option(takes="TIME", text="Stop after about 90s, 10m, 1h")] = None,
    plugin: Plugins = None,
    out: Annotated[
        Path | None,
        option(
            takes="FOLDER",
            text="The report goes here",
            default="runs/choose; runs/choose-2, … if that holds the answer to another command",
            advanced=True,
        ),
    ] = None,
    classes: Classes = None,
    answers: OutputOption = "auto",
    target: ScoredTarget = None,
    seed: Seed = 0,
    data_root: DataRoot = None,
) -> int:
    """Say which attribution method to use for a network, and which ones not."""
    began = time.perf_counter()  # loading torch is part of the time
    check_size(size, images)
    check_classes(classes, images)
    asked_by = public_command(["uproar", *sys.argv[1:]])
    kept_maps = (FOLDER if out is None else out) / "store"
    told, out = out, default_folder(FOLDER, asked_by) if out is None else out
    check_folder(out)
    check_output_option(answers)
    check_target_option(target)
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    seconds = None if budget is None else seconds_of(budget)
    from uproar.cli.imputer import compile_imputer  # torch loads slowly
    from uproar.cli.score_inputs import labelled_subject, said_output
    from uproar.cli.subjects import read_image_set
    from uproar.estimators import read_chain
    from uproar.extend import load_plugin
    from uproar.storage.store import Store
    from uproar.study.choose import METHODS as USUAL
    from uproar.study.choose import Chooser
    from uproar.study.fine_tuners import fine_tuner_of

    for file in plugin or ():
        load_plugin(file)
    asked, place = some("--methods", methods, USUAL), Store(kept_maps)
    for name in asked:
        read_chain(name)  # a slip of the pen is told before anything is computed
    with watched("reading the images") as watch, keeping(_left(kept_maps)):
        chosen = read_image_set(images, task, model, weights, classes, limit, size, seed, place, watch, train, True)
        subject, labelled = labelled_subject(chosen, None, model, weights, seed, watch, answers, target)  # type: ignore[arg-type]
        tuner = None if images is None else fine_tuner_of(subject, chosen, seed, place)
        compile_imputer("linear", ("road",), watch)
        share = None if seconds is None else seconds * (0.5 if images is None else 1.0)
        answered = said_output(subject, answers)  # type: ignore[arg-type]
        how = {"fine_tuner": tuner, "titles": chosen.titles, "budget": share, "tell": watch.say, "began": began}
        chooser = Chooser(subject, asked, place, labelled, seed, answered, **how)  # type: ignore[arg-type]
        scores = chooser.scores()
        if images is None or train is not None:
            scores = _evaluated(
                scores,
                _training_task(images, task, train, subject.x.shape),
                model,
                weights,
                plugin or (),
                seed,
                kept_maps,
                None if seconds is None else seconds - chooser.spent,
                watch,
            )
        watch.say("drawing the report")
        from uproar.report import write_choice  # tables and plots load slowly

        facts = {"command": asked_by, "seed": seed}
        page = written(lambda: write_choice(replace(scores, provenance=facts), out))
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
    again = same_subject(
        images, task, model, weights, classes, plugin, size=size, seed=seed, data_root=data_root, answers=answers
    )
    again += [] if target is None else ["--target", target]
    maps = f"{command('explain', *again, '--estimators', best[0])} shows its maps" if best else ""
    print_next(open_page_hint(page), maps)
    return 0


def _training_task(images: str | None, task: str, train: str | None, shape: tuple[int, ...]) -> str | None:
    """The task that an evaluator is trained on: the one chosen from, or that of a folder with a folder per class."""
    if images is None:
        return task
    if train is None or not Path(train).is_dir() or shape[2] != shape[3]:
        return None
    return f"folder(root={train!r}, size={shape[2]})".replace("'", '"')


def _evaluated(
    scores: Scores,
    task: str | None,
    model: str,
    weights: str | None,
    plugins: Sequence[str],
    seed: int,
    store: Path,
    budget: float | None,
    watch: Watch,
) -> Scores:
    """The scores with what evaluators say of the same methods, where there is time and a task to train them on."""
    from uproar.runs.evaluations import evaluations_of

    if task is None:
        said = "No evaluator was asked: it is trained on square pictures in a folder per class."
        return replace(scores, notices=(*scores.notices, said))
    if budget is not None and budget <= 0:
        return replace(
            scores,
            notices=(
                *scores.notices,
                "No evaluator was asked: the time was over. The same command with a larger `--budget` asks them.",
            ),
        )
    watch.note("asking evaluators")
    names = list(dict.fromkeys(scores.table["method"]))
    evaluations, why = evaluations_of(task, model, weights, names, plugins, seed, str(store), budget, of_study(watch))
    return replace(scores, evaluations=evaluations, notices=(*scores.notices, *([why] if why else [])))


def _left(store: Path) -> Callable[[], str]:
    """What is left of a choice that was stopped."""
    return lambda: f"Finished maps are in {store}; {AGAIN}" if (store / "maps").is_dir() else NOTHING
