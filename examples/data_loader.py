"""Which method for a network that takes normalised images from a DataLoader?"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import uproar

MEAN, STD = [0.5, 0.4, 0.3], [0.2, 0.2, 0.2]  # of "imagenet" it would be normalise="imagenet"


def squares(n: int, seed: int) -> TensorDataset:
    """Noisy pictures with a square, left (class 0) or right (class 1), normalised as usual."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(n) % 2
    images = 0.4 * torch.rand(n, 3, 16, 16, generator=generator)
    for image, label in zip(images, labels.tolist(), strict=True):
        row, column = torch.randint(12, (1,), generator=generator).item(), 2 + 8 * label
        image[:, row : row + 4, column : column + 4] += 0.6
    mean, std = torch.tensor(MEAN)[:, None, None], torch.tensor(STD)[:, None, None]
    return TensorDataset((images - mean) / std, labels)


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(1152, 2)
    )
    optimiser = torch.optim.Adam(model.parameters(), 0.003)
    for _ in range(3):
        for images, labels in DataLoader(squares(400, seed=1), batch_size=20, shuffle=True):
            optimiser.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimiser.step()

    loader = DataLoader(squares(64, seed=2), batch_size=32)
    answer = uproar.choose(model, loader, normalise=(MEAN, STD), methods=["grad", "ig", "sg_sq(grad)"])
    print(answer)
    print(answer.table.to_string(index=False))
