"""Networks of torchvision, timm and Hugging Face by name, e.g. `torchvision:resnet50`, where these are installed."""

from __future__ import annotations

import difflib
import functools
import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from uproar.errors import BadInput, one_line, unknown
from uproar.models.normalise import IMAGENET, Colours, NetworkNormalise, Normalisation, preprocessed, with_first_step
from uproar.registry import Entry

Shape = tuple[int, int, int]


_WITH_MORE_OUTPUTS = ("googlenet", "inception_v3")


@functools.cache
def torchvision_entry(name: str) -> Entry:
    """The entry of `torchvision:NAME`; a name it does not know is refused here."""
    zoo = _imported("torchvision").models
    bare = _known(name, zoo.list_models(zoo))

    def make(shape: Shape, classes: int) -> tuple[nn.Module, Colours]:
        if shape[0] != 3:
            raise BadInput(f"{name} takes images with 3 channels, but these have {shape[0]}.")
        # two of the networks have additional outputs, which nobody asks for here
        fewer = {"aux_logits": False, "init_weights": True} if bare in _WITH_MORE_OUTPUTS else {}
        return zoo.get_model(bare, weights=None, num_classes=classes, **fewer), IMAGENET

    return _entry(name, make)


@functools.cache
def timm_entry(name: str) -> Entry:
    """The entry of `timm:NAME`; a name it does not know is refused here."""
    timm = _imported("timm")
    bare = _known(name, timm.list_models())

    def make(shape: Shape, classes: int) -> tuple[nn.Module, Colours]:
        network = timm.create_model(bare, pretrained=False, in_chans=shape[0], num_classes=classes)
        return network, (tuple(network.pretrained_cfg["mean"]), tuple(network.pretrained_cfg["std"]))

    return _entry(name, make)


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
            facts, _ = transformers.image_processing_base.ImageProcessingMixin.get_image_processor_dict(place)
            if pretrained:
                made = auto.from_pretrained(place)
            else:
                made = auto.from_config(transformers.AutoConfig.from_pretrained(place, num_labels=classes))
        except (OSError, ValueError, KeyError, ImportError) as error:
            raise BadInput(f"The Hugging Face model {place!r} cannot be loaded: {one_line(error)}") from None
        return preprocessed(made, facts)

    bare = name.partition(":")[2]
    place = bare.strip("'\"")
    network.__doc__ = f"{bare} as transformers builds it, with its trained weights; preprocesses inside."
    return Entry("model", name, network)


def _entry(name: str, make: Callable[[Shape, int], tuple[nn.Module, Colours]]) -> Entry:
    """A network of a library, which `make` builds, with the normalisation that its published weights expect."""

    def network(
        shape: Shape, classes: int, mean: Tensor, std: Tensor, *, normalise: Normalisation = "auto"
    ) -> nn.Module:
        made, published = make(shape, classes)
        return with_first_step(made, NetworkNormalise(normalise, mean, std, published))

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
        if error.name not in ("torchvision", "timm", "transformers"):
            raise BadInput(f"{library} cannot be loaded: {one_line(error)}") from error
        raise BadInput(
            f"Networks of {library} need the package {error.name}: pip install 'uproar[{library}]'; "
            "uproar's own networks, such as resnet50, need nothing."
        ) from None
    except Exception as error:
        raise BadInput(
            f"{library} is installed but cannot be loaded ({one_line(error)}): its build does not belong to this build "
            f"of torch ({torch.__version__}); install two that do, or take uproar's own networks, such as resnet50."
        ) from None
