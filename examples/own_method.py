"""A method of your own is a function `(model, x, target) -> maps`. Transforms and filters apply to it at once.

In a study, name the file: uproar run --plugin own_method.py --estimators random,contrast_gradient,grad
"""

import torch

import uproar


def contrast_gradient(model, x, target, *, radius: int = 1):
    """Gradient of the target's score times how much a pixel differs from its neighbours."""
    x.requires_grad_()  # x is a copy, and gradients are enabled
    score = model(x).gather(1, target[:, None]).sum()
    gradient = torch.autograd.grad(score, x)[0]
    local_mean = torch.nn.functional.avg_pool2d(x, 2 * radius + 1, 1, radius)
    return gradient * (x - local_mean)


if __name__ == "__main__":
    task = uproar.load("digits")
    model = uproar.build("cnn-small", task)
    uproar.fit(model, task.train.read(slice(0, 600)), task.train.labels[:600], uproar.Recipe(epochs=6), seed=0)
    images, labels = task.test.read(slice(0, 64)), task.test.labels[:64]

    for check in uproar.check(contrast_gradient):  # does it keep the rules?
        print("keeps" if check.holds else "BREAKS", check.clause)

    maps = uproar.explain(
        model, images, ["contrast_gradient", "sg_sq(contrast_gradient)", "grad", "random"], target=labels
    )
    print(
        uproar.score(model, images, labels, maps, metrics=["deletion"], mean=task.mean)[
            ["method", "value", "low", "high"]
        ]
    )
