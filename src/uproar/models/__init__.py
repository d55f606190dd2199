"""Networks by name, their weights and outputs, and running a model without changing it."""

from uproar.models import resnet, small
from uproar.models.forward import MemoryBudget, borrowed
from uproar.models.registry import ModelSpec, build, build_for_input, make, models

__all__ = ["MemoryBudget", "ModelSpec", "borrowed", "build", "build_for_input", "make", "models", "resnet", "small"]
