"""An estimator of your own is a function `(model, x, target) -> maps`. Transforms and filters apply to it at once."""

import torch

import uproar


def input_shift(model, x, target, *, step: int = 1):
    """How much the target's score changes when the image is shifted by a few pixels, times local contrast."""
    score = model(x).gather(1, target[:, None])
    shifted = model(x.roll(step, 3)).gather(1, target[:, None])
    return (score - shifted)[:, :, None] * (x - x.roll(step, 3)).abs().sum(1)


task = uproar.load("digits")
model = uproar.build("cnn-small", task)
x = task.test.read(slice(0, 8))
maps = uproar.explain(model, x, input_shift)
smooth = uproar.explain(model, x, "gaussian(sg_sq(input_shift, samples=4))")
print("plain", tuple(maps.shape), "smoothed and squared", tuple(smooth.shape))
# the same function in a file runs in a study: uproar run --plugin my_file.py --estimators random,input_shift
assert torch.isfinite(maps).all() and torch.isfinite(smooth).all()
