"""Remove and retrain (ROAR, Hooker et al. 2019) in plain torch, from the first line to the last.

Train a network. Ask an attribution method which pixels its predictions depend on. Replace the most important ones by
the mean colour, in training and test images alike, train a fresh network on what is left, and see how much accuracy
is lost: the better the method, the more, says ROAR. A method must beat `random`, which ranks pixels by lot.

The gradient seems far worse than `random` here: hardly anything is lost. Which pixels are missing can leak the label,
and a fresh network learns to read it off the masks. This is why a study has an evaluator too.

Only the images and `key`, which turns words into a seed, come from uproar. `uproar.run` gives the same accuracies
(tests/study/test_roar_from_scratch.py), because everything random is seeded by what it is for:

initialisation   one seed per replicate, the same for every network of it: before and after removal, for each method
batch order      likewise: all networks of a replicate see the same images in the same order
random ranking   a seed per image, so that it does not depend on how images are batched
ties             pixels of equal importance are ranked by lot, again with a seed per image
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import uproar
from uproar.seeds import key

EPOCHS, BATCH = 12, 64
PEAK_RATE, WARM_UP = 0.1, 0.2


def generator(*names: str | int | list[int]) -> torch.Generator:
    """Random numbers for one purpose."""
    return torch.Generator().manual_seed(key(*names))


class Network(nn.Module):
    """Two convolutions with batch norm that halve the image, average pooling, a linear layer."""

    def __init__(self, mean: Tensor, std: Tensor, classes: int) -> None:
        super().__init__()
        self.mean, self.std = mean, std
        self.layers = nn.Sequential(
            nn.Conv2d(len(mean), 16, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4, classes),
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.layers((x - self.mean) / self.std)


def trained(images: Tensor, labels: Tensor, mean: Tensor, std: Tensor, seed: int) -> Network:
    """A fresh network after training; with the same seed only the images make a difference."""
    torch.manual_seed(key(seed, "initialisation"))
    network = Network(mean, std, int(labels.max()) + 1).train()
    optimiser = torch.optim.SGD(network.parameters(), lr=PEAK_RATE, momentum=0.9, nesterov=True, weight_decay=5e-4)
    order = generator(seed, "batches")
    steps = len(images) // BATCH  # images that do not fill a batch wait for another epoch
    for epoch in range(EPOCHS):
        rows = torch.randperm(len(images), generator=order)[: steps * BATCH]
        for step, batch in enumerate(rows.split(BATCH)):
            done = (epoch * steps + step) / (EPOCHS * steps)
            # the learning rate rises to its peak during the warm-up, then falls to zero, both linearly
            share = done / WARM_UP if done < WARM_UP else (1 - done) / (1 - WARM_UP)
            optimiser.param_groups[0]["lr"] = PEAK_RATE * share
            optimiser.zero_grad()
            F.cross_entropy(network(images[batch]), labels[batch]).backward()
            optimiser.step()
    return network.eval()


def accuracy(network: Network, images: Tensor, labels: Tensor) -> float:
    """The share of images whose class is predicted."""
    with torch.no_grad():
        return float((network(images).argmax(1) == labels).double().mean())


def gradient(network: Network, images: Tensor, split: str, seed: int) -> Tensor:
    """How the score of the predicted class changes with each pixel, summed over channels."""
    images = images.clone().requires_grad_()
    scores = network(images)
    predicted = scores.detach().argmax(1, keepdim=True)
    return torch.autograd.grad(scores.gather(1, predicted).sum(), images)[0].sum(1)


def random(network: Network, images: Tensor, split: str, seed: int) -> Tensor:
    """A ranking by lot: what any method must beat."""
    purpose = (seed, "random ranking", split)
    maps = [torch.rand(images.shape[1:], generator=generator(*purpose, [i])) for i in range(len(images))]
    return torch.stack(maps).sum(1)


def removed(maps: Tensor, fraction: float, split: str, seed: int) -> Tensor:
    """The most important pixels: exactly round(fraction · pixels) of every image, as a mask (n, h, w)."""
    mask = torch.zeros(maps.flatten(1).shape, dtype=torch.bool)
    count = round(fraction * mask.shape[1])
    for i, values in enumerate(maps.flatten(1)):
        order = values.argsort(descending=True)
        if len(values.unique()) < len(values):  # shuffle before a stable sort: equal values come by lot
            lot = torch.randperm(len(values), generator=generator(seed, "ties", split, [i]))
            order = lot[values[lot].argsort(descending=True, stable=True)]
        mask[i, order[:count]] = True
    return mask.view(maps.shape)


def roar(fraction: float = 0.5, seed: int = 0) -> dict[str, float]:
    """The accuracy with all pixels, and that after removal by each method and retraining."""
    task = uproar.load("digits")
    splits = {part.name: (part.images, part.labels) for part in (task.train, task.test)}
    images, labels = splits["train"]
    # the mean colour is what removed pixels become; it is that of the training images for both splits
    mean, std = images.double().mean((0, 2, 3)), images.double().std((0, 2, 3), correction=0)
    mean, std = mean.float().view(-1, 1, 1), std.float().view(-1, 1, 1)
    base = trained(images, labels, mean, std, seed)
    accuracies = {"all pixels": accuracy(base, *splits["test"])}
    for method in (gradient, random):
        changed = {}
        for split, (x, _) in splits.items():
            mask = removed(method(base, x, split, seed), fraction, split, seed)
            changed[split] = torch.where(mask[:, None], mean, x)
        fresh = trained(changed["train"], labels, mean, std, seed)
        accuracies[method.__name__] = accuracy(fresh, changed["test"], task.test.labels)
    return accuracies


if __name__ == "__main__":
    for name, value in roar().items():
        print(f"{name:10} {value:.4f}")
