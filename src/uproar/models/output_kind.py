"""Whether the outputs of a model are class scores (logits) or probabilities of a softmax.

Metrics and some estimators need the probability of a class, which is the softmax of logits. It is refused where it
would mean nothing: over a single output (always 1), and over the outputs of a sigmoid (one probability per label, not
one of several classes).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from uproar.errors import BadInput, UproarError
from uproar.models.borrow import borrowed
from uproar.models.forward import dtype_of, forward

Output = Literal["auto", "logit", "probability"]
Kind = Literal["logit", "probability"]

ROUNDING, COARSE = 1e-4, 2e-2
"""How far the sum of a row of probabilities may be from 1: in single precision, and in half or bfloat16."""

_MOVING = ("Copy", "View", "Permute", "Slice", "Alias", "Cat")
"""Operations of a graph that move numbers, or convert their precision, without changing them."""
_LAYERS = ("Addmm", "Mm", "Linear", "MkldnnLinear", "Convolution")
"""Operations whose outputs have no bounds."""

_output: ContextVar[Output] = ContextVar("kind of model outputs", default="auto")


@contextmanager
def assuming_output(output: Output) -> Iterator[None]:
    """Inside, outputs are taken for logits or for probabilities, or decided by their values (`auto`)."""
    if output not in get_args(Output):
        raise BadInput(f"output is {', '.join(get_args(Output))}, not {output!r}.")
    token = _output.set(output)
    try:
        yield
    finally:
        _output.reset(token)


def assumed_output() -> Output:
    """What `assuming_output` says here."""
    return _output.get()


def output_kind(outputs: Tensor, output: Output = "auto", tolerance: float = ROUNDING) -> Kind:
    """What outputs (n, k) are, where a softmax over them makes sense; refused in one sentence where it does not.

    >>> output_kind(torch.tensor([[2.0, -1.0]])), output_kind(torch.tensor([[0.25, 0.75], [0.5, 0.5]]))
    ('logit', 'probability')
    """
    if outputs.shape[1] == 1:
        raise BadInput(
            "The model has one output per image, and the softmax over one number is 1 for every image, so there is no "
            "probability to follow. For a yes-or-no network with logit z, give one that returns both class scores: "
            "torch.cat([torch.zeros_like(z), z], 1)."
        )
    known = outputs[outputs.isfinite().all(1)].double()
    if not len(known):
        raise BadInput("The model's answers to all images are NaN or infinite.")
    sums = known.sum(1)
    between = bool(((known >= 0) & (known <= 1 + tolerance)).all())
    sum_to_one = sums_to_one(known, tolerance)
    if output == "probability" and not sum_to_one:
        raise BadInput("output='probability' was given, but the model's rows do not sum to 1.")
    if output == "auto" and between and not sum_to_one:
        raise BadInput(
            f"The model's answers to all {len(known)} images lie between 0 and 1, but a row sums to "
            f"{float(sums.min()):.3g} to {float(sums.max()):.3g}, not to 1: they look like the sigmoids of several "
            "labels, of which a softmax means nothing. Give a model that returns class scores of which one is right, "
            "or say output='logit' if these are."
        )
    return "probability" if sum_to_one and output != "logit" else "logit"


def sums_to_one(outputs: Tensor, tolerance: float = ROUNDING) -> bool:
    """Whether every row is a distribution: as from a softmax."""
    wide = outputs.double()
    return bool((wide >= 0).all()) and bool(((wide.sum(1) - 1).abs() < tolerance).all())


def model_output_kind(model: nn.Module, x: Tensor, outputs: Tensor, output: Output, tolerance: float) -> Kind:
    """What a model's outputs are, as `output_kind` says; certainly logits if they come straight from a layer.

    Outputs of a network that has hardly learned may lie between 0 and 1 like those of a sigmoid.
    """
    if output == "auto" and not sums_to_one(outputs, tolerance) and last_operation(model, x[:1]) in _LAYERS:
        output = "logit"
    return output_kind(outputs, output, tolerance)


def last_operation(model: nn.Module, x: Tensor) -> str:
    """The last operation of a model, such as `Addmm` or `Sigmoid`, read from the graph of its output.

    Operations that only move numbers, or convert their precision, do not count. Empty where there is no graph.
    """
    try:
        with borrowed(model), torch.enable_grad():
            step = forward(model, x.detach().clone().requires_grad_()).grad_fn
    except UproarError:  # as of quantised networks, which have no gradients
        return ""
    while step is not None and any(kind in step.name() for kind in _MOVING):
        step = step.next_functions[0][0]
    return "" if step is None else step.name().partition("Backward")[0]


def sum_tolerance(model: nn.Module) -> float:
    """How far rows of probabilities may be from 1 in the model's precision."""
    return COARSE if dtype_of(model) in (torch.float16, torch.bfloat16) else ROUNDING


def probabilities(outputs: Tensor) -> Tensor:
    """Class probabilities of outputs (n, k) in double precision; these themselves where `assuming_output` says so."""
    wide = outputs.double()
    return wide if assumed_output() == "probability" else wide.softmax(1)


def as_logits(outputs: Tensor) -> Tensor:
    """Answers whose softmax are the class probabilities."""
    return logarithm(outputs) if assumed_output() == "probability" else outputs


class LogProbabilities(nn.Module):
    """A model that returns probabilities, seen through their logarithm: softmax gives them back."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        return logarithm(forward(self.model, x))


def logarithm(outputs: Tensor) -> Tensor:
    """Probabilities as logits."""
    return outputs.clamp_min(1e-30).log()
