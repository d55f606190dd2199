"""Types of arrays with their shapes. One letter per dimension in the whole package:

n samples, c colour channels, h rows, w columns, k classes, f features (h·w pixels, or c·h·w channel
values), t fractions.

Shapes are checked when the tests run (jaxtyping with beartype) and cost nothing otherwise.
"""

from typing import Literal, get_args

from jaxtyping import Float, Int
from torch import Tensor

Images = Float[Tensor, "n c h w"]
"""Pixels in [0, 1]; a model normalises inside itself."""

Labels = Int[Tensor, " n"]
Logits = Float[Tensor, "n k"]

RawMaps = Float[Tensor, "n d h w"]
"""Signed importance before channels are reduced: d is c, or 1 where a method knows no channels."""

Maps = Float[Tensor, "n h w"]
"""One number per pixel, larger = more important."""

Scores = Float[Tensor, "n f"]
"""One number per feature, larger = more important, ready to be ranked."""

Ranks = Int[Tensor, "n f"]
"""Place of each feature in its image's order; 0 is removed first."""

Kind = Literal["softmax", "sigmoid", "regression"]
"""What the numbers are that a model answers with: scores of classes of which one is right, logits of labels each of
which may be there or not, or values."""
KINDS: tuple[Kind, ...] = get_args(Kind)
WITH_PROBABILITIES: tuple[Kind, ...] = ("softmax", "sigmoid")
"""Outputs that have a probability to follow."""

Role = Literal["method", "baseline", "random", "truth"]
"""What ranks the pixels: an attribution method, or maps that somebody gave; a model-free baseline; the random ranking;
one that is told the class or the important pixels. It is known where maps are made and travels with them: a name says
nothing."""
