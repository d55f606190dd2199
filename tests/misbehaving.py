"""A plug-in file full of estimators, metrics, a fill and a metric that do what they must not."""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass

import numpy as np
import torch

from uproar.metrics import metric
from uproar.removal.fill import fills


def gradient(model, x, target):
    """Keeps all rules: the gradient, as most people write it."""
    x.requires_grad_()
    score = model(x).gather(1, target[:, None]).sum()
    return torch.autograd.grad(score, x)[0]


def returns_a_graph(model, x, target):
    x = x.requires_grad_()
    return x * model(x).gather(1, target[:, None])[:, :, None, None]


def switches_mode(model, x, target):
    model.train()
    return x


def adds_to_weights(model, x, target):
    with torch.no_grad():
        for weight in model.parameters():
            weight.add_(0.5)
    return x


def zeroes_data(model, x, target):
    if len(x) > 4:  # more than the check at the start of a study shows it
        for weight in model.parameters():
            weight.data.mul_(0)
    return x


def moves_statistics(model, x, target):
    model.train()
    model(3 * x)
    model.eval()
    return x


def exchanges_a_layer(model, x, target):
    model[-1] = torch.nn.Linear(model[-1].in_features, model[-1].out_features)
    return x


def leaves_a_hook(model, x, target):
    model.register_forward_hook(lambda module, given, answer: answer * 0)
    return x


def zeroes_its_inputs(model, x, target, context):
    maps = x.clone()
    x.zero_()
    target.zero_()
    context.mean.fill_(9)
    context.truth.fill_(True)
    context.train.images.zero_()
    context.train.labels.zero_()
    context.train.read(slice(0, 10)).zero_()
    context.draws.uniform("random ranking", *x.shape[1:]).zero_()
    return maps


def seeds_everything(model, x, target):
    torch.manual_seed(3)
    np.random.seed(3)
    random.seed(3)
    return x.clone()


def draws_unseeded(model, x, target):
    return torch.rand_like(x)


def follows_the_batch(model, x, target):
    return x / x.mean()


_HELD = torch.zeros(0)


def keeps_one_buffer(model, x, target):
    return _HELD.resize_(x.shape).copy_(x)


def is_not_finite(model, x, target):
    return x * float("nan")


def has_another_shape(model, x, target):
    return x[:, :, 1:]


def is_whole_numbers(model, x, target):
    return (x * 200).to(torch.uint8)


def raises(model, x, target):
    raise KeyError("oops")


def exits(model, x, target):
    sys.exit(7)


def stops_like_a_generator(model, x, target):
    raise GeneratorExit


def dawdles_and_prints(model, x, target):
    time.sleep(0.01)
    print("progress: 100 %")
    return x.clone()


judged = metric(higher_is_better=True, low=0, high=1, chance="none")


@judged
def trains_the_model(batch):
    """Leaves the model in another mode, with other statistics."""
    batch.model.train()
    return {"value": batch.model(batch.x)[:, 0].detach()}


@judged
def zeroes_the_batch(batch):
    """Empties everything it is given."""
    value = batch.maps.mean((1, 2)).clone()
    for each in (batch.x, batch.maps, batch.clean, batch.target, batch.mean, batch.truth):
        each.zero_()
    return {"value": value}


@judged
def forgets_an_image(batch):
    """Returns a row too few."""
    return {"value": batch.maps.mean((1, 2))[1:]}


@dataclass(frozen=True)
class Emptied:
    """Zeroes what it changes, ranks included."""

    def images(self, batch):
        batch.x.zero_()
        batch.maps.zero_()
        batch.finite.zero_()
        return batch.x


@metric(
    higher_is_better=True,
    low=0,
    high=1,
    chance="none",
    asks=lambda shape: [Emptied()],
    statistic=lambda responses: float(responses["value"].zero_().sum()),
)
def asks_for_emptied(batch, outputs):
    """Shows emptied images, and zeroes the answers."""
    value = outputs[Emptied()][:, 0].clone()
    for answers in outputs.values():
        answers.zero_()
    return {"value": value}


@fills.declare()
def vandal(x, removed, around):
    """Black, also in the originals."""
    around.draws.uniform("uniform fill", *x.shape[1:]).zero_()
    around.mean.zero_()
    removed.fill_(True)
    return x.zero_()
