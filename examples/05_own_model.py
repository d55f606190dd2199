"""A model of your own: any module from images in [0, 1] to class scores. It is given back as it came."""

import torch
from torch import nn

import uproar


class MyNet(nn.Module):
    """Normalises inside, calls ReLU as a function: both are fine."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv((x - 0.5) / 0.25))
        return self.head(x.mean((2, 3)))


torch.manual_seed(0)
model = MyNet().train()
images = torch.rand(6, 3, 20, 20)
maps = uproar.explain(model, images, ["guided_backprop", "var(grad)"], target=2)
print({name: tuple(a.shape) for name, a in maps.items()})
assert model.training and all(p.requires_grad for p in model.parameters())
# in a study, give a function that builds it: uproar run --model my_file.py:MyNet
