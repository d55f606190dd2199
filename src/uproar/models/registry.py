"""The registry of models and how a name, or `file.py:factory`, becomes a fresh network."""

from __future__ import annotations

import difflib
import functools
import importlib
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from uproar.data.task import Task
from uproar.errors import CODE_ERRORS, BadInput, NotApplicable, UproarError, one_line, unknown
from uproar.expression import Call, parse
from uproar.guard import private_copy
from uproar.models.forward import extract_class_scores
from uproar.models.normalise import IMAGENET, Colours, NetworkNormalise, Normalisation, preprocessed, with_first_step
from uproar.plugins import describe_error, load_file, source_hash
from uproar.registry import Entry, Registry
from uproar.seeds import key

models = Registry("model", "uproar.models")
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class ModelSpec:
    """Which network: a registered name with options, or a factory in a file. `identity` is what it hashes to."""

    call: Call

    @classmethod
    def of(cls, text: str) -> ModelSpec:
        """Read a model's name; unknown names and options are refused here."""
        call = parse(text)
        if call.args:
            raise BadInput(f"The model {call.name!r} takes options such as width=8, not {call.args[0]}.")
        if ".py:" in call.name:
            source_hash(call.name.partition(":")[0])
            return cls(call)
        if call.name.endswith(".py"):
            raise BadInput(f"{call.name} is a file: name the function in it that makes the model, {call.name}:build.")
        return cls(models.complete(call))

    @property
    def from_file(self) -> bool:
        """Whether the network comes from a user's file."""
        return ".py:" in self.call.name

    @property
    def name(self) -> str:
        """A short name for tables: the call without options that are defaults."""
        entry = None if self.from_file else models[self.call.name]
        kept = [(k, v) for k, v in self.call.options if not entry or v != entry.options[k].default]
        return str(Call(self.call.name, (), tuple(kept)))

    @property
    def identity(self) -> dict[str, Any]:
        """What two equal networks share: the name, all options, and the text of the user's files that make it."""
        if not self.from_file:
            code = models[self.call.name].code
            return {"model": str(self.call), **({"source": code} if code else {})}
        path, _, factory = self.call.name.partition(":")
        call = Call(factory, (), self.call.options)
        return {"model": str(call), "source": source_hash(path)}


def build(spec: ModelSpec, task: Task, seed: int) -> nn.Module:
    """A fresh network for a task; the same seed gives the same weights."""
    return build_for_input(spec, task, seed, task.train.read(slice(0, 2)), task.mean, task.std)


def build_for_input(spec: ModelSpec, task: Task, seed: int, sample: Tensor, mean: Tensor, std: Tensor) -> nn.Module:
    """A fresh network for a task whose input is not the images but of the kind of `sample`, (n, c, h, w)."""
    c, h, w = sample.shape[1:]
    try:
        model = make(spec, seed, (c, h, w), len(task.classes), mean, std)
        check_output(model, task, sample, spec.name)
    except BadInput as error:
        if (c, h, w) == task.shape:
            raise
        raise NotApplicable(f"the network is needed for inputs of shape {(c, h, w)}: {error}") from error
    return model


def make(spec: ModelSpec, seed: int, shape: Shape, classes: int | None, mean: Tensor, std: Tensor) -> nn.Module:
    """A fresh network for images of a shape; a factory gets what it has arguments for."""
    factory, options = _factory(spec)
    offered = {"shape": shape, "classes": classes, "mean": mean, "std": std}
    accepted = inspect.signature(factory).parameters
    arguments = {name: value for name, value in offered.items() if name in accepted}
    if classes is None and needs_classes(spec):
        raise BadInput(f"The model {spec.name} needs the number of classes: give --classes.")
    starred = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    needed = {name for name, each in accepted.items() if each.default is each.empty and each.kind not in starred}
    if strange := sorted(needed - {*offered} - {*options}):
        raise BadInput(
            f"The model {spec.name} could not be built: nothing is known of its argument {strange[0]!r}. A factory is "
            f"given what it asks for of {', '.join(offered)}; other arguments need defaults."
        )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(key(seed, "initialisation"))
        try:
            model = factory(**private_copy({**arguments, **options}))
        except UproarError:
            raise
        except CODE_ERRORS as error:
            raise BadInput(f"The model {spec.name} could not be built: {describe_error(error)}") from error
    if not isinstance(model, nn.Module):
        raise BadInput(f"{spec.name} must return a torch.nn.Module, not {type(model).__name__}.")
    return model


def needs_classes(spec: ModelSpec) -> bool:
    """Whether a network must be told how many classes there are."""
    argument = inspect.signature(_factory(spec)[0]).parameters.get("classes")
    return argument is not None and argument.default is inspect.Parameter.empty


def check_output(model: nn.Module, task: Task, sample: Tensor, name: str) -> None:
    """Refuse a model that does not give one score per class of this task for two inputs."""
    rows, wanted = len(sample), (len(sample), len(task.classes))
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            out = extract_class_scores(model(sample), rows)
    except BadInput as error:
        raise BadInput(f"The model {name}: {error}") from error
    except CODE_ERRORS as error:
        raise BadInput(
            f"The model {name} cannot take images of shape {tuple(sample.shape[1:])}: {describe_error(error)}"
        ) from error
    finally:
        model.train(was_training)
    if out.shape != wanted:
        raise BadInput(
            f"The model {name} returns {tuple(out.shape)} for {rows} images, but {task.name} has {wanted[1]} classes: "
            f"it must return {wanted}."
        )


def _factory(spec: ModelSpec) -> tuple[Callable[..., Any], dict[str, Any]]:
    if not spec.from_file:
        entry = models[spec.call.name]
        return entry.function, entry.bind(**dict(spec.call.options))
    path, _, name = spec.call.name.partition(":")
    module = load_file(path)
    factory = getattr(module, name, None)
    if not callable(factory):
        raise BadInput(f"{path} has no function called {name!r}.")
    return factory, dict(spec.call.options)


# networks of torchvision, timm and Hugging Face by name, e.g. `torchvision:resnet50`, where these are installed

_WITH_MORE_OUTPUTS = ("googlenet", "inception_v3")


@functools.cache
def torchvision_entry(name: str) -> Entry:
    """The entry of `torchvision:NAME`; a name it does not know is refused here."""
    zoo = _imported("torchvision").models
    bare = _known(name, zoo.list_models(zoo))

    def construct(shape: Shape, classes: int) -> tuple[nn.Module, Colours]:
        if shape[0] != 3:
            raise BadInput(f"{name} takes images with 3 channels, but these have {shape[0]}.")
        # two of the networks have additional outputs, which nobody asks for here
        fewer = {"aux_logits": False, "init_weights": True} if bare in _WITH_MORE_OUTPUTS else {}
        return zoo.get_model(bare, weights=None, num_classes=classes, **fewer), IMAGENET

    return _library_entry(name, construct)


@functools.cache
def timm_entry(name: str) -> Entry:
    """The entry of `timm:NAME`; a name it does not know is refused here."""
    timm = _imported("timm")
    bare = _known(name, timm.list_models())

    def construct(shape: Shape, classes: int) -> tuple[nn.Module, Colours]:
        network = timm.create_model(bare, pretrained=False, in_chans=shape[0], num_classes=classes)
        return network, (tuple(network.pretrained_cfg["mean"]), tuple(network.pretrained_cfg["std"]))

    return _library_entry(name, construct)


@functools.cache
def hugging_face_entry(name: str) -> Entry:
    """The entry of `hf:ORG/NAME`, or of `hf:FOLDER` with a saved network; read when it is built."""

    def network(classes: int | None = None, *, pretrained: bool = True) -> nn.Module:
        if pretrained and classes is not None:
            raise BadInput(
                f"{name} comes with trained weights and its own classes, so it takes no number of classes; where fresh "
                f"networks are trained, as on a task, say {name}(pretrained=false)."
            )
        transformers = _imported("transformers")
        auto = transformers.AutoModelForImageClassification
        try:
            facts, _ = transformers.image_processing_base.ImageProcessingMixin.get_image_processor_dict(source)
            if pretrained:
                model = auto.from_pretrained(source)
            else:
                model = auto.from_config(transformers.AutoConfig.from_pretrained(source, num_labels=classes))
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise BadInput(f"The Hugging Face model {source!r} cannot be loaded: {one_line(error)}") from None
        return preprocessed(model, facts)

    bare = name.partition(":")[2]
    source = bare.strip("'\"")
    network.__doc__ = f"{bare} as transformers builds it, with its trained weights; preprocesses inside."
    return Entry("model", name, network)


def _library_entry(name: str, construct: Callable[[Shape, int], tuple[nn.Module, Colours]]) -> Entry:
    """A network of a library, which `construct` builds, with the normalisation that its published weights expect."""

    def network(
        shape: Shape, classes: int, mean: Tensor, std: Tensor, *, normalise: Normalisation = "auto"
    ) -> nn.Module:
        built, published = construct(shape, classes)
        return with_first_step(built, NetworkNormalise(normalise, mean, std, published))

    library, _, bare = name.partition(":")
    network.__doc__ = f"{bare} as {library} builds it, with fresh weights; normalises inside."
    return Entry("model", name, network)


def _known(name: str, names: list[str]) -> str:
    """The name without its prefix, if it is one of the names; there are a thousand, so only near ones are listed."""
    library, _, bare = name.partition(":")
    if bare not in names:
        raise unknown(f"{library} model", bare, difflib.get_close_matches(bare, names, 8, 0.3))
    return bare


def _imported(library: str) -> Any:
    """The library, or why there is none, in one sentence."""
    try:
        return importlib.import_module(library)
    except ModuleNotFoundError as error:
        raise BadInput(
            f"Networks of {library} need the package {error.name}: pip install 'uproar[{library}]'; "
            "uproar's own networks, such as resnet50, need nothing."
        ) from None
    except Exception as error:
        raise BadInput(
            f"{library} is installed but cannot be loaded ({one_line(error)}): install builds of it and of torch "
            f"({torch.__version__}) that belong together, or take uproar's own networks, such as resnet50."
        ) from None


models.makers["torchvision:"] = torchvision_entry
models.makers["timm:"] = timm_entry
models.makers["hf:"] = hugging_face_entry
