"""Do maps show what experts marked? Masks (`truth=`) and boxes, beside a metric that asks the network alone.

The two questions differ: a map of a network that looks at the background is right when it misses the mask.
"""

import torch
from torch import nn

import uproar


class Brightness(nn.Module):
    """Says how bright a window of the picture is: class 1 where it is bright."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        window = x[:, 0, 4:10, 6:12].mean((1, 2))
        return torch.stack([0.5 - window, window - 0.5], 1) * 10


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(24) % 2
    images = 0.3 * torch.rand(24, 1, 16, 16, generator=generator)
    images[:, :, 4:10, 6:12] += 0.7 * labels[:, None, None, None]

    masks = torch.zeros(24, 16, 16, dtype=torch.bool)  # what an expert drew, (n, h, w)
    masks[:, 4:10, 6:12] = True
    boxes = torch.tensor([[6, 4, 11, 9]]).expand(24, 4)  # x0, y0, x1, y1, the last column and row included

    model = Brightness()
    maps = uproar.explain(model, images, ["grad_input", "occlusion", "centre"], target=labels, mean=[0.5])
    metrics = ["pointing_game", "relevance_mass", "road_gap"]
    table = uproar.score(model, images, labels, maps, metrics, truth=masks, boxes=boxes, mean=[0.5])
    print(table.pivot(index="method", columns="metric", values="value").round(2))
