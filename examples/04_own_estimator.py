"""An estimator of your own is a function `(model, x, target) -> maps`. Transforms and filters apply to it at once."""

import torch

import uproar


def contrast_gradient(model, x, target, *, radius: int = 1):
    """Gradient of the target's score times how much a pixel differs from those around it."""
    x.requires_grad_()  # x is a copy, and gradients are enabled
    score = model(x).gather(1, target[:, None]).sum()
    gradient = torch.autograd.grad(score, x)[0]
    around = torch.nn.functional.avg_pool2d(x, 2 * radius + 1, 1, radius)
    return gradient * (x - around)


task = uproar.load("digits")
model = uproar.build("cnn-small", task)
x = task.test.read(slice(0, 8))
maps = uproar.explain(model, x, contrast_gradient)
smooth = uproar.explain(model, x, "gaussian(sg_sq(contrast_gradient, samples=4))")
print("plain", tuple(maps.shape), "smoothed and squared", tuple(smooth.shape))
# the same function in a file runs in a study: uproar run --plugin my_file.py --estimators random,contrast_gradient
assert torch.isfinite(maps).all() and torch.isfinite(smooth).all()
assert not x.requires_grad
