"""A network of your own: any module from images in [0, 1] to class scores. It is given back as it came.

In a study, name the file and the function that builds it: uproar run --model own_model.py:MyNet
"""

import torch
from torch import nn

import uproar


class MyNet(nn.Module):
    """Normalises inside, and calls ReLU as a function: both are fine."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1)
        self.head = nn.Linear(8, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.conv((x - 0.5) / 0.25))
        return self.head(x.mean((2, 3)))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = MyNet().train()
    images = torch.rand(6, 3, 20, 20)
    maps = uproar.explain(model, images, ["guided_backprop", "grad_cam", "var(grad)"], target=2)
    for name, values in maps.items():
        print(f"{name:16} maps {tuple(values.shape)}")
    print(uproar.layers(model, images, "grad_cam").to_string())  # which layers can grad_cam use?
    assert model.training and all(parameter.requires_grad for parameter in model.parameters())
