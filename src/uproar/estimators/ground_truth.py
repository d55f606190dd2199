"""The two ends of the scale: the pixels that are known to count, and blobs that know nothing."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from torch import nn

from uproar.errors import NotApplicable
from uproar.estimators.base import Context, estimator
from uproar.estimators.postprocess import gaussian
from uproar.types import Images, Labels, RawMaps


@estimator(
    passes=0,
    model=False,
    channels=False,
    formula="1 on the important pixels, 0 elsewhere",
    needs="a task whose important pixels are known",
    fails="says what the task rests on; a model may rest on something else",
)
def oracle(model: nn.Module, x: Images, target: Labels, context: Context) -> RawMaps:
    """The known important pixels: the ceiling that no method should pass by much."""
    if context.truth is None:
        raise NotApplicable("the important pixels of this task are not known")
    return context.truth[:, None].to(x)


@estimator(passes=0, model=False, channels=False, formula="Gaussian filter of uniform noise", paper="Song et al.")
def random_blurred(
    model: nn.Module, x: Images, target: Labels, context: Context, *, sigma: Annotated[float, Field(gt=0)] = 2.0
) -> RawMaps:
    """A random ranking in blobs: as smooth as a filtered map, without knowing anything.

    A method whose gain comes from smoothness alone is no better than this. `sigma` is in pixels.
    """
    noise = context.draws.uniform("blurred ranking", *x.shape[2:])
    return gaussian(noise, sigma=sigma)[:, None].to(x)
