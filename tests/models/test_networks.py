"""The networks of the papers: their shape, their published weights, and the estimators that look inside."""

import sys
import types
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from uproar import explain
from uproar.data import load
from uproar.errors import BadInput, BadOption, UnknownName
from uproar.models import ModelSpec, build, make
from uproar.models.normalise import IMAGENET
from uproar.models.registry import timm_entry, torchvision_entry
from uproar.models.weights import load_weights
from uproar.training import predict

MEAN, STD = torch.tensor([0.3, 0.4, 0.5]), torch.tensor([0.2, 0.25, 0.3])
PUBLISHED = Path(__file__).parents[3] / "shared" / "data" / "cifar10-resnets"


def _make(name, size=32, classes=10, seed=0):
    return make(ModelSpec.of(name), seed, (3, size, size), classes, MEAN, STD).eval()


@pytest.mark.parametrize(
    ("name", "size", "weights"),
    [
        ("resnet18(stem=imagenet)", 32, 11_689_512),
        ("resnet50", 224, 25_557_032),
        ("vgg16(norm=false)", 224, 138_357_544),
        ("resnet20", 32, 269_722 + 990 * 65),
        ("resnet56", 32, 853_018 + 990 * 65),
    ],
)
def test_a_network_has_as_many_weights_as_its_paper_says(name, size, weights):
    """Published counts; those of the CIFAR networks are for 10 classes."""
    with torch.device("meta"):
        model = make(ModelSpec.of(name), 0, (3, size, size), 1000, MEAN, STD)
    assert sum(weight.numel() for weight in model.parameters()) == weights


def test_the_stem_follows_the_size_of_the_images():
    with torch.device("meta"):
        small, large = (make(ModelSpec.of("resnet18"), 0, (3, n, n), 10, MEAN, STD) for n in (64, 65))
    assert (small.conv1.stride, large.conv1.stride) == ((1, 1), (2, 2))
    assert isinstance(small.maxpool, nn.Identity)


def test_the_caffe_variant_strides_first_and_sees_blue_first_in_bytes():
    plain = _make("resnet50(width=8, stem=imagenet)")
    caffe = _make("resnet50(width=8, stem=imagenet, variant=caffe)")
    assert (caffe.layer2[0].conv1.stride, caffe.layer2[0].conv2.stride) == ((2, 2), (1, 1))
    assert (plain.layer2[0].conv1.stride, plain.layer2[0].conv2.stride) == ((1, 1), (2, 2))
    assert {m.eps for m in caffe.modules() if isinstance(m, nn.BatchNorm2d)} == {1e-3}
    x = torch.rand(1, 3, 2, 2)
    blue_first = x[:, [2, 1, 0]] * 255 - torch.tensor([103.939, 116.779, 123.68]).view(1, 3, 1, 1)
    torch.testing.assert_close(caffe.normalise(x), blue_first, atol=1e-4, rtol=0)
    assert set(caffe.state_dict()) == set(plain.state_dict())


def test_published_weights_bring_imagenets_colours_unless_told_otherwise(tmp_path):
    source = _make("resnet20(width=8)", seed=5)
    weights = {k: v for k, v in source.state_dict().items() if not k.startswith("normalise")}
    torch.save(weights, tmp_path / "published.pt")
    torch.save(source.state_dict(), tmp_path / "own.pt")
    for name, file, mean in [
        ("resnet20(width=8)", "published.pt", torch.tensor(IMAGENET[0])),
        ("resnet20(width=8, normalise=task)", "published.pt", MEAN),
        ("resnet20(width=8, normalise=half)", "published.pt", torch.full((3,), 0.5)),
        ("resnet20(width=8)", "own.pt", MEAN),
    ]:
        model = load_weights(_make(name), tmp_path / file)
        assert torch.equal(model.normalise.mean.flatten(), mean)
        assert torch.equal(model.layer3[2].conv2.weight, source.layer3[2].conv2.weight)


def test_colours_that_do_not_fit_the_images_are_refused():
    with pytest.raises(BadOption, match="images with 3 channels, but these have 1"):
        build(ModelSpec.of("resnet20(normalise=imagenet)"), load("digits"), 0)
    with pytest.raises(BadOption, match="normalise must be"):
        ModelSpec.of("resnet20(normalise=imagnet)")


def test_weights_for_another_number_of_classes_are_reported_readably(tmp_path):
    torch.save({"model": _make("resnet20(width=8)", classes=5).state_dict()}, tmp_path / "w.pt")
    sentence = r"do not fit the model: 2 of another shape \(linear.weight is \(5, 32\), not \(10, 32\), linear.bias"
    with pytest.raises(BadInput, match=sentence):
        load_weights(_make("resnet20(width=8)"), tmp_path / "w.pt")


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="no CIFAR-10 weights beside this checkout")
@pytest.mark.parametrize("name", ["resnet20", "resnet56"])
def test_published_cifar_weights_fit(name):
    model = load_weights(_make(name), next(PUBLISHED.glob(f"{name}*")))
    assert predict(model, torch.rand(2, 3, 32, 32)).isfinite().all()


NETWORKS = [
    "resnet18(width=8)",
    "resnet18(width=8, stem=imagenet)",
    "resnet50(width=8)",
    "resnet50(width=8, stem=imagenet, variant=caffe)",
    "resnet-tiny(width=8)",
    "resnet20(width=8)",
    "vgg16(width=8)",
    "vgg16(width=2, norm=false, head=imagenet)",
]


def _images(name):
    noise = torch.rand(4, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    size = (32, 32) if "imagenet" in name else (16, 16)
    return F.interpolate(noise, size, mode="bicubic").clamp(0, 1)


def _awake(name, images):
    """A network whose batch norms know the images, so that no layer is asleep."""
    model = _make(name, seed=1)
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.momentum = None
    model.train()(images)
    return model.eval()


@pytest.mark.parametrize("name", NETWORKS)
def test_estimators_that_look_inside_work_on_every_network(name):
    images = _images(name)
    model, x = _awake(name, images), images[:2]
    target = predict(model, x).argmax(1)
    names = ["guided_backprop", "grad_cam", "lrp"]
    maps = explain(model, x, names, target=target)
    for text, result in maps.items():
        assert result.isfinite().all(), text
        assert (result.flatten(1).amax(1) > result.flatten(1).amin(1)).all(), text
    assert not torch.equal(maps["guided_backprop"], explain(model, x, "grad", target=target))
    black = predict(model, torch.zeros_like(x))
    rise = (predict(model, x) - black).gather(1, target[:, None])[:, 0]
    shares = explain(model, x, "deep_lift(baseline=black)", target=target, raw=True)
    torch.testing.assert_close(shares.sum((1, 2, 3)), rise, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", NETWORKS)
def test_every_relu_is_used_once(name):
    model, used = _make(name), []
    for module in model.modules():
        if isinstance(module, nn.ReLU):
            module.register_forward_hook(lambda module, *_: used.append(module))
    model(_images(name)[:1])
    assert len(used) == len(set(used)) == sum(isinstance(m, nn.ReLU) for m in model.modules())


# networks of other libraries


class _Flat(nn.Module):
    def __init__(self, inputs, classes):
        super().__init__()
        self.add_module("1", nn.Linear(inputs, classes))

    def forward(self, x):
        return self.get_submodule("1")(x.flatten(1))


class _Zoo(types.ModuleType):
    """A library of networks with one network, made as torchvision and timm make theirs."""

    def __init__(self, name):
        super().__init__(name)
        self.models = self

    def list_models(self, *_):
        return ["lenet"]

    def get_model(self, name, weights, num_classes):
        return nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, num_classes))

    def create_model(self, name, pretrained, in_chans, num_classes):
        network = _Flat(in_chans * 4 * 4, num_classes)
        network.pretrained_cfg = {"mean": (0.1, 0.2, 0.3), "std": (0.5, 0.5, 0.5)}
        return network


@pytest.fixture
def zoo(monkeypatch):
    for entry in (torchvision_entry, timm_entry):
        entry.cache_clear()
    for name in ("torchvision", "timm"):
        monkeypatch.setitem(sys.modules, name, _Zoo(name))
    yield
    for entry in (torchvision_entry, timm_entry):
        entry.cache_clear()


@pytest.mark.parametrize(("library", "mean"), [("torchvision", IMAGENET[0]), ("timm", (0.1, 0.2, 0.3))])
def test_a_network_of_another_library_normalises_inside_and_keeps_its_names(zoo, library, mean, tmp_path):
    model = _make(f"{library}:lenet", 4)
    x = torch.rand(2, 3, 4, 4)
    normal = (x - MEAN.view(3, 1, 1)) / STD.view(3, 1, 1)
    torch.testing.assert_close(model(x), model.get_submodule("1")(normal.flatten(1)))
    weights = {k: v for k, v in model.state_dict().items() if not k.startswith("normalise")}
    assert set(weights) == {"1.weight", "1.bias"}
    torch.save(weights, tmp_path / "w.pt")
    load_weights(model, tmp_path / "w.pt")
    assert torch.equal(model.normalise.mean.flatten(), torch.tensor(mean))
    assert explain(model, x, "grad").isfinite().all()
    with pytest.raises(UnknownName, match=f"No {library} model is called 'lent'. Did you mean"):
        ModelSpec.of(f"{library}:lent")


@pytest.mark.parametrize("library", ["torchvision", "timm"])
def test_a_library_that_is_missing_or_broken_is_one_sentence(zoo, library, monkeypatch, tmp_path):
    monkeypatch.delitem(sys.modules, library)
    (tmp_path / library).mkdir()
    (tmp_path / library / "__init__.py").write_text("raise RuntimeError('operator torchvision::nms does not exist')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(BadInput, match=r"cannot be loaded \(RuntimeError: operator .* of torch"):
        ModelSpec.of(f"{library}:lenet")
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(BadInput, match=rf"pip install 'uproar\[{library}\]'"):
        ModelSpec.of(f"{library}:lenet")
