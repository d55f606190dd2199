"""Images as people have them: what they are given as makes no difference, and networks come back as they came."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from uproar.errors import BadInput
from uproar.models.given import normalisation, read_given, taking_pixels

X, Y = torch.rand(10, 3, 8, 8, generator=torch.Generator().manual_seed(0)), torch.arange(10)
MEAN, STD = torch.tensor([0.485, 0.456, 0.406]).view(1, 3, 1, 1), torch.tensor([0.229, 0.224, 0.225]).view(1, 3, 1, 1)


class Rows:
    """A data set of Hugging Face, as far as it is read."""

    def __len__(self):
        return len(X)

    def __getitem__(self, row):
        return {"image": Image.fromarray((X[row] * 255).byte().permute(1, 2, 0).numpy()), "label": int(Y[row])}


@pytest.mark.parametrize(
    ("given", "labelled", "ordered"),
    [
        (X, False, True),
        (X.numpy(), False, True),
        ((X * 255).byte(), False, True),
        ((X.numpy() * 255).astype(np.uint8).transpose(0, 2, 3, 1), False, True),
        ((X, Y), True, True),
        (DataLoader(TensorDataset(X, Y), 4), True, True),
        (DataLoader(X, 4), False, True),
        ([{"pixel_values": X[:5], "labels": Y[:5]}, {"pixel_values": X[5:], "labels": Y[5:]}], True, True),
        (TensorDataset(X, Y), True, False),
        (Rows(), True, False),
    ],
)
def test_images_are_the_same_whatever_they_come_in(given, labelled, ordered):
    x, labels = read_given(given)
    assert (labels is not None) == labelled
    rows = Y if ordered else labels
    assert x.dtype == torch.float32 and torch.allclose(x, X[rows], atol=1 / 255)
    assert len(read_given(given, 7)[0]) == 7


def test_what_are_no_images_is_refused():
    for given, words in ((3, "Images are a tensor"), ([], "no images"), ([{"text": "a"}], "No images in text")):
        with pytest.raises(BadInput, match=words):
            read_given(given)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Flatten(), nn.Linear(192, 3))

    def forward(self, x):
        return self.layers(x)


TRANSFORM = SimpleNamespace(
    transforms=[SimpleNamespace(size=8), SimpleNamespace(mean=MEAN.flatten(), std=STD.flatten())]
)


@pytest.mark.parametrize("network", [Network(), Network().layers], ids=["module", "sequence"])
@pytest.mark.parametrize("normalise", ["imagenet", (MEAN, STD), TRANSFORM, SimpleNamespace(image_mean=1)][:3])
def test_normalised_images_become_pixels_and_the_network_normalises_them(network, normalise):
    normalised = (X - MEAN) / STD
    expected, names = network(normalised), list(network.state_dict())
    for given in (normalised, X):
        with taking_pixels(network, given, normalise) as (inside, pixels):
            assert torch.allclose(pixels, X, atol=1e-6) and torch.allclose(inside(pixels), expected, atol=1e-5)
    assert list(network.state_dict()) == names and not network._forward_pre_hooks
    assert torch.equal(network(normalised), expected)


def test_the_normalisation_is_found_where_the_data_or_the_network_carry_it():
    normalised = (X - MEAN) / STD
    loader = SimpleNamespace(dataset=SimpleNamespace(transform=TRANSFORM))
    timm = Network()
    timm.pretrained_cfg = {"mean": MEAN.flatten().tolist(), "std": STD.flatten().tolist()}
    for network, source in ((Network(), loader), (timm, None)):
        with taking_pixels(network, normalised, None, source) as (_, pixels):
            assert torch.allclose(pixels, X, atol=1e-6)


def test_a_normalisation_that_does_not_fit_is_refused_by_name():
    with pytest.raises(BadInput, match="normalise= does not fit"), taking_pixels(Network(), X * 50, "imagenet"):
        pass
    with pytest.raises(BadInput, match=r"normalise= is one of imagenet, half, none"):
        normalisation("imagnet")
