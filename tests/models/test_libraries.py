"""Networks with several inputs, with preprocessing of their own, and of other libraries: tiny ones, built on the spot."""

from __future__ import annotations

import importlib
import json
from types import SimpleNamespace

import pytest
import torch
from torch import nn

import uproar
from uproar.errors import BadInput, NotApplicable
from uproar.models import ModelSpec, make
from uproar.models.forward import HeldInputs
from uproar.models.normalise import Preprocess, preprocessed
from uproar.models.output_kind import recognise_output

SIZE, N = 12, 4
GREY = torch.full((3,), 0.5)


@pytest.fixture
def images():
    return torch.rand(N, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


class Two(nn.Module):
    """A network of an image and of a few numbers, which scale its features."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.act, self.head = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Linear(4, 3)

    def forward(self, x, numbers, *, gain=1.0):
        return self.head(gain * self.act(self.conv(x)).mean((2, 3)) * numbers)


class One(Two):
    """The same with the numbers built in."""

    def __init__(self, numbers) -> None:
        super().__init__()
        self.numbers = numbers

    def forward(self, x):
        return super().forward(x, self.numbers, gain=2.0)


NUMBERS = torch.tensor([[1.0, -2.0, 3.0, 0.5]])
METRICS = ["deletion(steps=4)", "average_drop", "sensitivity_max(samples=2)"]


@pytest.mark.parametrize(
    "name", ["grad", "ig", "grad_cam", "grad_cam(layer=conv)", "rise(masks=20)", "sise", "lrp", "iba(steps=2)"]
)
def test_inputs_beside_the_images_are_held_fixed(images, name):
    options = {"target": 1, "mean": GREY, "train": images}
    given = {"numbers": NUMBERS, "gain": 2.0}
    model = Two()
    expected = uproar.explain(One(NUMBERS), images, name, **options)
    assert torch.equal(uproar.explain(model, images, name, inputs=given, **options), expected)
    with torch.inference_mode():
        made_here = {key: value.clone() if isinstance(value, torch.Tensor) else value for key, value in given.items()}
        assert torch.equal(uproar.explain(model, images, name, inputs=made_here, **options), expected)
    assert not model._forward_pre_hooks and float(expected.std()) > 0


def test_inputs_in_order_and_of_each_image_are_scored_too(images):
    y, maps = torch.tensor([0, 1, 2, 0]), torch.rand(N, SIZE, SIZE)
    same = uproar.score(One(NUMBERS), images, y, maps, METRICS[:2], mean=GREY)
    assert uproar.score(
        Two(), images, y, maps, METRICS[:2], mean=GREY, inputs={"numbers": NUMBERS, "gain": 2.0}
    ).equals(same)
    each = torch.randn(N, 4, generator=torch.Generator().manual_seed(4))
    table = uproar.score(Two(), images, y, maps, METRICS[:2], mean=GREY, inputs=[2 * each], per_image=True)
    for i in range(N):
        alone = uproar.score(
            One(each[i : i + 1]),
            images[i : i + 1],
            y[i : i + 1],
            maps[i : i + 1],
            METRICS[:2],
            mean=GREY,
            index=[i],
            per_image=True,
        )
        assert table[table["image"] == i]["value"].tolist() == pytest.approx(alone["value"].tolist(), abs=1e-5)
        curve = uproar.curve(Two(), images, maps, "deletion(steps=4)", target=y, mean=GREY, inputs=[2 * each])
        assert float(curve.values[i].mean()) == pytest.approx(alone["value"].tolist()[0], abs=0.2)
    explained = uproar.explain(Two(), images, "rise(masks=20)", target=y, mean=GREY, inputs=[2 * each])
    for i in range(N):
        alone = uproar.explain(
            One(each[i : i + 1]), images[i : i + 1], "rise(masks=20)", target=y[i : i + 1], mean=GREY, index=[i]
        )
        torch.testing.assert_close(explained[i : i + 1], alone, atol=1e-5, rtol=1e-4)


def test_wrong_inputs_are_one_sentence(images):
    with pytest.raises(BadInput, match="inputs= are the model's inputs beside the images, by name"):
        HeldInputs.of(NUMBERS, N)
    with pytest.raises(BadInput, match="cannot take .* unexpected keyword argument 'ages'"):
        uproar.explain(Two(), images, inputs={"ages": NUMBERS})
    with pytest.raises(BadInput, match="cannot take .* missing 1 required positional argument"):
        uproar.explain(Two(), images)
    with pytest.raises(NotApplicable, match="iba.* learns from training images, whose inputs are not known"):
        uproar.explain(Two(), images, "iba", train=images, inputs=[torch.ones(N, 4)])


@pytest.mark.parametrize("given", [[torch.ones(3, 4)], {"numbers": torch.ones(3, 4)}])
def test_inputs_with_another_number_of_rows_are_one_sentence(images, given):
    name = "0" if isinstance(given, list) else "numbers"
    said = rf"inputs=: of these, '{name}' has 3 rows where 1 \(for all images\) or 4 \(one for each image\)"
    y, maps = torch.zeros(N, dtype=torch.long), torch.rand(N, SIZE, SIZE)
    for ask in (
        lambda: uproar.explain(Two(), images, "grad", inputs=given),
        lambda: uproar.score(Two(), images, y, maps, METRICS[0], mean=GREY, inputs=given),
        lambda: uproar.curve(Two(), images, maps, "deletion(steps=4)", target=y, mean=GREY, inputs=given),
        lambda: uproar.layers(Two(), images, inputs=given),
    ):
        with pytest.raises(BadInput, match=said):
            ask()


def test_layers_of_a_model_with_inputs_of_each_image(images):
    each = torch.ones(N, 4)
    assert uproar.layers(Two(), images, inputs=[each]).equals(uproar.layers(Two(), images, inputs=[each[:1]]))


def test_a_processor_is_applied_inside_and_layers_keep_their_names(images):
    facts = {
        "do_normalize": True,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.5, 0.25, 0.5],
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_resize": True,
        "size": {"height": SIZE, "width": SIZE},
    }
    plain = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3))
    mean, std = (torch.tensor(facts[k]).view(1, 3, 1, 1) for k in ("image_mean", "image_std"))
    expected = plain((images - mean) / std)
    names = [name for name, _ in plain.named_modules()]
    inside = preprocessed(plain, SimpleNamespace(to_dict=lambda: facts))
    torch.testing.assert_close(inside(images), expected)
    assert {*names, "normalise"} == {name for name, _ in inside.named_modules()}
    torch.testing.assert_close(
        uproar.explain(inside, images, "grad_cam", target=1),
        uproar.explain(inside, images, "grad_cam(layer=1)", target=1),
    )
    assert inside(torch.rand(2, 3, 30, 20)).shape == (2, 3)  # resized inside
    with pytest.raises(BadInput, match="preprocesses its images"):
        preprocessed(inside, facts)
    with pytest.raises(BadInput, match="does not say how its images are preprocessed"):
        preprocessed(Two())
    assert Preprocess.of_processor({**facts, "do_rescale": False}).scale == 255
    assert Preprocess.of_processor({**facts, "do_normalize": False}).mean.flatten().tolist() == [0]
    timm = Two()
    timm.pretrained_cfg = {
        "mean": (0.5, 0.5, 0.5),
        "std": (0.5, 0.5, 0.5),
        "input_size": (3, 8, 8),
        "fixed_input_size": True,
    }
    step = Preprocess.of_timm(timm)
    assert (step.size, step.scale) == ((8, 8), 1)
    assert step.mean.flatten().tolist() == step.std.flatten().tolist() == [0.5] * 3
    torch.testing.assert_close(
        preprocessed(timm)(images[:, :, :8, :8], NUMBERS), Two()(2 * images[:, :, :8, :8] - 1, NUMBERS)
    )


def test_networks_that_say_what_they_learned_are_believed(images):
    model = Two()
    answers = torch.randn(N, 3)
    for said, kind in (("regression", "regression"), ("multi_label_classification", "sigmoid"), (None, "softmax")):
        model.config = SimpleNamespace(problem_type=said)
        assert recognise_output(model, images, answers).kind == kind
        assert recognise_output(model, images, answers, "softmax").kind == "softmax"


PROCESSOR = {
    "do_normalize": True,
    "image_mean": [0.4, 0.4, 0.4],
    "image_std": [0.2, 0.2, 0.2],
    "do_rescale": True,
    "rescale_factor": 1 / 255,
    "do_resize": True,
    "size": {"height": 16, "width": 16},
    "image_processor_type": "ViTImageProcessor",
}


@pytest.fixture
def saved(tmp_path):
    """A tiny vision transformer of Hugging Face in a folder, as `save_pretrained` writes it."""
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    config = transformers.ViTConfig(
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        image_size=16,
        patch_size=4,
        num_labels=3,
    )
    torch.manual_seed(0)
    model = transformers.ViTForImageClassification(config)
    model.save_pretrained(tmp_path / "tiny")
    (tmp_path / "tiny" / "preprocessor_config.json").write_text(json.dumps(PROCESSOR))
    return tmp_path / "tiny", model.eval()


def test_a_network_of_hugging_face_is_loaded_by_name_with_its_preprocessing(saved):
    folder, model = saved
    x = torch.rand(N, 3, 16, 16)
    loaded = make(ModelSpec.of(f'hf:"{folder}"'), 0, (3, 16, 16), None, GREY, GREY).eval()
    with torch.no_grad():
        torch.testing.assert_close(uproar.predict(loaded, x), model((x - 0.4) / 0.2).logits)
    for name in ("grad", "ig", "occlusion(window=4)", "rise(masks=20)", "sise", "ada_sise"):
        try:
            assert float(uproar.explain(loaded, x, name, target=1, mean=GREY).std()) > 0
        except (BadInput, NotApplicable) as refusal:
            assert name.endswith("sise"), refusal
    table = uproar.score(loaded, x, torch.tensor([0, 1, 2, 0]), torch.rand(N, 16, 16), ["deletion(steps=4)"], mean=GREY)
    assert table["value"].notna().all()
    fresh = make(ModelSpec.of(f'hf:"{folder}"(pretrained=false)'), 0, (3, 16, 16), 5, GREY, GREY)
    assert uproar.predict(fresh, x).shape == (N, 5)
    with pytest.raises(BadInput, match=r"comes with trained weights .* say .*\(pretrained=false\)"):
        make(ModelSpec.of(f'hf:"{folder}"'), 0, (3, 16, 16), 5, GREY, GREY)


def test_a_missing_model_of_hugging_face_is_one_sentence(tmp_path):
    pytest.importorskip("transformers", reason="transformers is not installed")
    with pytest.raises(BadInput, match="cannot be loaded"):
        make(ModelSpec.of(f'hf:"{tmp_path / "nothing"}"'), 0, (3, 16, 16), None, GREY, GREY)


def loaded(library):
    """The library, or a skipped test that says why: builds of torchvision for CUDA do not load beside a torch for CPUs."""
    try:
        return importlib.import_module(library)
    except Exception as error:
        pytest.skip(f"{library} cannot be loaded: {error}")


def test_a_network_of_torchvision_is_built_by_name_and_normalises_inside():
    zoo = loaded("torchvision").models
    model = make(ModelSpec.of("torchvision:resnet18"), 0, (3, 64, 64), 4, GREY, GREY).eval()
    x = torch.rand(2, 3, 64, 64)
    plain = zoo.resnet18(num_classes=4).eval()
    plain.load_state_dict(
        {name: value for name, value in model.state_dict().items() if not name.startswith("normalise")}
    )
    with torch.no_grad():
        torch.testing.assert_close(uproar.predict(model, x), plain(2 * x - 1), atol=1e-5, rtol=1e-4)
    assert list(uproar.layers(model, x, "grad_cam")["layer"]) == ["layer4"]


def test_a_network_of_timm_is_built_by_name_and_normalises_inside():
    loaded("timm")
    model = make(ModelSpec.of("timm:test_vit"), 0, (3, 160, 160), 4, GREY, GREY).eval()
    x = torch.rand(2, 3, 160, 160)
    assert uproar.predict(model, x).shape == (2, 4)
    assert float(uproar.explain(model, x, "grad").std()) > 0
    assert list(uproar.layers(model, x, "grad_cam")["layer"]) == ["blocks.5.norm1"]
    assert float(uproar.explain(model, x, "grad_attention").std()) > 0
