"""IDSDS of the gradient: what the fill of a deleted cell has to do with its sign.

    python benchmarks/idsds_fill.py [SEED]     about four minutes of processor time; Fashion-MNIST must be there (UPROAR_DATA)

A cell is deleted by giving it the mean colour, and then by giving it black. To first order that lowers the score by the sum of gradient
times (pixel − fill), so that the gradient alone has the wrong sign where a pixel is darker than the fill.
"""

from __future__ import annotations

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch

import uproar

METRIC = "idsds(lr=0.01, batch_size=64, epochs=10)"


def main() -> None:
    seed = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    task = uproar.load("fashion-mnist(train=3000, test=300)")
    train, labels, x = task.train.read(slice(None)), task.train.labels, task.test.read(slice(None))
    model = uproar.fit(uproar.build("cnn-small", task, seed), train, labels, uproar.Recipe(epochs=10), seed)
    asked = uproar.predict(model, x).argmax(1)
    gradient, pixel, mean = uproar.explain(model, x, "grad"), x[:, 0], float(task.mean)
    dark = pixel <= mean
    maps = {
        "random": torch.rand(pixel.shape, generator=torch.Generator().manual_seed(seed)),
        "gradient": gradient,
        "gradient, turned where darker than the mean": torch.where(dark, -gradient, gradient),
        "gradient where brighter than the mean": gradient * ~dark,
        "gradient where darker than the mean": gradient * dark,
        "gradient · pixel": gradient * pixel,
        "gradient · (pixel − mean)": gradient * (pixel - mean),
        "|gradient|": gradient.abs(),
        "brightness": pixel,
    }
    print(f"{float(dark.double().mean()):.2f} of the pixels are darker than the mean, {mean:.3f}")
    for name, fill in (("mean", task.mean), ("black", torch.zeros_like(task.mean))):
        table = uproar.score(model, x, asked, maps, [METRIC], mean=fill, train=train, train_labels=labels)
        print(f"\nfill {name}\n{table[['method', 'value', 'low', 'high']].round(2).to_string(index=False)}")


if __name__ == "__main__":
    main()
