"""Training from scratch, and what a trained network says of images."""

from uproar.training.evaluate import accuracy, predict
from uproar.training.fit import channels_last, fit
from uproar.training.recipe import Recipe

__all__ = ["Recipe", "accuracy", "channels_last", "fit", "predict"]
