import copy

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from uproar.data import load
from uproar.errors import BadInput, UnknownName
from uproar.models import ModelSpec, borrowed, build, models
from uproar.models.weights import load_weights, read_weights


@pytest.fixture(scope="module")
def task():
    return load("planted(size=12, channels=3, train=16, test=8)")


OWN_TASKS = {"hand-set"}  # fits a task of its own alone: test_small.py
NARROW = [f"{name}(width=8)" for name in sorted(set(models) - OWN_TASKS)]


@pytest.mark.parametrize("name", NARROW)
@pytest.mark.parametrize("data", ["digits", "planted(size=29, channels=3, train=8, test=8)"])
def test_every_model_gives_one_score_per_class_and_normalises_inside(name, data):
    task = load(data)
    model = build(ModelSpec.of(name), task, 0).eval()
    assert model(task.test.read(slice(0, 3))).shape == (3, len(task.classes))
    first = next(model.children())
    normal = first(task.train.read(slice(None)))
    assert normal.mean().abs() < 1e-4
    assert abs(float(normal.std()) - 1) < 0.01


@pytest.mark.parametrize("name", NARROW)
def test_the_same_seed_gives_the_same_weights_and_another_seed_others(name, task):
    a, b, c = (build(ModelSpec.of(name), task, seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert any(not torch.equal(a[key], c[key]) for key in a)


def test_building_leaves_the_global_generator_alone(task):
    before = torch.random.get_rng_state()
    build(ModelSpec.of("cnn-small"), task, 0)
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_borrowed_model_comes_back_as_it_was_even_after_an_error(task):
    model = build(ModelSpec.of("resnet-small"), task, 0).train()
    model[1].eval()
    next(model.parameters()).requires_grad_(False)
    handle = model[2].register_forward_hook(lambda *a: None)
    modes = [m.training for m in model.modules()]
    flags = [p.requires_grad for p in model.parameters()]
    state = copy.deepcopy(model.state_dict())
    with pytest.raises(RuntimeError, match="inside"), borrowed(model):
        assert not any(m.training for m in model.modules())
        assert not any(p.requires_grad for p in model.parameters())
        for module in model.modules():
            module.register_forward_hook(lambda *a: None)
            module.register_full_backward_hook(lambda *a: None)
        raise RuntimeError("inside")
    assert modes == [m.training for m in model.modules()]
    assert flags == [p.requires_grad for p in model.parameters()]
    assert sum(len(m._forward_hooks) for m in model.modules()) == 1
    assert sum(len(m._backward_hooks) for m in model.modules()) == 0
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())
    handle.remove()


FACTORY = """
from torch import nn

def plain():
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, 4))

def sized(shape, classes, *, width=3):
    c, h, w = shape
    return nn.Sequential(nn.Flatten(), nn.Linear(c * h * w, width), nn.Linear(width, classes))

def wrong(classes):
    return nn.Sequential(nn.Flatten(), nn.Linear(3 * 12 * 12, classes + 1))

def no_module():
    return 3

class Two(nn.Module):
    def forward(self, x):
        return x, x

def raises():
    raise KeyError("oops")

def of_a_task(task, *more, **options):
    return nn.Identity()
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "net.py"
    path.write_text(FACTORY)
    return path


def test_a_factory_in_a_file_gets_what_it_asks_for(file, task):
    assert isinstance(build(ModelSpec.of(f"{file}:plain"), task, 0), nn.Module)
    model = build(ModelSpec.of(f"{file}:sized(width=5)"), task, 0)
    assert model[1].out_features == 5


def test_editing_the_file_changes_the_identity(file, task):
    before = ModelSpec.of(f"{file}:plain").identity
    file.write_text(FACTORY + "\n# edited\n")
    assert ModelSpec.of(f"{file}:plain").identity != before


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        ("wrong", r"returns \(2, 5\) for 2 images, but planted has 4 classes"),
        ("no_module", "must return a torch.nn.Module, not int"),
        ("Two", "must return a tensor of class scores, not tuple"),
        ("raises", "could not be built: KeyError"),
        ("of_a_task", "nothing is known of its argument 'task'. A factory is given what it asks for of shape, classes"),
        ("absent", "has no function called 'absent'"),
        ("plain(width=3)", "could not be built: TypeError"),
    ],
)
def test_a_model_that_cannot_be_used_is_refused_in_one_sentence(file, task, factory, sentence):
    with pytest.raises(BadInput, match=sentence):
        build(ModelSpec.of(f"{file}:{factory}"), task, 0)


def test_a_file_that_is_missing_or_broken_is_refused(tmp_path, task):
    with pytest.raises(BadInput, match="There is no file"):
        ModelSpec.of(f"{tmp_path}/none.py:f")
    (tmp_path / "bad.py").write_text("1 / 0")
    with pytest.raises(BadInput, match=r"bad.py raises when it is loaded: ZeroDivisionError"):
        build(ModelSpec.of(f"{tmp_path}/bad.py:f"), task, 0)
    with pytest.raises(UnknownName, match="cnn-small"):
        ModelSpec.of("cnn-smal")


def test_weights_are_loaded_from_safetensors_and_tensor_files(tmp_path, task):
    source = build(ModelSpec.of("cnn-small"), task, 7)
    save_file(source.state_dict(), tmp_path / "w.safetensors")
    torch.save({"state_dict": {f"module.{k}": v for k, v in source.state_dict().items()}}, tmp_path / "w.pt")
    for name in ("w.safetensors", "w.pt"):
        model = load_weights(build(ModelSpec.of("cnn-small"), task, 0), tmp_path / name)
        assert all(torch.equal(v, source.state_dict()[k]) for k, v in model.state_dict().items())


def test_weights_that_do_not_fit_or_execute_code_are_refused(tmp_path, task):
    model = build(ModelSpec.of("cnn-small"), task, 0)
    save_file({"1.0.weight": torch.zeros(2, 2), "extra": torch.zeros(1)}, tmp_path / "w.safetensors")
    with pytest.raises(
        BadInput, match=r"\d+ missing \(0.mean, .*, and \d+ more\); 1 unexpected \(extra\); 1 of another shape \(1.0.w"
    ):
        load_weights(model, tmp_path / "w.safetensors")
    torch.save(model, tmp_path / "whole.pt")
    with pytest.raises(BadInput, match="more than tensors"):
        load_weights(model, tmp_path / "whole.pt")
    (tmp_path / "junk.safetensors").write_bytes(b"junk")
    with pytest.raises(BadInput, match="Cannot read the weights"):
        load_weights(model, tmp_path / "junk.safetensors")


def test_weights_that_cannot_be_read_are_refused_with_what_the_file_is(tmp_path):
    save_file({"a": torch.ones(300)}, tmp_path / "whole.safetensors")
    torch.save({"a": torch.ones(300)}, tmp_path / "whole.pt")
    stored, pickled = ((tmp_path / f"whole.{end}").read_bytes() for end in ("safetensors", "pt"))
    files = {"text.pt": b"hello world", "page.safetensors": b"<html>", "empty.pt": b"", "empty.safetensors": b""}
    files |= {"cut.safetensors": stored[:40], "cut.pt": pickled[:900], "named.pt": stored}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(BadInput, match=f"Cannot read the weights in .*{name}: it holds more than tensors.*[.]$"):
            read_weights(tmp_path / name)


@pytest.mark.parametrize(("name", "windows"), [("resnet-half", {9}), ("vgg-small", {9}), ("cnn-small", {1, 2, 4})])
def test_evaluators_see_every_pixel_in_as_many_windows_of_their_first_layer(name, windows):
    """Where strides see some pixels more often than their neighbours, maps and judges of one architecture agree on these."""
    model = models[name].function((1, 28, 28), 10, torch.zeros(1), torch.ones(1))
    first = next(module for module in model.modules() if isinstance(module, nn.Conv2d))
    x = torch.zeros(1, 1, 28, 28, requires_grad=True)
    counted = nn.functional.conv2d(x, torch.ones_like(first.weight[:1]), None, first.stride, first.padding)
    (seen,) = torch.autograd.grad(counted.sum(), x)
    assert set(seen[0, 0, 6:-6, 6:-6].flatten().int().tolist()) == windows


def test_a_network_at_half_the_size_takes_rows_of_a_table_too():
    model = models["resnet-half"].function((1, 1, 20), 3, torch.zeros(1), torch.ones(1))
    assert model(torch.rand(2, 1, 1, 20)).shape == (2, 3)
