"""`uproar choose` and `uproar score`: which method to use for a network that you have; the metrics of its maps.

Neither needs a study. A command that was not told where to write overwrites nothing of another question.
"""

from __future__ import annotations

import itertools
import json
import re
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from rich.markup import escape

from uproar.cli.interrupt import AGAIN, NOTHING, keeping
from uproar.cli.network import Network, compile_imputer, cut_maps, read_maps
from uproar.cli.options import (
    ChoiceBudget,
    Limit,
    ScoreBudget,
    ScoredTarget,
    advanced,
    check_folder,
    flag,
    load_plugins,
    names,
    option,
)
from uproar.cli.progress import Watch, watched
from uproar.cli.report import written
from uproar.cli.results import add_scores_to_json, print_answers, print_metric_tables
from uproar.cli.screen import command, note, output, print_file, print_next, some
from uproar.errors import BadInput
from uproar.paths import public_command, user_path
from uproar.statistics.design import BASELINES
from uproar.wording import duration, seconds_of

if TYPE_CHECKING:
    from torch import Tensor

    from uproar.estimators import Chain
    from uproar.results.answer import Answer
    from uproar.results.evaluator import EvaluatorBits
    from uproar.results.scores import Scores
    from uproar.store import Store
    from uproar.study.subjects import Subject

DEFAULT_METRICS = ("insertion", "deletion", "road")
DEFAULT_ESTIMATORS = ("saliency", "ig", "smoothgrad")


def free_folder(first: Path, line: str) -> Path:
    """The first of `runs/score`, `runs/score-2`, … that holds nothing, or what the same command wrote before."""
    question = line.replace(" --json", "")
    for number in itertools.count(1):
        folder = first if number == 1 else first.with_name(f"{first.name}-{number}")
        file = user_path(folder) / "scores.json"
        if not file.exists():
            return folder
        try:
            facts = json.loads(file.read_text(encoding="utf-8"))
            if str(facts["provenance"]["command"]).replace(" --json", "") == question:
                return folder
        except (OSError, ValueError, KeyError, TypeError):
            continue  # it does not say whose it is
    raise AssertionError("there are numbers enough")


@dataclass(frozen=True)
class Destination:
    """Where a command writes its report, and the maps that it resumes from."""

    command: str
    folder: Path
    taken: Path | None
    """The usual folder, where it holds what another command found."""
    maps: Path

    @classmethod
    def of(cls, usual: Path, out: Path | None) -> Destination:
        """The folder that was named, or the usual one or one beside it; refused if it cannot be written to."""
        line = public_command(["uproar", *sys.argv[1:]])
        folder = free_folder(usual, line) if out is None else out
        check_folder(folder)
        return cls(line, folder, usual if out is None and folder != usual else None, (out or usual) / "store")

    def kept(self) -> str:
        """What is left of a command that was stopped: its maps, as far as there were any."""
        return f"Finished maps are in {self.maps}; {AGAIN}" if (self.maps / "maps").is_dir() else NOTHING

    def write(self, scores: Scores, seed: int) -> Path:
        """Write the report of scores; its path."""
        from uproar.report import write_report  # tables and plots load slowly

        facts = {"command": self.command, "seed": seed}
        return written(lambda: write_report(replace(scores, provenance=facts), self.folder))

    def print(self, scores: Scores, page: Path, notices: Sequence[str], tables: bool) -> None:
        """Print what was found, and where the report of it is."""
        if self.taken is not None:
            note(f"{self.taken} holds what another command found and is left as it is: this went to {self.folder}.")
        note(*notices, *scores.notices)
        add_scores_to_json(scores, page)
        if scores.quality is not None:
            output.print(escape(scores.quality.sentence), soft_wrap=True)
        if tables:
            print_metric_tables(scores)
            output.print(f"{scores.forwards:,} images shown to the model.")
        print_answers([scores.answer])
        print_file("Report", page)


def beside(name: str) -> Any:
    """The option that names the folder of a report."""
    default = f"runs/{name}; runs/{name}-2, … if that holds the results of another command"
    return advanced("FOLDER", "The report goes here", default=default)


def choose(
    network: Network,
    methods: Annotated[list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="usual")] = None,
    train: Annotated[str | None, option("PATH", "Training images in class folders: more metrics")] = None,
    limit: Limit = 500,
    budget: ChoiceBudget = "2m",
    out: Annotated[Path | None, beside("choose")] = None,
    target: ScoredTarget = None,
) -> int:
    """Say which attribution method to use for a network, and which ones not."""
    began = time.perf_counter()  # loading torch is part of the time
    network.check(limit, target)
    destination = Destination.of(Path("runs/choose"), out)
    seconds = seconds_of(budget)
    from uproar.estimators import read_chain  # torch loads slowly
    from uproar.store import Store
    from uproar.study.choose import METHODS, Chooser
    from uproar.study.subjects import fine_tuner_of

    load_plugins(network.plugin)
    chosen, store = some("--methods", methods, METHODS), Store(destination.maps)
    for name in chosen:
        read_chain(re.sub(r"(, *)?\b\w+=all\b", "", name))  # a wrong name is refused before anything is computed
    on_task = network.images is None
    with watched("reading the images") as watch, keeping(destination.kept):
        images = network.read(limit, store, watch, train, mixed=True)
        subject, how = network.scored_subject(images, target, watch)
        tuner = None if on_task else fine_tuner_of(subject, images, network.seed, store)
        compile_imputer("linear", ("road",), watch)
        share = seconds * (0.5 if on_task else 1.0)
        how |= {"fine_tuner": tuner, "titles": images.titles, "budget": share, "tell": watch.say, "began": began}
        chooser = Chooser(subject, chosen, store, show=shown_so_far(len(images.x)), **how)
        scores = chooser.scores()
        if on_task or train is not None:
            task: str | None = network.task
            if not on_task:  # evaluators are trained on square pictures in a folder per class
                height, width = subject.x.shape[2:]
                fits = train is not None and Path(train).is_dir() and height == width
                task = f"folder(root={train!r}, size={width})".replace("'", '"') if fits else None
            left = seconds - chooser.spent
            scores = with_evaluators(scores, task, network, str(destination.maps), left, watch)
        watch.say("drawing the report")
        page = destination.write(scores, network.seed)
    destination.print(scores, page, store.faults.take_notices(), tables=False)
    output.print(f"It took {duration(time.perf_counter() - began)}.")
    best = scores.answer.recommended
    again = [*network.words(), *([] if target is None else ["--target", target])]
    print_next(f"open {page}", f"{command('explain', *again, '--estimators', best[0])} shows its maps" if best else "")
    return 0


def shown_so_far(images: int) -> Callable[[Answer, int], None]:
    """Says the answer so far after each round, as long as more images follow."""

    def show(answer: Answer, done: int) -> None:
        if done < images:
            note(f"So far ({done} of {images} images): {answer.lines[0]}")

    return show


def with_evaluators(
    scores: Scores, task: str | None, network: Network, store: str, budget: float | None, watch: Watch
) -> Scores:
    """The scores with those of evaluators for the same methods, where there is time and a task to train them on."""
    from uproar.study.evaluations import evaluations_of

    evaluations: Mapping[str, EvaluatorBits] = {}
    if task is None:
        why = "No evaluator was trained: it needs square pictures in a folder per class."
    elif budget is not None and budget <= 0:
        why = "No evaluator was trained: the time was over. The same command with a larger `--budget` trains them."
    else:
        watch.note("training evaluators")
        methods = list(dict.fromkeys(scores.table["method"]))
        named = (task, network.model, network.weights, methods, network.plugin or (), network.seed)
        evaluations, why = evaluations_of(*named, store, budget, watch.of_study)
    return replace(scores, evaluations=evaluations, notices=(*scores.notices, *([why] if why else [])))


def score(
    network: Network,
    maps: Annotated[list[str] | None, option("FILE", "Your own maps: .npz, .npy, .safetensors")] = None,
    estimators: Annotated[
        list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="three")
    ] = None,
    metrics: Annotated[list[str] | None, names("metrics", "uproar ls metrics", default="usual ones")] = None,
    limit: Limit = 500,
    budget: ScoreBudget = None,
    out: Annotated[Path | None, beside("score")] = None,
    train: Annotated[
        str | None,
        advanced(
            "PATH",
            "Training images with labels, for metrics that fine-tune the network: a folder per class, or an array file",
            default="those of the task",
        ),
    ] = None,
    target: ScoredTarget = None,
    no_baselines: Annotated[
        bool, flag("--no-baselines", f"Without the baselines {', '.join(BASELINES)}", advanced=True)
    ] = False,
) -> int:
    """Score maps by metrics that need no retraining, with a report."""
    network.check(limit, target)
    destination = Destination.of(Path("runs/score"), out)
    from uproar.data.user_images import WAYS  # torch loads slowly
    from uproar.estimators import read_chain, require_maps
    from uproar.metrics.registry import fine_tuning_of
    from uproar.store import Store

    load_plugins(network.plugin)
    asked = some("--metrics", metrics, DEFAULT_METRICS)
    fine_tuned = [name for name in asked if fine_tuning_of(name) is not None]
    if fine_tuned and network.images is not None and train is None:
        raise BadInput(f"{fine_tuned[0]} uses a fine-tuned copy of the network: give --train, {WAYS}.")
    began, seconds = time.perf_counter(), None if budget is None else seconds_of(budget)
    store = Store(destination.maps)
    given = read_maps(maps)
    ready = [name for maps_of in given.values() for name in maps_of]
    methods = some("--estimators", estimators, () if maps else DEFAULT_ESTIMATORS)
    chains = require_maps([read_chain(name) for name in with_baselines(methods, ready, not no_baselines)])
    from uproar.study.subjects import fine_tuner_of, with_applicable  # tables load slowly: not before names are known

    with watched("reading the images") as watch, keeping(destination.kept):
        images = network.read(limit, store, watch, train)
        arrays = cut_maps(given, images.x)
        subject, how = network.scored_subject(images, target, watch)
        epochs = watch.counting("epochs", f"fine-tuning {network.model}")
        tuner = fine_tuner_of(subject, images, network.seed, store, epochs)
        compile_imputer("mean", asked, watch)
        how |= {"fine_tuner": tuner if fine_tuned else None}

        def scored(applicable: list[Chain]) -> Scores:
            return score_in_rounds(subject, applicable, arrays, asked, store, watch, seconds, began, how)

        scores, left_out = with_applicable(subject, chains, scored, () if ready else BASELINES)
        scores = replace(scores, notices=(*left_out, *scores.notices))
        watch.say("drawing the report")
        page = destination.write(scores, network.seed)
    destination.print(scores, page, store.faults.take_notices(), tables=True)
    again = replace(network, answers="auto", seed=0).words()
    retrained = [chain.name for chain in chains if chain.role == "method" and chain.name in scores.maps]
    run = command("run", *again, "--estimators", ",".join(retrained))
    print_next(f"open {page}", f"{run} compares them by retraining" if network.images is None and retrained else "")
    return 0


def score_in_rounds(
    subject: Subject,
    chains: list[Chain],
    ready: dict[str, Tensor],
    metrics: Sequence[str],
    store: Store,
    watch: Watch,
    budget: float | None,
    began: float,
    how: dict[str, Any],
) -> Scores:
    """The scores of all images; with a budget of as many as there is time for, in rounds."""
    from uproar.study.choose import FIRST, images_between, interim_image_counts
    from uproar.study.subjects import pieces_of, stored_maps, subject_scores

    images = len(subject.x)
    counts = (images,) if budget is None else interim_image_counts(images, FIRST)
    for n, following in zip(counts, (*counts[1:], images), strict=True):
        start, part = time.perf_counter(), images_between(subject, 0, n)
        pieces = pieces_of(part, chains, store)
        maps = {name: each[:n] for name, each in ready.items()}
        maps |= stored_maps(part, chains, store, watch.explaining(pieces, n), pieces)
        scores = subject_scores(part, maps, chains, metrics, listen=counted(watch, n * len(maps)), **how)
        expected = (time.perf_counter() - start) * following / n
        if budget is not None and n < images and time.perf_counter() - began + expected > budget:
            why = f"Stopped after {n} of {images} images: the next round would take about {duration(expected)}."
            return replace(scores, notices=(*scores.notices, why))
    return scores


def counted(watch: Watch, total: int) -> Callable[[str, int, int, float], None]:
    """A listener that shows how many images have been scored by how many methods."""
    count, done = watch.counting("scores", "scoring"), 0
    count(0, total)

    def listen(method: str, more: int, whole: int, seconds: float) -> None:
        nonlocal done
        done += more
        count(done, total)

    return listen


def with_baselines(names: Sequence[str], given: Collection[str], wanted: bool) -> list[str]:
    """The estimators after the baselines, without which no number can be read; maps that are given keep their names.

    >>> with_baselines(["grad"], {"sobel"}, True), with_baselines(["grad"], {}, False)
    (['random', 'centre', 'brightness', 'block_random', 'grad'], ['grad'])
    """
    twice = next((name for name in names if name in given), None)
    if twice is not None:
        raise BadInput(f"There are maps called {twice!r} and an estimator of that name: give the maps another name.")
    return list(dict.fromkeys([*(name for name in BASELINES if wanted and name not in given), *names]))
