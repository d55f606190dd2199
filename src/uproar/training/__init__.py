"""Training from scratch, and the predictions and accuracy of a trained network."""

from uproar.training.finetune import FineTuning, fine_tuned
from uproar.training.fit import Rows, accuracy, channels_last, fit, predict
from uproar.training.recipe import Recipe
from uproar.training.stack import fit_all, stackable

__all__ = [
    "FineTuning",
    "Recipe",
    "Rows",
    "accuracy",
    "channels_last",
    "fine_tuned",
    "fit",
    "fit_all",
    "predict",
    "stackable",
]
