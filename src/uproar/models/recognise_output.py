"""Which kind the outputs of a model are, by what was said of them, their values and the model's last operation."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from uproar.errors import BadInput, UproarError
from uproar.models.borrow import borrowed
from uproar.models.forward import dtype_of, forward, read_by
from uproar.models.output_kind import SOFTMAX, Output, OutputKind, Pick

ROUNDING, COARSE = 1e-4, 2e-2
"""How far the sum of a row of probabilities may be from 1: in single precision, and in half or bfloat16."""

_MOVING = ("Copy", "View", "Permute", "Slice", "Alias", "Cat", "Squeeze", "Unsqueeze")
"""Operations of a graph that move numbers, or convert their precision, without changing them."""
_LAYERS = ("Addmm", "Mm", "Linear", "MkldnnLinear", "Convolution")
"""Operations whose outputs have no bounds."""

_PROBLEMS: dict[str, Output] = {
    "regression": "regression",
    "single_label_classification": "softmax",
    "multi_label_classification": "sigmoid",
}
"""What networks of Hugging Face say of themselves."""

_PROBABILITIES = OutputKind(bounded=True)


def output_kind(outputs: Tensor, output: Output = "auto", tolerance: float = ROUNDING, last: str = "") -> OutputKind:
    """What outputs (n, k) are, `last` being the operation they come from; refused where that cannot be told.

    >>> output_kind(torch.tensor([[2.0, -1.0]])).bounded, output_kind(torch.tensor([[0.25, 0.75], [0.5, 0.5]])).bounded
    (False, True)
    >>> output_kind(torch.tensor([[2.0]]), "sigmoid").words
    'sigmoid of one logit (class 1 is yes, class 0 is no)'
    """
    known = outputs[outputs.isfinite().all(1)].double()
    if not len(known):
        raise BadInput("The model's answers to all images are NaN or infinite.")
    if output == "regression":
        return OutputKind("regression")
    if output == "sigmoid" or (output == "auto" and last == "Sigmoid"):
        return _sigmoid(known, last)
    if outputs.shape[1] == 1:
        raise BadInput(_one_output(output))
    return _softmax(known, "logit" if output == "auto" and last in _LAYERS else output, tolerance)


def _sigmoid(known: Tensor, last: str) -> OutputKind:
    bounded = last == "Sigmoid" or (last not in _LAYERS and bool(((known >= 0) & (known <= 1)).all()))
    return OutputKind("sigmoid", bounded, single=known.shape[1] == 1)


def _one_output(output: Output) -> str:
    if output == "auto":
        return (
            "The model has one output per image, which may be the logit of a yes-or-no answer or a value: say "
            "output='sigmoid' or output='regression' (--output on the command line)."
        )
    return (
        f"The model has one output per image, and output={output!r} is a softmax, which is 1 for every image over one "
        "number: say output='sigmoid' for the logit of a yes-or-no answer, output='regression' for a value."
    )


def _softmax(known: Tensor, output: Output, tolerance: float) -> OutputKind:
    sums = known.sum(1)
    sum_to_one = sums_to_one(known, tolerance)
    if output == "probability" and not sum_to_one:
        raise BadInput("output='probability' was given, but the model's rows do not sum to 1.")
    if output == "auto" and not sum_to_one and bool(((known >= 0) & (known <= 1 + tolerance)).all()):
        raise BadInput(
            f"The model's answers to all {len(known)} images lie between 0 and 1, but a row sums to "
            f"{float(sums.min()):.3g} to {float(sums.max()):.3g}, not to 1: they look like the sigmoids of several "
            "labels, of which a softmax means nothing. Say output='sigmoid' if they are, or output='logit' if they are "
            "scores of classes of which one is right (--output on the command line)."
        )
    return _PROBABILITIES if sum_to_one and output != "logit" else SOFTMAX


def sums_to_one(outputs: Tensor, tolerance: float = ROUNDING) -> bool:
    """Whether every row is a distribution: as from a softmax."""
    wide = outputs.double()
    return bool((wide >= 0).all()) and bool(((wide.sum(1) - 1).abs() < tolerance).all())


def recognise_output(
    model: nn.Module, x: Tensor, outputs: Tensor, output: Output = "auto", tolerance: float = ROUNDING
) -> OutputKind:
    """What a model's outputs are, as `output_kind` says; certainly logits if they come straight from a layer.

    Outputs of a network that has hardly learned may lie between 0 and 1 like those of a sigmoid.
    """
    if output == "auto":
        output = _PROBLEMS.get(str(getattr(getattr(model, "config", None), "problem_type", None)), output)
    unsure = output in ("auto", "sigmoid") and not (outputs.shape[1] > 1 and sums_to_one(outputs, tolerance))
    return output_kind(outputs, output, tolerance, last_operation(model, x[:1]) if unsure else "")


def picked_kind(pick: Pick, output: Output) -> OutputKind:
    """What a number is that a user's function takes from a model's answer: a value, or a logit where that is said."""
    if output not in ("auto", "sigmoid", "regression"):
        raise BadInput(
            f"A function as target gives one number per image, of which output={output!r} means nothing: say "
            "output='sigmoid' if it is a logit, output='regression' if it is a value."
        )
    return OutputKind("sigmoid", single=True, pick=pick) if output == "sigmoid" else OutputKind("regression", pick=pick)


def last_operation(model: nn.Module, x: Tensor) -> str:
    """The last operation of a model, such as `Addmm` or `Sigmoid`, read from the graph of its output.

    Operations that only move numbers, or convert their precision, do not count. Empty where there is no graph.
    """
    try:
        with borrowed(model), torch.enable_grad(), read_by(None):
            step = forward(model, x.detach().clone().requires_grad_()).grad_fn
    except UproarError:  # as of quantised networks, which have no gradients
        return ""
    while step is not None and any(kind in step.name() for kind in _MOVING):
        step = step.next_functions[0][0]
    return "" if step is None else step.name().partition("Backward")[0]


def sum_tolerance(model: nn.Module) -> float:
    """How far rows of probabilities may be from 1 in the model's precision."""
    return COARSE if dtype_of(model) in (torch.float16, torch.bfloat16) else ROUNDING
