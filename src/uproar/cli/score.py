"""`uproar choose` and `uproar score`: which method to use for a network that you have; the metrics of its maps.

Neither needs a study. A command that was not told where to write overwrites nothing of another question.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.network import Network, compile_imputer, cut_maps, read_maps
from uproar.cli.options import Limit, ScoredTarget, advanced, check_folder, load_plugins, names, option
from uproar.cli.progress import watched
from uproar.cli.results import add_scores_to_json, print_answers, print_metric_tables
from uproar.cli.screen import command, note, output, print_file, print_next, some
from uproar.errors import BadInput
from uproar.paths import public_command, user_path
from uproar.statistics.design import BASELINES
from uproar.wording import duration, seconds_of

if TYPE_CHECKING:
    from uproar.estimators import Chain
    from uproar.results.answer import Answer
    from uproar.results.scores import Scores

DEFAULT_METRICS = ("insertion", "deletion", "road")
DEFAULT_ESTIMATORS = ("saliency", "ig", "smoothgrad")


def output_folder(first: Path, line: str) -> Path:
    """The first of `runs/score`, `runs/score-2`, … that holds nothing, or what the same command wrote before."""
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        file = user_path(folder) / "scores.json"
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            if str(facts["provenance"]["command"]).replace(" --json", "") == line.replace(" --json", ""):
                return folder
        except FileNotFoundError:
            return folder
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it does not say whose it is
    raise AssertionError("there are numbers enough")


def command_line() -> str:
    """What was typed, without secrets."""
    return public_command(["uproar", *sys.argv[1:]])


def out_option(name: str) -> Any:
    """The option that names the folder of a report."""
    default = f"runs/{name}; runs/{name}-2, … if that holds the results of another command"
    return advanced("FOLDER", "The report goes here", default=default)


def write_page(scores: Scores, folder: Path, seed: int) -> Path:
    """Write the report of scores; its path."""
    from uproar.report import write_report  # tables and plots load slowly

    return write_report(replace(scores, provenance={"command": command_line(), "seed": seed}), folder)


def print_scores(scores: Scores, page: Path, notices: Sequence[str], tables: bool) -> None:
    """Print what was found, and where the report of it is."""
    note(*notices, *scores.notices)
    add_scores_to_json(scores, page)
    if scores.quality is not None:
        output.say(scores.quality.sentence)
    if tables:
        print_metric_tables(scores)
        output.say(f"{scores.forwards:,} images shown to the model.")
    print_answers([scores.answer])
    print_file("Report", page)


def choose(
    network: Network,
    methods: Annotated[list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="usual")] = None,
    train: Annotated[str | None, option("PATH", "Training images, labelled or not: evaluators")] = None,
    limit: Limit = 500,
    budget: Annotated[str, option("TIME", "Answer within about 90s, 10m, 1h", default="2m")] = "2m",
    out: Annotated[Path | None, out_option("choose")] = None,
    target: ScoredTarget = None,
) -> int:
    """Say which attribution method to use for a network, and which ones not."""
    began = time.perf_counter()  # loading torch is part of the time
    network.check(limit, target)
    usual = Path("runs/choose")
    folder = output_folder(usual, command_line()) if out is None else out
    check_folder(folder)
    seconds = seconds_of(budget)
    from uproar.estimators import read_chain  # torch loads slowly
    from uproar.store import Store
    from uproar.study.choose import METHODS, METRICS, Chooser, evaluated
    from uproar.study.evaluations import with_evaluators

    load_plugins(network.plugin)
    root = (out or usual) / "store"
    chosen, store = some("--methods", methods, METHODS), Store(root)
    for name in chosen:
        read_chain(re.sub(r"(, *)?\b\w+=all\b", "", name))  # a wrong name is refused before anything is computed
    on_task = network.images is None
    with watched("reading the images") as watch, keeping(f"Finished maps are in {root}; {AGAIN}"):
        images = network.read(limit, store, watch, train, mixed=True, train_labels=False)
        subject, how = network.scored_subject(images, target, watch)
        compile_imputer("mean", METRICS, watch)

        def show(answer: Answer, done: int) -> None:
            if done < len(images.x):
                note(f"So far ({done} of {len(images.x)} images): {answer.lines[0]}")

        trains = on_task or train is not None
        share = seconds / 2 if trains else seconds  # evaluators have the other half
        how |= {"titles": images.titles, "budget": share, "tell": watch.say, "began": began}
        chooser = Chooser(subject, chosen, store, show=show, **how)
        scores = chooser.scores()
        if trains:
            watch.note("training evaluators")
            named: dict[str, Any] = {"tasks": network.task, "models": network.model, "weights": network.weights}
            what = [*chooser.explained], network.seed, str(root), seconds - chooser.spent
            if on_task:
                named |= {"plugins": tuple(network.plugin or ())}
                scores = with_evaluators(scores, named, *what, None, watch.of_study)
            else:
                scores = evaluated(scores, subject, *what, listen=watch.of_study)
        watch.say("drawing the report")
        page = write_page(scores, folder, network.seed)
    print_scores(scores, page, store.faults.take_notices(), tables=False)
    output.say(f"It took {duration(time.perf_counter() - began)}.")
    best = scores.answer.recommended
    again = [*network.words(), *([] if target is None else ["--target", target])]
    print_next(f"open {page}", f"{command('explain', *again, '--estimators', best[0])} shows its maps" if best else "")
    return 0


def score(
    network: Network,
    maps: Annotated[list[str] | None, option("FILE", "Your own maps: .npz, .npy, .safetensors")] = None,
    estimators: Annotated[
        list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="three")
    ] = None,
    metrics: Annotated[list[str] | None, names("metrics", "uproar ls metrics", default="usual ones")] = None,
    limit: Limit = 500,
    out: Annotated[Path | None, out_option("score")] = None,
    train: Annotated[
        str | None,
        advanced("PATH", "Training images with labels, for metrics that fine-tune the network", default="of the task"),
    ] = None,
    target: ScoredTarget = None,
) -> int:
    """Score maps by metrics that need no retraining, with a report."""
    network.check(limit, target)
    usual = Path("runs/score")
    folder = output_folder(usual, command_line()) if out is None else out
    check_folder(folder)
    from uproar.data.user_images import WAYS  # torch loads slowly
    from uproar.estimators import read_chain, require_maps
    from uproar.metrics.registry import fine_tuning_of
    from uproar.store import Store

    load_plugins(network.plugin)
    chosen_metrics = some("--metrics", metrics, DEFAULT_METRICS)
    fine_tuned = [name for name in chosen_metrics if fine_tuning_of(name) is not None]
    if fine_tuned and network.images is not None and train is None:
        raise BadInput(f"{fine_tuned[0]} uses a fine-tuned copy of the network: give --train, {WAYS}.")
    root = (out or usual) / "store"
    store, users_maps = Store(root), read_maps(maps)
    methods = some("--estimators", estimators, () if maps else DEFAULT_ESTIMATORS)
    if twice := users_maps.keys() & methods:
        raise BadInput(f"There are maps called {min(twice)!r} and an estimator of that name: rename the maps.")
    wanted = dict.fromkeys([*(name for name in BASELINES if name not in users_maps), *methods])
    chains = require_maps([read_chain(name) for name in wanted])
    from uproar.study.subjects import fine_tuner_of, stored_maps, subject_scores, with_applicable

    with watched("reading the images") as watch, keeping(f"Finished maps are in {root}; {AGAIN}"):
        images = network.read(limit, store, watch, train)
        ready = cut_maps(users_maps, images.x)
        subject, how = network.scored_subject(images, target, watch)
        epochs = watch.counting("epochs", f"fine-tuning {network.model}")
        how["fine_tuner"] = fine_tuner_of(subject, network.seed, store, epochs) if fine_tuned else None
        compile_imputer("mean", chosen_metrics, watch)

        def scored(applicable: list[Chain]) -> Scores:
            every = {**ready, **stored_maps(subject, applicable, store, watch.explaining(len(images.x)))}
            count, done = watch.counting("scores", "scoring"), 0

            def listen_to_scores(method: str, more: int, whole: int, seconds: float) -> None:
                nonlocal done
                done += more
                count(done, len(images.x) * len(every))

            count(0, len(images.x) * len(every))
            return subject_scores(subject, every, applicable, chosen_metrics, listen=listen_to_scores, **how)

        scores, left_out = with_applicable(subject, chains, scored, () if users_maps else BASELINES)
        scores = replace(scores, notices=(*left_out, *scores.notices))
        watch.say("drawing the report")
        page = write_page(scores, folder, network.seed)
    print_scores(scores, page, store.faults.take_notices(), tables=True)
    retrained = [chain.name for chain in chains if chain.role == "method" and chain.name in scores.maps]
    run = command("run", *replace(network, output="auto", seed=0).words(), "--estimators", ",".join(retrained))
    print_next(f"open {page}", f"{run} compares them by retraining" if network.images is None and retrained else "")
    return 0
