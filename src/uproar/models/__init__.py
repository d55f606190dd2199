"""Networks by name, and how a model is borrowed."""

from uproar.models import resnet, small, vgg
from uproar.models.borrow import borrowed
from uproar.models.forward import called
from uproar.models.libraries import timm_entry, torchvision_entry
from uproar.models.memory_budget import Room
from uproar.models.registry import ModelSpec, build, build_seeing, make, models

__all__ = [
    "ModelSpec",
    "Room",
    "borrowed",
    "build",
    "build_seeing",
    "called",
    "make",
    "models",
    "resnet",
    "small",
    "vgg",
]

models.makers["torchvision:"] = torchvision_entry
models.makers["timm:"] = timm_entry
