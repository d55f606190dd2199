"""What a detector or a segmentation network looks at: `target=` is a function that takes one number per image."""

import torch
from torch import nn

import uproar


class Blobs(nn.Module):
    """How bright the surroundings of every pixel are, (n, h, w): stands for the layers of a trained network."""

    def __init__(self) -> None:
        super().__init__()
        self.surroundings = nn.Conv2d(3, 1, 5, padding=2, bias=False)
        nn.init.constant_(self.surroundings.weight, 1 / 75)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.surroundings(x)[:, 0]


class Detector(nn.Module):
    """The place of the brightest blob as a box (n, 4), and the score that it is one (n,)."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs = Blobs()

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        blobs = self.blobs(x)
        scores, places = blobs.flatten(1).max(1)
        row, column = places // blobs.shape[2], places % blobs.shape[2]
        return {"boxes": torch.stack([column - 2, row - 2, column + 2, row + 2], 1), "scores": scores}


class Segmenter(nn.Module):
    """Scores of background and blob for every pixel, (n, 2, h, w)."""

    def __init__(self) -> None:
        super().__init__()
        self.blobs = Blobs()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        blobs = self.blobs(x)
        return torch.stack([torch.full_like(blobs, 0.5), blobs], 1)


def detection_score(answer: dict[str, torch.Tensor]) -> torch.Tensor:
    """How sure the detector is of the box that it found."""
    return answer["scores"]


def blob_pixels(answer: torch.Tensor) -> torch.Tensor:
    """How much of each picture is a blob: the sum of its scores over the pixels where they are the largest."""
    inside = (answer.argmax(1) == 1).float().detach()
    return (answer[:, 1] * inside).sum((1, 2))


if __name__ == "__main__":
    generator = torch.Generator().manual_seed(0)
    images = 0.3 * torch.rand(8, 3, 24, 24, generator=generator)
    images[:, :, 5:13, 9:17] += 0.6
    for model, target in ((Detector(), detection_score), (Segmenter(), blob_pixels)):
        maps = uproar.explain(model, images, ["grad_input", "random"], target=target)
        table = uproar.score(model, images, target, maps, ["deletion(steps=8)", "insertion(steps=8)"], mean=[0.15] * 3)
        print(type(model).__name__, "(deletion: lower is better, insertion: higher)")
        print(table.pivot(index="method", columns="metric", values="value").round(2).to_string())
