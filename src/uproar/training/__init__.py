"""Training from scratch, and what a trained network says of images."""

from uproar.training.evaluate import accuracy, predict
from uproar.training.fit import fit
from uproar.training.recipe import Recipe

__all__ = ["Recipe", "accuracy", "fit", "predict"]
