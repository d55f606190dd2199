"""Kinds of model outputs, and what follows from them: scores to explain, probabilities, predictions, losses.

    softmax      scores of classes of which one is right; the probability of a class is the softmax of its logit
    sigmoid      logits of labels, each of which is there or not by itself; the probability is the sigmoid of the logit
    regression   values; there is no probability

A single logit z is read as the scores of two classes: −z of class 0, "no", and z of class 1, "yes".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from uproar.errors import BadInput, BadShape, NotApplicable, UproarError, one_line
from uproar.models.forward import borrowed, dtype_of, extract_class_scores, forward, read_by
from uproar.types import Kind, Labels

Output = Literal["auto", "softmax", "sigmoid", "regression", "logit", "probability"]
"""What users say of a model: a kind, or of a softmax whether it is still to be taken."""

Pick = Callable[[Any], Tensor]
"""A target that is computed from a model's answer, one number per image."""


@dataclass(frozen=True)
class OutputKind:
    """What the answers of a model are, and how they are read."""

    kind: Kind = "softmax"
    bounded: bool = False
    """Whether they are probabilities already."""
    single: bool = False
    """Whether a sigmoid has one output."""
    pick: Pick | None = None
    """The number that is followed, where it is none of the outputs."""

    @property
    def is_plain(self) -> bool:
        """Whether the outputs are read as they are."""
        return self.pick is None and not self.single

    def read(self, answer: Any, rows: int) -> Tensor:
        """The scores (n, k) in what a model returned, or the number that `pick` takes from it as a column."""
        if self.pick is None:
            scores = extract_class_scores(answer, rows)
        else:
            try:
                scores = self.pick(answer)
            except (TypeError, ValueError, RuntimeError, LookupError, AttributeError) as error:
                said = "The function given as target cannot read the model's answer"
                raise BadInput(f"{said}: {one_line(error)}") from error
            single = isinstance(scores, Tensor) and scores.shape in ((rows,), (rows, 1))
            if not single or not scores.is_floating_point():
                got = f"{scores.dtype} of shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(scores)
                raise BadShape(f"The function given as target must return one float per image, ({rows},), not {got}.")
            scores = scores.reshape(rows, 1)
        if self.kind != "sigmoid" or scores.shape[1] > 1:
            return scores
        return torch.cat([1 - scores if self.bounded else -scores, scores], 1)

    @property
    def words(self) -> str:
        """The kind with what it is taken of."""
        if self.kind == "softmax":
            return "softmax over classes"
        if self.kind == "regression":
            return "regression, values"
        return "sigmoid of one logit (class 1 is yes, class 0 is no)" if self.single else "sigmoid of each label"


SOFTMAX = OutputKind()

_assumed: ContextVar[OutputKind] = ContextVar("kind of model outputs", default=SOFTMAX)


@contextmanager
def assuming_output(kind: OutputKind) -> Iterator[None]:
    """Inside, the answers of models are taken for outputs of this kind."""
    token = _assumed.set(kind)
    try:
        with read_by(None if kind.is_plain else kind.read):
            yield
    finally:
        _assumed.reset(token)


def assumed_output() -> OutputKind:
    """What `assuming_output` says here."""
    return _assumed.get()


def check_output(output: Any) -> None:
    """Refuse what is no kind of output."""
    if output not in get_args(Output):
        raise BadInput(f"output is {', '.join(get_args(Output))}, not {output!r}.")


def require_kind(name: str, kinds: tuple[Kind, ...], kind: Kind, reason: str = "") -> None:
    """Refuse what does not serve a kind of output, by its name and with the reason."""
    if kind not in kinds:
        served = " and ".join(kinds)
        raise NotApplicable(f"{name} serves {served} outputs, not {kind}{f': {reason}' if reason else ''}")


def probabilities(outputs: Tensor) -> Tensor:
    """Probabilities of outputs (..., k) in double precision; these themselves where they are probabilities already."""
    wide, assumed = outputs.double(), assumed_output()
    if assumed.kind == "regression":
        raise NotApplicable("a regression has values, not probabilities")
    if assumed.bounded:
        return wide
    return wide.softmax(-1) if assumed.kind == "softmax" else wide.sigmoid()


def scores_or_values(outputs: Tensor) -> Tensor:
    """Probabilities of outputs (..., k) in double precision; of a regression the values."""
    return outputs.double() if assumed_output().kind == "regression" else probabilities(outputs)


def is_predicted(outputs: Tensor, target: Labels) -> Tensor:
    """Whether the target is what the model predicts, for outputs (..., n, k): (..., n) bool.

    The class with the highest score; of several labels, whether this one has a probability above one half.
    """
    assumed = assumed_output()
    if assumed.kind == "regression":
        raise NotApplicable("a regression predicts a value, which is not right or wrong: it has no accuracy")
    if assumed.kind == "softmax" or assumed.single:
        return outputs.argmax(-1) == target
    of_target = outputs.gather(-1, target.expand(outputs.shape[:-1])[..., None])[..., 0]
    return of_target > (0.5 if assumed.bounded else 0)


def predicted_target(outputs: Tensor) -> Labels:
    """The class, or the label, with the highest score of each image; the component of a regression that has one."""
    if assumed_output().kind == "regression" and outputs.shape[1] > 1:
        raise BadInput(
            f"The regression has {outputs.shape[1]} components: say with target= (--target) which is explained."
        )
    return outputs.argmax(1)


def target_loss(outputs: Tensor, target: Labels, reduction: str = "none") -> Tensor:
    """Cross-entropy of the target: over the classes of a softmax, or of the one label of a sigmoid."""
    logits = as_logits(outputs)
    if assumed_output().kind == "softmax":
        return F.cross_entropy(logits, target, reduction=reduction)
    loss = F.softplus(-logits.gather(1, target[:, None])[:, 0])
    return loss.mean() if reduction == "mean" else loss


def as_logits(outputs: Tensor) -> Tensor:
    """Answers whose softmax, or sigmoid, are the probabilities."""
    assumed = assumed_output()
    if not assumed.bounded:
        return outputs
    return logarithm(outputs) if assumed.kind == "softmax" else log_odds(outputs)


def logits_of(answers: Tensor, kind: OutputKind) -> Tensor:
    """A model's answers (n, k) as scores of its classes, labels or components: logits or values."""
    if kind.pick is not None or (kind.is_plain and not kind.bounded):
        return answers
    with assuming_output(kind):
        logits = as_logits(answers)
    return replace(kind, bounded=False).read(logits, len(answers))


class Logits(nn.Module):
    """A model that returns probabilities, seen through their logits: a softmax, or sigmoids, give them back."""

    def __init__(self, model: nn.Module, logits: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.model, self.logits = model, logits

    def forward(self, x: Tensor) -> Tensor:
        with read_by(None):  # they are read outside
            return self.logits(forward(self.model, x))


def logarithm(outputs: Tensor) -> Tensor:
    """Probabilities as logits of a softmax."""
    return outputs.clamp_min(1e-30).log()


def log_odds(outputs: Tensor) -> Tensor:
    """Probabilities as logits of a sigmoid."""
    return logarithm(outputs) - logarithm(1 - outputs)


# which kind the outputs of a model are, by what was said of them, their values and the model's last operation

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
    single = outputs.shape[1] == 1
    if output == "sigmoid" or (output == "auto" and last == "Sigmoid"):
        bounded = last == "Sigmoid" or (last not in _LAYERS and bool(((known >= 0) & (known <= 1)).all()))
        return OutputKind("sigmoid", bounded, single)
    if single:
        raise BadInput(
            "The model has one output per image, over which a softmax is always 1: say output='sigmoid' for the logit "
            "of a yes-or-no answer, output='regression' for a value (--output on the command line)."
        )
    if output == "logit" or (output == "auto" and last in _LAYERS):
        return SOFTMAX
    if sums_to_one(known, tolerance):
        return OutputKind(bounded=True)
    if output == "probability":
        raise BadInput("output='probability' was given, but the model's rows do not sum to 1.")
    sums = known.sum(1)
    if output == "auto" and bool(((known >= 0) & (known <= 1 + tolerance)).all()):
        raise BadInput(
            f"The model's answers to all {len(known)} images lie between 0 and 1, but a row sums to "
            f"{float(sums.min()):.3g} to {float(sums.max()):.3g}, not to 1: they look like the sigmoids of several "
            "labels, of which a softmax means nothing. Say output='sigmoid' if they are, or output='logit' if they are "
            "scores of classes of which one is right (--output on the command line)."
        )
    return SOFTMAX


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
