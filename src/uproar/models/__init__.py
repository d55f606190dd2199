"""Networks by name, their weights and outputs, and running a model without changing it."""

from uproar.models import resnet, small
from uproar.models.forward import borrowed
from uproar.models.libraries import hugging_face_entry, timm_entry, torchvision_entry
from uproar.models.memory_budget import MemoryBudget
from uproar.models.registry import ModelSpec, build, build_for_input, make, models

__all__ = [
    "MemoryBudget",
    "ModelSpec",
    "borrowed",
    "build",
    "build_for_input",
    "disconnected",
    "hand_set",
    "make",
    "models",
    "resnet",
    "small",
    "vgg",
]

models.makers["torchvision:"] = torchvision_entry
models.makers["timm:"] = timm_entry
models.makers["hf:"] = hugging_face_entry
