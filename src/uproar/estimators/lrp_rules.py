"""Rules of layer-wise relevance propagation: how the relevance of an output is shared among its inputs.

Each rule is `(operation, input, relevance of the output) -> relevance of the input`. An operation is affine; its
weights can be exchanged, so that a rule can look at the positive ones alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Affine:
    """`call(input, weight, bias)`, linear in the input and in the weight; without a weight, all weights are ≥ 0."""

    call: Callable[[Tensor, Tensor | None, Tensor | None], Tensor]
    weight: Tensor | None = None
    bias: Tensor | None = None

    def of(self, a: Tensor, sign: int = 0, bias: bool = False) -> Tensor:
        """The output with all weights or those of one sign, without the bias or with its part of that sign."""
        part = _part(self.bias, sign) if bias and self.bias is not None else None
        return self.call(a, None if self.weight is None else _part(self.weight, sign), part)

    def back(self, like: Tensor, s: Tensor, sign: int = 0) -> Tensor:
        """The transposed map: what arrives at inputs of this shape, with all weights or those of one sign."""
        with torch.enable_grad():
            point = torch.zeros_like(like).requires_grad_()
            (result,) = torch.autograd.grad(self.of(point, sign), point, s)
        return result

    def scaled(self, scale: Tensor, shift: Tensor) -> Affine:
        """The operation followed by scale and shift of each output channel, as one."""
        assert self.weight is not None
        weight = self.weight * scale.view(-1, *[1] * (self.weight.dim() - 1))
        return Affine(self.call, weight, shift if self.bias is None else self.bias * scale + shift)


def _part(values: Tensor, sign: int) -> Tensor:
    return values if sign == 0 else values.clamp_min(0) if sign > 0 else values.clamp_max(0)


def divided(r: Tensor, z: Tensor, epsilon: float) -> Tensor:
    """r / (z + ε sign z), and 0 where there is nothing to divide by."""
    below = z + torch.where(z < 0, -epsilon, epsilon)
    return torch.where(below == 0, 0, r / torch.where(below == 0, 1, below))


@dataclass(frozen=True)
class Epsilon:
    """In proportion to the contributions; the bias takes its own part, ε a little."""

    epsilon: float

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        return a * op.back(a, divided(r, op.of(a, bias=True), self.epsilon))

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        """Relevance of the terms of a sum."""
        share = divided(r, _sum(terms), self.epsilon)
        return [term * share for term in terms]


@dataclass(frozen=True)
class AlphaBeta:
    """α times in proportion to positive contributions, less β times in proportion to negative ones; α − β = 1.

    With `bias`, its positive and negative parts take their own part. A unit without negative contributions passes on
    its relevance once, not α times, so that the sum is kept.
    """

    epsilon: float
    beta: float = 0.0
    bias: bool = True

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        if not self.beta:
            return self._one_sign(op, a, r, 1)
        beta = self.beta * (self._total(op, a, -1) < 0)
        return self._one_sign(op, a, (1 + beta) * r, 1) - self._one_sign(op, a, beta * r, -1)

    def _total(self, op: Affine, a: Tensor, sign: int) -> Tensor:
        """The sum of all contributions of one sign."""
        total = op.of(a.clamp_min(0), sign, self.bias)
        # after a ReLU no input is negative, and half of the work can be left out
        return total + op.of(a.clamp_max(0), -sign) if bool((a < 0).any()) else total

    def _one_sign(self, op: Affine, a: Tensor, r: Tensor, sign: int) -> Tensor:
        s = divided(r, self._total(op, a, sign), self.epsilon)
        share = a.clamp_min(0) * op.back(a, s, sign)
        return share + a.clamp_max(0) * op.back(a, s, -sign) if bool((a < 0).any()) else share

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        """Relevance of the terms of a sum: the positive ones share, or all where none is positive."""
        positive = [term.clamp_min(0) for term in terms]
        none = _sum(positive) == 0
        used = [torch.where(none, term, up) for term, up in zip(terms, positive, strict=True)]
        share = divided(r, _sum(used), self.epsilon)
        return [term * share for term in used]


@dataclass(frozen=True)
class Box:
    """In proportion to the distance from the worst pixel values possible, between `low` and `high` (z^B)."""

    low: Tensor
    high: Tensor
    epsilon: float

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        low, high = self.low.expand_as(a), self.high.expand_as(a)
        z = op.of(a) - op.of(low, 1) - op.of(high, -1)
        s = divided(r, z, self.epsilon)
        return a * op.back(a, s) - low * op.back(a, s, 1) - high * op.back(a, s, -1)


@dataclass(frozen=True)
class Coherency:
    """The rules of the code released with the study of Vandersmissen and Oramas (2023), to compare with it.

    Positive and negative inputs are normalised apart and biases dropped; in the first layer pixels are taken to lie in
    [−1, 1] and the bias is subtracted once; both terms of a sum get the whole relevance. After every rule the relevance
    of an image is divided by its sum; there, by that of the whole batch, so this is its result for single images.
    """

    first: bool = False

    def __call__(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        return _to_one(self._first(op, a, r) if self.first else self._inner(op, a, r))

    def _inner(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        if op.weight is None:
            return a * op.back(a, _over(r, op.of(a)))
        up, down = a.clamp_min(0), a.clamp_max(0)
        for_up = op.back(a, _over(r, op.of(up, 1)), 1)
        for_down = op.back(a, _over(r, op.of(down, -1)), -1)
        return up * for_up + down * for_down

    def _first(self, op: Affine, a: Tensor, r: Tensor) -> Tensor:
        low, high = -torch.ones_like(a), torch.ones_like(a)
        z = op.of(a) - op.of(low, 1) - op.of(high, -1)
        # the bias alone is what the operation makes of zeros
        s = _over(r, z - op.of(0 * a, bias=True))
        return a * op.back(a, s) - low * op.back(a, s, 1) - high * op.back(a, s, -1)

    def terms(self, terms: Sequence[Tensor], r: Tensor) -> list[Tensor]:
        return [r for _ in terms]


def _over(r: Tensor, z: Tensor) -> Tensor:
    return r / torch.where(z == 0, torch.finfo(torch.float32).eps, z)


def _to_one(r: Tensor) -> Tensor:
    total = r.flatten(1).sum(1).view(-1, *[1] * (r.dim() - 1))
    return r / torch.where(total == 0, 1, total)


def _sum(terms: Sequence[Tensor]) -> Tensor:
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total
