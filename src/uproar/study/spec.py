"""A study: a file, a dict or an object that names what is to be compared, checked when it is read."""

from __future__ import annotations

import math
import re
import tomllib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from uproar.data.registry import check_task
from uproar.errors import BadInput, UproarError, did_you_mean, plainly, unknown
from uproar.estimators import Chain, read_chain
from uproar.estimators.adapters import MAPS, name_of, path_in
from uproar.expression import Call, parse
from uproar.extend import load_plugin
from uproar.metrics.evaluator import EVALUATORS, FRACTIONS, JUDGED
from uproar.metrics.registry import CHECKS, metrics, read_metric
from uproar.metrics.retraining import RETRAININGS, Retraining
from uproar.models import ModelSpec
from uproar.papers import shipped_studies
from uproar.paths import user_path
from uproar.plugins import file_at
from uproar.removal.fill import fills
from uproar.removal.order import check_fraction
from uproar.statistics.design import BASELINE, INTERIM_ANALYSES, MODEL_FREE, random_ranking, random_rankings_for
from uproar.study.devices import check_name
from uproar.training.recipe import Recipe

METHODS = (
    "saliency",
    "grad_input",
    "guided_backprop",
    "grad_cam",
    "lrp",
    "deep_lift",
    "occlusion",
    "smoothgrad",
    "sg_sq(grad)",
    "vargrad",
    "ig",
)
"""The methods that people use, in their usual form: saliency and SmoothGrad are of the gradient's size."""
DEMO_ESTIMATORS = (BASELINE, "block_random", "sobel", *METHODS)

MOST = 10_000
"""Entries of any list of a study: seeds, estimators, fractions, …"""
MOST_CELLS = 1_000_000
"""Numbers that a study asks for: all its lists multiplied."""
DEEPEST = 20
"""Lists and tables of a study inside each other."""
LARGEST_SEED = 2**63 - 1
LARGEST_FILE = 10_000_000
"""Bytes of a study file."""


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str | int | float) else value


def _seeds(value: Any) -> Any:
    if isinstance(value, bool | float | str):
        raise BadInput(f"seeds is a number of replicates, such as 5, or a list of seeds, not {value!r}.")
    if isinstance(value, int) and value < 1:
        raise BadInput(f"seeds must be at least 1, not {value}: one replicate per seed.")
    if isinstance(value, int) and value > MOST:
        raise BadInput(f"A study has at most {MOST} seeds, not {value}.")
    return tuple(range(value)) if isinstance(value, int) else value


def _recipe(value: Any) -> Any:
    if isinstance(value, Recipe | Mapping | str):
        return value
    raise BadInput(f"recipe is a table of settings or the name of a recipe, not {value!r}.")


def _load_plugins(files: tuple[str, ...]) -> tuple[str, ...]:
    for file in files:
        load_plugin(file)
    return files


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]


class Resources(BaseModel):
    """What one job takes on a cluster; no part of any result's identity."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cpus: Annotated[float, Field(gt=0)] = 1
    gpus: Annotated[float, Field(ge=0)] = 0

    def model_post_init(self, _: Any) -> None:
        """Refuse shares that no machine can give."""
        for name, value in (("cpus", self.cpus), ("gpus", self.gpus)):
            if not math.isfinite(value) or (value > 1 and value != int(value)):
                raise BadInput(f"resources.{name} is a whole number or a share below 1, not {value:g}.")


class Study(BaseModel):
    """What to run. Every field has a default: `Study()` is the evaluator, ROAR and KAR on digits."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = "digits"
    tasks: Names = ("digits",)
    models: Names = ("cnn-small",)
    estimators: Names = DEMO_ESTIMATORS
    baselines: Names = MODEL_FREE
    """Model-free rankings that evaluators and metrics score beside the estimators, as a bar that methods must pass."""
    metrics: Names = ("evaluator", "evaluator:model", "roar", "kar", "roar:no-retrain", "kar:no-retrain", *CHECKS)
    """What gives the estimators numbers (`uproar ls metrics`); what the recommendation needs is run first."""
    evaluator_models: Names = ()
    """Architectures of the evaluators, which seeds take in turn; by default one other than the explained network's."""
    evaluator_images: Annotated[int, Field(ge=2)] = JUDGED
    """Test images that evaluators score at most, drawn at random where there are more."""
    evaluator_fractions: Annotated[tuple[float, ...], BeforeValidator(_listed)] = FRACTIONS
    """Shares of the pixels that evaluators remove or keep; `fractions` are those of ROAR, KAR and their variants."""
    audits: Names = ()
    """Questions about the benchmark itself, e.g. `blur`, `leakage`; each runs what it needs beside the study."""
    claims: Names = ()
    """Papers whose claims are tested on the results (`uproar ls claims`), or single claims; nothing more is run."""
    fractions: Annotated[tuple[float, ...], BeforeValidator(_listed)] = (0.1, 0.3, 0.5, 0.7, 0.9)
    random_fractions: Annotated[tuple[float, ...], BeforeValidator(_listed)] = ()
    """Further fractions that are removed at random alone: how much can go before nothing is learned?"""
    random_rankings: Annotated[int | None, Field(ge=1, le=MOST)] = None
    """Independent random rankings per replicate, whose mean is the baseline; None: `random_rankings_for` as many."""
    seeds: Annotated[tuple[int, ...], BeforeValidator(_seeds)] = (0, 1, 2, 3, 4)
    """One whole replicate per seed; a number n means seeds 0..n-1."""
    until_decided: bool = False
    """Spend replicates where the ranking is undecided: interim analyses at 5, 8, 13, 20 of the seeds."""
    fill: str = "mean"
    features: Literal["pixel", "channel"] = "pixel"
    target: Literal["predicted", "label"] | Annotated[int, Field(ge=0, strict=True)] = "predicted"
    """What is explained: the predicted class or label, the true one, or that of a number; a component of values."""
    output: Literal["auto", "softmax", "sigmoid", "regression"] = "auto"
    """What the networks answer with; by default what the labels of the task are."""
    sign: Literal["none", "abs", "sq", "relu"] = "none"
    channels: Literal["sum", "mean", "max"] = "sum"
    weights: str | None = None
    """A file of trained weights: the base model is then given, not trained, and the same in all replicates."""
    pretrained: str | None = None
    """A file of weights from which every training starts; only with a recipe that says init = "pretrained"."""
    limit: Annotated[int | None, Field(ge=1)] = None
    device: Annotated[str, AfterValidator(check_name)] = "auto"
    """Where networks run: auto, cpu, cuda, cuda:1, mps. No part of any result's identity."""
    plugins: Annotated[Names, AfterValidator(_load_plugins)] = ()
    """Before the recipe, which a plug-in may declare."""
    recipe: Annotated[Recipe, BeforeValidator(_recipe)] = Field(default_factory=Recipe)
    resources: Resources = Field(default_factory=Resources)
    """What every job takes on a cluster (`--ray`)."""
    job_limit: Annotated[float, Field(gt=0)] = 24 * 3600.0
    """Seconds after which a job in a process of its own is ended, and its cells fail."""

    def __init__(self, /, **content: Any) -> None:
        try:
            super().__init__(**content)
        except ValidationError as error:
            raise _ours(error) from None

    def model_post_init(self, _: Any) -> None:
        """Refuse what could only fail later."""
        self._check_size()
        _distinct("fraction", [check_fraction(t) for t in self.fractions])
        _distinct("evaluator fraction", [check_fraction(t) for t in self.evaluator_fractions])
        if self.random_fractions:
            more = [check_fraction(t) for t in self.random_fractions]
            _distinct("fraction", [*self.fractions, *more])
        if self.fractions and not any([*self.fractions, *self.random_fractions]):
            raise BadInput("fractions = [0] removes nothing: give at least one above 0, such as 0.5.")
        _distinct("seed", self.seeds)
        for seed in self.seeds:
            if not -LARGEST_SEED <= seed <= LARGEST_SEED:
                raise BadInput(f"A seed lies between ±{LARGEST_SEED}, not at {seed}.")
        if self.until_decided and len(self.seeds) < INTERIM_ANALYSES[0]:
            raise BadInput(
                f"until_decided needs {INTERIM_ANALYSES[0]} replicates for its first interim analysis, but the study "
                f"has {len(self.seeds)} seeds: give at least {INTERIM_ANALYSES[0]}, at best {INTERIM_ANALYSES[-1]}."
            )
        _distinct("estimator", self.estimators)
        _distinct("estimator", [chain.name for chain in self.chains])
        self._check_baseline()
        for chain in self.judged_chains:
            if chain.name in self.baselines and chain.role != "baseline":
                raise BadInput(f"baselines are rankings without a network, such as centre; {chain.name} is none.")
        _distinct("metric", [str(read_metric(text)) for text in self.metrics])
        if self.audits:  # audits need tables, which a worker process should not wait for
            from uproar.audits import read_audit

            _distinct("audit", [str(read_audit(text)) for text in self.audits])
        if self.claims:
            from uproar.papers.claims import claims_named

            _distinct("claim", self.claims)
            claims_named(self.claims)
        for task in self.tasks:
            check_task(task)
        _distinct("model", [ModelSpec.of(model).name for model in self.models])
        if self.evaluator_models:
            _distinct("evaluator model", [ModelSpec.of(model).name for model in self.evaluator_models])
        call = parse(self.fill)
        fills[call.name].bind(**dict(call.options))
        if (self.recipe.init == "pretrained") != (self.pretrained is not None):
            raise BadInput(
                'A recipe with init = "pretrained" needs the file of weights, pretrained = "weights.safetensors", and '
                "such a file needs such a recipe: set both or neither."
            )
        if not re.fullmatch(r"[\w. -]{1,80}", self.name):
            raise BadInput(f"A study's name has letters, digits, spaces and . _ - only, not {self.name!r}.")

    def _check_baseline(self) -> None:
        """Refuse a random ranking as an estimator that the baseline holds already."""
        further = {chain.name for chain in self.baseline_chains[1:]}
        twice = next((chain.name for chain in self.chains if chain.name in further), None)
        if twice is not None:
            count = len(self.baseline_chains)
            raise BadInput(
                f"{twice} is one of the {count} random rankings that all estimators are compared with "
                f"(random_rankings = {count}): name one with draw={count} or more, or set random_rankings = 1."
            )

    def _check_size(self) -> None:
        """Refuse lists that nobody could run, before anything is done for each of their entries."""
        lists = {name: value for name, value in self if isinstance(value, tuple)}
        for name, values in lists.items():
            if len(values) > MOST:
                raise BadInput(f"{name} has at most {MOST} entries, not {len(values)}.")
        rankings = len(self.estimators) + (self.random_rankings or random_rankings_for(len(self.estimators))) - 1
        common = len(self.tasks) * len(self.models) * rankings * len(self.seeds)
        curves = sum(name in RETRAININGS for name in self.metrics)
        cells = common * (curves * (len(self.fractions) + len(self.random_fractions)) + len(self.metrics))
        if cells > MOST_CELLS:
            raise BadInput(
                f"The study asks for {cells} cells, more than {MOST_CELLS}: give fewer seeds, estimators or "
                "fractions, or several studies with stores of their own."
            )

    @property
    def missing_files(self) -> tuple[str, ...]:
        """A sentence for every file of weights that is not there, with what to do."""
        uses = {"weights": "explains a trained network", "pretrained": "starts from trained weights"}
        named = {use: getattr(self, use) for use in uses}
        return tuple(
            f"The study {self.name} {uses[use]}, and there is no file {file}: give it as --{use} FILE, or put it "
            "beside the study or where the command runs."
            for use, file in named.items()
            if file is not None and not file_at(file).is_file()
        )

    def check_files(self) -> None:
        """Refuse to run without the files of weights; a study is read, counted and listed without them."""
        for sentence in self.missing_files:
            raise BadInput(sentence)

    @property
    def chains(self) -> list[Chain]:
        """The estimators, read; the random ranking that all are compared with comes first."""
        chains = [read_chain(text, self.sign, self.channels) for text in self.estimators]
        if BASELINE not in [chain.name for chain in chains]:
            chains.insert(0, read_chain(BASELINE, self.sign, self.channels))
        return chains

    @property
    def baseline_chains(self) -> list[Chain]:
        """The random rankings of a replicate, whose mean is the baseline; the first is `random`."""
        others = sum(chain.name != BASELINE for chain in self.chains)
        count = self.random_rankings or random_rankings_for(others)
        return [read_chain(random_ranking(draw), self.sign, self.channels) for draw in range(count)]

    @property
    def all_chains(self) -> list[Chain]:
        """The estimators and the further random rankings: everything that is ranked by."""
        return [*self.chains, *self.baseline_chains[1:]]

    @property
    def judged_chains(self) -> list[Chain]:
        """What evaluators and metrics score: the estimators and the baselines."""
        names = {chain.name for chain in self.chains}
        more = [read_chain(name, self.sign, self.channels) for name in self.baselines if name not in names]
        return [*self.chains, *more]

    @property
    def metric_names(self) -> list[str]:
        """The metrics of maps in canonical form, without checks."""
        calls = [read_metric(text) for text in self.metrics if text not in CHECKS]
        return [str(call) for call in calls if metrics[call.name].facts["kind"] == "maps"]

    @property
    def check_names(self) -> list[str]:
        """The metrics of some test images that raise warnings, in canonical form."""
        return [CHECKS[name] for name in self.metrics if name in CHECKS and CHECKS[name] not in self.metric_names]

    @property
    def retrainings(self) -> list[Retraining]:
        """The metrics that retrain networks, or ask the explained one about images changed in the same way."""
        return [RETRAININGS[name] for name in self.metrics if name in RETRAININGS]

    @property
    def evaluator_targets(self) -> list[str]:
        """What evaluators are asked for: the label, the answer of the explained network, both or nothing."""
        return [target for name, target in EVALUATORS.items() if name in self.metrics]

    @property
    def all_fractions(self) -> tuple[float, ...]:
        """Those of all metrics: rankings are cut at each of them, so that one explaining serves all."""
        return tuple(sorted({*self.fractions, *self.evaluator_fractions}))

    def fractions_of(self, chain: Chain) -> tuple[float, ...]:
        """The fractions at which a chain's rankings are cut: random removal may go on where no other does."""
        further = self.random_fractions if chain.raw.name == BASELINE else ()
        return tuple(sorted({*self.all_fractions, *further}))

    @property
    def every_chain(self) -> list[Chain]:
        """The estimators under all metrics."""
        more = self.judged_chains if self.metric_names or self.evaluator_targets else []
        return list({chain.name: chain for chain in (*self.all_chains, *more)}.values())

    @property
    def deviations(self) -> list[str]:
        """What is chosen that departs from remove-and-retrain, in sentences for every report."""
        sentences = []
        if self.pretrained is not None:
            sentences.append(
                f"Every training starts from pretrained weights ({Path(self.pretrained).name}), not from random ones: "
                "a deviation from remove-and-retrain, since a network may know more than the changed images tell."
            )
        stored = [chain.name for chain in self.chains if chain.files]
        if stored and self.weights is None and len(self.seeds) > 1:
            sentences.append(
                f"Maps made elsewhere are the same in all replicates ({', '.join(stored)}), while every replicate has "
                "a base model of its own: the spread of their numbers leaves out that of the maps, and metrics and "
                "metrics without retraining ask networks that the maps may not have been made for. Give the model "
                "that they explain as weights=."
            )
        return sentences

    def with_changes(self, **changes: Any) -> Study:
        """This study with some fields replaced, checked anew; None leaves a field as it is."""
        replaced = {name: value for name, value in changes.items() if value is not None}
        return study_of({**self.model_dump(), **replaced})


def study_of(source: Study | Mapping[str, Any] | str | Path, **changes: Any) -> Study:
    """A study from a TOML file's path, a dict, or a Study; `changes` replace fields before they are checked.

    >>> study_of({"task": "digits", "estimators": ["grad"], "seeds": 2}).seeds
    (0, 1)
    """
    if isinstance(source, Study):
        return source.with_changes(**changes) if changes else source
    if isinstance(source, Mapping):
        return _validated({**source}, changes)
    if not isinstance(source, str | Path):
        raise BadInput(f"A study is a file's path, a dict or a uproar.Study, not {type(source).__name__}.")
    return _read(user_path(source), changes)


def _check_numbers(path: Path, value: Any) -> None:
    """Refuse whole numbers that no array can hold."""
    if isinstance(value, int) and abs(value) >= 2**63:
        raise BadInput(f"{path}: the number {value} is too large.")
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        _check_numbers(path, each)


def _read(path: Path, changes: Mapping[str, Any]) -> Study:
    text = _text(path)
    try:
        content = tomllib.loads(text)
        _check_numbers(path, content)
    except BadInput:
        raise
    except RecursionError:
        raise BadInput(f"{path} is not a study: its lists or tables are too deep.") from None
    except ValueError as error:  # also a number of more digits than Python reads
        raise BadInput(f"{path} is not valid TOML: {error}.") from None
    content.setdefault("name", path.stem)
    for field in ("plugins", "models", "weights", "pretrained"):
        for alias in (field, field.rstrip("s")):
            if alias in content:
                content[alias] = _beside(content[alias], path.parent)
    for alias in ("estimators", "estimator"):
        if alias in content:
            content[alias] = _maps_beside(content[alias], path.parent)
    try:
        return _validated(content, changes)
    except UproarError as error:
        line = _line_of(getattr(error, "setting", ""), text)
        where = f"{path.name}, line {line}" if line else path.name
        raise type(error)(f"{where}: {error}") from None


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadInput(f"{path} is no study file: it has more than {LARGEST_FILE} bytes.")
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise BadInput(f"Cannot read the study {path}: {reason}.") from None


def _beside(value: Any, folder: Path) -> Any:
    """Files named in a study are looked for beside it first."""
    if isinstance(value, list):
        return [_beside(item, folder) for item in value]
    if isinstance(value, str):
        return str(folder / value) if _is_file(folder, value.partition(":")[0]) else value
    return value


def _is_file(folder: Path, name: str) -> bool:
    """Whether a folder has the file; a name that no file can have is left to who opens it."""
    try:
        return (folder / name).is_file()
    except OSError:
        return False


def _maps_beside(value: Any, folder: Path) -> Any:
    """Files of maps inside expressions are looked for beside the study first."""
    if isinstance(value, list):
        return [_maps_beside(item, folder) for item in value]
    if not isinstance(value, str) or MAPS not in value:
        return value

    def moved(call: Call) -> Call:
        name, inside = call.name, tuple(map(moved, call.args))
        if name.startswith(MAPS) and _is_file(folder, path_in(name)):
            name = name_of(folder / path_in(name))
        return Call(name, inside, call.options)

    return str(moved(parse(value)))


def _validated(content: dict[str, Any], changes: Mapping[str, Any]) -> Study:
    _check_depth(content)
    for alias in ("task", "model", "estimator", "metric", "audit", "claim"):
        if alias in content:
            content[alias + "s"] = content.pop(alias)
    return Study(**{**content, **changes})


def _check_depth(content: Any) -> None:
    """Refuse lists and tables inside each other beyond any use: showing them would exhaust the interpreter."""
    level = [content]
    for _ in range(DEEPEST):
        level = [
            inner
            for value in level
            if isinstance(value, dict | list | tuple)
            for inner in (value.values() if isinstance(value, dict) else value)
            if isinstance(inner, dict | list | tuple)
        ]
        if not level:
            return
    raise BadInput(f"A study's lists and tables are too deep: at most {DEEPEST} inside each other.")


def _ours(error: ValidationError) -> BadInput:
    """The first problem of a validation as one sentence."""
    problem: Any = error.errors()[0]
    cause = problem.get("ctx", {}).get("error")
    if isinstance(cause, BadInput):
        return _placed(cause, problem["loc"])
    path = [str(step) for step in problem["loc"]]
    sentence = f"{'.'.join(path)} {plainly(problem['msg'])}, not {problem['input']!r}."
    ours = BadInput(_no_setting(path) if problem["type"] == "extra_forbidden" else sentence)
    return _placed(ours, path)


def _placed(error: BadInput, path: Sequence[Any]) -> BadInput:
    """The error with the setting it is about, which has a line in a file."""
    error.setting = next((str(step) for step in reversed(path) if not str(step).isdigit()), "")
    return error


def _no_setting(path: list[str]) -> str:
    """That a study or a table of it has no such setting, with the table that has it or near names."""
    tables: dict[str, tuple[str, type[BaseModel]]] = {
        "": ("a study", Study),
        "recipe": ("a recipe", Recipe),
        "resources": ("[resources]", Resources),
    }
    table = path[0] if len(path) > 1 and path[0] in tables else ""
    owner, model = tables[table]
    known = list(model.model_fields)
    names = {path[-1], path[-1] + "s"}  # task = "digits" says tasks
    places = [name for name, (_, other) in tables.items() if name != table and names & set(other.model_fields)]
    if places:
        right = f"below [{places[0]}]" if places[0] else "above the tables, at the top of the file"
        guess = f" It belongs {right}."
    else:
        guess = did_you_mean(path[-1], known, 2)
    return f"{owner} has no setting {path[-1]!r}.{guess} Known: {', '.join(sorted(known))}."


def _line_of(setting: str, text: str) -> int | None:
    for number, line in enumerate(text.splitlines(), 1):
        name = re.escape(setting.rstrip("s"))  # task = "digits" says tasks
        if setting and re.match(rf"\s*\[?{name}s?\s*[=\]]", line):
            return number
    return None


def _distinct(kind: str, values: Any) -> None:
    listed = list(values)
    if not listed:
        raise BadInput(f"A study needs at least one {kind}.")
    twice = next((value for value, times in Counter(listed).items() if times > 1), None)
    if twice is not None:
        raise BadInput(f"The {kind} {twice} is listed twice.")


def summary(text: str) -> str:
    """The opening paragraph of a study file's comment."""
    lines = []
    for line in text.splitlines():
        if not line.startswith("#") or not line.strip("# "):
            break
        lines.append(line.strip("# "))
    return " ".join(lines)


def file_named(text: str) -> Path:
    """The file of a study, or of one that comes with the package by its name."""
    path, known = Path(text), shipped_studies()
    if path.is_dir() and text not in known:
        raise BadInput(f"{text} is a folder, not a study file; uproar report writes the page of a run.")
    if path.is_file() or path.suffix or path.name != text:
        return path
    if text not in known:
        raise unknown("study", text, known)
    return known[text]


def study_named(text: str) -> Study:
    """A study from a file, or one that comes with the package by its name."""
    return study_of(file_named(text))
