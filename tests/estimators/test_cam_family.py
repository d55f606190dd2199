"""The CAM family: agreement with pytorch-grad-cam, and the layers of transformers."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from uproar.errors import BadInput, NotApplicable
from uproar.estimators import estimators
from uproar.estimators.cam import (
    ablation_cam,
    eigen_cam,
    features_at_layer,
    fullgrad,
    grad_cam,
    grad_cam_pp,
    guided_grad_cam,
    hires_cam,
    xgrad_cam,
)
from uproar.estimators.layers import ForwardRecord, default_layer, layer_gradient, token_rows_and_columns
from uproar.models import ModelSpec, make


def vit(options="", shape=(3, 8, 12)):
    name = f"vit-small(width=16, depth=2, heads=2{options})"
    model = make(ModelSpec.of(name), 0, shape, 3, torch.zeros(3), torch.ones(3))
    return model.eval().requires_grad_(False)


@pytest.mark.parametrize("name", ["grad_cam", "xgrad_cam", "hires_cam", "layer_cam", "score_cam", "ablation_cam"])
def test_maps_are_those_of_pytorch_grad_cam(golden, tiny32, name):
    data = golden("cam_family")
    x, y = data["images"], data["labels"].long()
    maps = estimators[name].function(tiny32.requires_grad_(False), x, y, layer="relu2")
    theirs = nn.functional.interpolate(data[name][:, None], x.shape[2:], mode="bilinear", align_corners=False)
    # its masks of Score-CAM are enlarged with corners aligned
    tolerance = 0.01 if name == "score_cam" else 2e-4
    assert (maps - theirs).abs().max() <= tolerance * theirs.abs().max()


def test_grad_cam_plus_plus_is_that_of_pytorch_grad_cam(golden, tiny32):
    """With scores a hundred times as large, beside which a constant that theirs adds below the line is nothing."""
    data = golden("cam_family")
    x, y = data["images"], data["labels"].long()
    model = nn.Sequential(tiny32.requires_grad_(False), Times())
    maps = grad_cam_pp(model, x, y, layer="0.relu2")
    theirs = data["grad_cam_pp_100"][:, None]
    theirs = nn.functional.interpolate(theirs, x.shape[2:], mode="bilinear", align_corners=False)
    assert (maps - theirs).abs().max() <= 2e-4 * theirs.abs().max()


class Times(nn.Module):
    def forward(self, scores):
        return 100 * scores


def test_fullgrad_by_channel_is_that_of_pytorch_grad_cam(golden, tiny32):
    data = golden("cam_family")
    x, y = data["images"], data["labels"].long()
    maps = fullgrad(tiny32.requires_grad_(False), x, y, scale="channel")[:, 0]
    low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
    assert ((maps - low) / (high - low) - data["fullgrad"]).abs().max() <= 2e-3  # theirs divides by 1e-7 more


@pytest.mark.filterwarnings("ignore")
def test_guided_grad_cam_is_that_of_captum(golden, tiny32):
    captum = pytest.importorskip("captum.attr")
    x, y = golden("cam_family")["images"], golden("cam_family")["labels"].long()
    ours = guided_grad_cam(tiny32.requires_grad_(False), x, y, layer="relu2")
    method = captum.GuidedGradCam(tiny32, tiny32.relu2)
    theirs = method.attribute(x.clone().requires_grad_(), target=y, interpolate_mode="bilinear")
    torch.testing.assert_close(ours, theirs.detach(), rtol=1e-4, atol=1e-6)


def test_the_first_component_is_that_of_pytorch_grad_cam_up_to_its_sign(golden, tiny32):
    data = golden("cam_family")
    x, y = data["images"], data["labels"].long()
    maps = eigen_cam(tiny32.requires_grad_(False), x, y, layer="relu2", relu=False)
    theirs = nn.functional.interpolate(data["eigen_cam"][:, None], x.shape[2:], mode="bilinear", align_corners=False)
    theirs = theirs * torch.sign((maps * theirs).sum((1, 2, 3), keepdim=True))
    assert (maps - theirs).abs().max() <= 2e-4 * theirs.abs().max()


class Planted(nn.Module):
    """Class k is the sum of feature map k, which is colour channel k."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 3, 1, bias=False)
        self.conv.weight.data = torch.eye(3).view(3, 3, 1, 1)

    def forward(self, x):
        return self.conv(x).sum((2, 3))


def test_the_share_lost_without_a_feature_map_is_its_weight():
    x = torch.rand(3, 3, 4, 4)
    model = Planted().requires_grad_(False)
    maps = ablation_cam(model, x, torch.arange(3))
    torch.testing.assert_close(maps[:, 0], torch.stack([x[i, i] for i in range(3)]))
    torch.testing.assert_close(hires_cam(model, x, torch.arange(3))[:, 0], maps[:, 0])
    torch.testing.assert_close(xgrad_cam(model, x, torch.arange(3))[:, 0], maps[:, 0])


def test_guided_grad_cam_is_the_product_of_both(tiny32, golden):
    x, y = golden("cam_family")["images"], golden("cam_family")["labels"].long()
    tiny32.requires_grad_(False)
    guided = estimators["guided_backprop"].function(tiny32, x, y)
    torch.testing.assert_close(guided_grad_cam(tiny32, x, y), guided * grad_cam(tiny32, x, y))


# layers of transformers


def test_a_class_tokens_scores_are_explained_at_the_first_norm_of_the_last_block():
    """Behind the last attention the patch tokens have no say, and the patch embedding is never taken."""
    x = torch.rand(2, 3, 8, 12)
    assert default_layer(vit(), x) == "blocks.1.norm1"


@pytest.mark.parametrize("options", ["", ", registers=3", ", patch=3, registers=1", ", patch=4"])
def test_tokens_of_patches_become_the_rows_and_columns_of_the_image(options):
    """The first layer's feature maps are those of the patch embedding, norm aside: class token and registers are out."""
    model, x = vit(options), torch.rand(2, 3, 8, 12)
    tokens = model.patch_embed(model.normalise(x)) + model.pos_embed
    normed = model.blocks[0].norm1(tokens)
    side = model.patch_embed.patch
    rows, columns = -(-8 // side), -(-12 // side)
    features, _, grid = features_at_layer(model, x, torch.zeros(2).long(), "blocks.0.norm1")
    assert (grid.rows, grid.columns) == (rows, columns)
    torch.testing.assert_close(features, normed.transpose(1, 2).unflatten(2, (rows, columns)))


class Windows(nn.Module):
    """Swin-like: channels last, attention within windows of 2 × 2, the second time shifted by one."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 2, stride=2)
        self.norm1, self.norm2 = nn.LayerNorm(8), nn.LayerNorm(8)
        self.first, self.second = (nn.MultiheadAttention(8, 2, batch_first=True) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 3)

    def attended(self, x, attention, shift):
        n, r, c, k = x.shape
        x = x.roll((-shift, -shift), (1, 2)).view(n, r // 2, 2, c // 2, 2, k).transpose(2, 3).reshape(-1, 4, k)
        x = attention(x, x, x)[0].view(n, r // 2, c // 2, 2, 2, k).transpose(2, 3).reshape(n, r, c, k)
        return x.roll((shift, shift), (1, 2))

    def forward(self, x):
        x = self.embed(x).permute(0, 2, 3, 1)
        x = x + self.attended(self.norm1(x), self.first, 0)
        x = x + self.attended(self.norm2(x), self.second, 1)
        return self.head(self.norm(x).mean((1, 2)))


def test_windows_of_a_swin_are_explained_at_the_last_norm_with_channels_last():
    torch.manual_seed(0)
    model, x = Windows().eval().requires_grad_(False), torch.rand(2, 3, 8, 12)
    assert default_layer(model, x) == "norm"
    features, gradient = layer_gradient(model, x, torch.tensor([0, 1]), None)
    assert features.shape == gradient.shape == (2, 8, 4, 6)
    # the score is linear in the mean of these features
    expected = model.head.weight[[0, 1]] / 24
    torch.testing.assert_close(gradient, expected[:, :, None, None].expand(2, 8, 4, 6))
    with pytest.raises(NotApplicable, match="within windows"):
        estimators["attention_rollout"].function(model, x, torch.tensor([0, 1]))


def test_grids_of_tokens():
    assert token_rows_and_columns(197, (224, 224)) == (14, 14)
    assert token_rows_and_columns(5 + 16 * 8, (64, 32)) == (16, 8)
    record = ForwardRecord(torch.zeros(2, 3, 224, 224))
    assert record.grid(torch.zeros(2, 7, 7, 96)).layout == "channels last"
    assert record.grid(torch.zeros(2, 96, 7, 7)).layout == "channels first"
    assert record.grid(torch.zeros(8, 16, 3)) is None


def test_a_layer_without_places_is_refused():
    with pytest.raises(BadInput, match="a token for every patch are needed"):
        grad_cam(vit(), torch.rand(2, 3, 8, 12), torch.tensor([0, 1]), layer="head")
