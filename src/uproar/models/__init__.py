"""Networks by name, and how a model is borrowed."""

from uproar.models import small
from uproar.models.answer import called
from uproar.models.borrow import borrowed
from uproar.models.registry import ModelSpec, build, make, models

__all__ = ["ModelSpec", "borrowed", "build", "called", "make", "models", "small"]
