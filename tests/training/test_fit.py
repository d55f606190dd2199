import time

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from tests.closeness import alike
from uproar.data import load
from uproar.errors import BadInput
from uproar.models import ModelSpec, build
from uproar.models.forward import raw_output
from uproar.training import Recipe, accuracy, channels_last, fit, predict
from uproar.training.fit import MOST, augment, prefetch, reader_threads


@pytest.fixture(scope="module")
def digits():
    return load("digits").limited(400)


def _trained(task, seed, recipe=Recipe(epochs=3), name="cnn-small"):
    model = build(ModelSpec.of(name), task, seed)
    return fit(model, task.train.read(slice(None)), task.train.labels, recipe, seed)


@pytest.mark.parametrize("name", ["cnn-small", "resnet-small"])
def test_training_is_deterministic_for_a_seed_and_differs_between_seeds(digits, name):
    a, b, c = (_trained(digits, seed, Recipe(epochs=1), name).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert any(not torch.equal(a[key], c[key]) for key in a)


def test_digits_are_learned():
    task = load("digits")
    scores = predict(_trained(task, 0, Recipe()), task.test.read(slice(None)))
    assert accuracy(scores, task.test.labels) > 0.95


def test_the_loop_is_sgd_as_torch_defines_it():
    """A slow second version: torch's own optimiser and scheduler-free loop in plain steps."""
    torch.manual_seed(0)
    x, y = torch.rand(12, 1, 4, 4), torch.arange(12) % 3
    recipe = Recipe(epochs=2, batch=4, lr=0.2, weight_decay=0.01)
    ours, theirs = (nn.Sequential(nn.Flatten(), nn.Linear(16, 3)) for _ in range(2))
    theirs.load_state_dict(ours.state_dict())
    fit(ours, x, y, recipe, seed=5)
    from uproar.seeds import generator

    order, velocity, step = generator(5, "batches"), None, 0
    weight, bias = theirs[1].weight.data.clone(), theirs[1].bias.data.clone()
    for _ in range(2):
        rows = torch.randperm(12, generator=order)
        for i in range(0, 12, 4):
            w, b = weight.clone().requires_grad_(), bias.clone().requires_grad_()
            part = rows[i : i + 4]
            F.cross_entropy(x[part].flatten(1) @ w.T + b, y[part]).backward()
            gradients = [w.grad + 0.01 * weight, b.grad + 0.01 * bias]
            velocity = (
                gradients if velocity is None else [0.9 * v + g for v, g in zip(velocity, gradients, strict=True)]
            )
            moves = [g + 0.9 * v for g, v in zip(gradients, velocity, strict=True)]
            done = step / 6
            rate = 0.2 * done / 0.2 if done < 0.2 else 0.2 * (1 - (done - 0.2) / 0.8)
            weight, bias = weight - rate * moves[0], bias - rate * moves[1]
            step += 1
    torch.testing.assert_close(ours[1].weight, weight)
    torch.testing.assert_close(ours[1].bias, bias)


@pytest.mark.parametrize("schedule", ["one-cycle", "cosine"])
def test_the_learning_rate_rises_to_its_peak_and_falls_to_zero(schedule):
    recipe = Recipe(schedule=schedule, lr=0.4, warmup=0.25)
    assert recipe.rate(0) == 0
    assert recipe.rate(0.25) == pytest.approx(0.4)
    assert recipe.rate(0.125) == pytest.approx(0.2)
    assert recipe.rate(0.625) == pytest.approx(0.2)
    assert recipe.rate(0.999) < 0.004


def test_flips_and_shifts_are_those_of_each_image_alone():
    x = torch.arange(32.0).view(2, 1, 4, 4)
    flipped = augment(x, ("flip",), torch.Generator().manual_seed(3))
    for before, after in zip(x, flipped, strict=True):
        assert torch.equal(after, before) or torch.equal(after, before.flip(2))
    big = torch.rand(40, 3, 16, 16)
    shifted = augment(big, ("shift",), torch.Generator().manual_seed(0))
    for before, after in zip(big, shifted, strict=True):
        core = after[:, 2:-2, 2:-2]
        places = [
            (dy, dx) for dy in range(5) for dx in range(5) if torch.equal(core, before[:, dy : dy + 12, dx : dx + 12])
        ]
        assert len(places) == 1
    assert not torch.equal(shifted, big)


def test_augmentation_is_deterministic_for_a_seed(digits):
    recipe = Recipe(epochs=1, augment=("flip", "shift"))
    a, b = (_trained(digits, 0, recipe).state_dict() for _ in range(2))
    assert all(torch.equal(a[key], b[key]) for key in a)
    plain = _trained(digits, 0, Recipe(epochs=1)).state_dict()
    assert any(not torch.equal(a[key], plain[key]) for key in a)


@pytest.mark.parametrize("batch_size", [1, 7, 512])
def test_scores_do_not_depend_on_the_batch(digits, batch_size):
    model = _trained(digits, 0, Recipe(epochs=1))
    x = digits.test.read(slice(0, 100))
    assert alike(predict(model, x, batch_size), predict(model, x))


def test_a_set_smaller_than_a_batch_is_one_batch_and_an_empty_one_is_refused():
    model = nn.Sequential(nn.Flatten(), nn.Linear(4, 2))
    fit(model, torch.rand(3, 1, 2, 2), torch.tensor([0, 1, 0]), Recipe(epochs=1), 0)
    with pytest.raises(BadInput, match="no images"):
        fit(model, torch.rand(0, 1, 2, 2), torch.zeros(0, dtype=torch.long), Recipe(), 0)


class Viewing(nn.Module):
    """Ends in a view of its feature maps, as many published networks do."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.fc = nn.Conv2d(1, 4, 3, padding=1), nn.Linear(4 * 64, 10)

    def forward(self, x):
        return self.fc(self.conv(x).view(len(x), -1))


def test_a_model_with_views_is_trained_asked_and_explained_in_any_memory_layout(digits):
    import uproar

    x, y = digits.train.read(slice(0, 64)), digits.train.labels[:64]
    model = fit(Viewing(), x, y, Recipe(epochs=1), 0)
    plain = model.to(memory_format=torch.contiguous_format)(x).detach()
    torch.testing.assert_close(predict(model, x), plain)
    maps = uproar.explain(model, x, ["grad", "grad_cam", "rise(masks=20)", "lrp"], mean=digits.mean)
    assert all(torch.isfinite(a).all() for a in maps.values())
    assert uproar.score(model, x, y, maps, ["deletion(steps=4)"], mean=digits.mean)["nan"].sum() == 0


class Shelf:
    """Images that are read some rows at a time; remembers how many at once."""

    def __init__(self, images, broken=None):
        self.images, self.broken, self.read = images, broken, []

    def __len__(self):
        return len(self.images)

    def __getitem__(self, rows):
        assert isinstance(rows, torch.Tensor | slice)
        part = self.images[rows]
        self.read.append(len(part))
        if len(self.read) == self.broken:
            raise BadInput("image 7 cannot be read")
        return part.contiguous()


@pytest.mark.parametrize("augment", [(), ("flip", "shift")])
def test_images_read_batch_by_batch_train_the_same_weights_as_a_tensor(digits, augment):
    recipe, task = Recipe(epochs=2, batch=50, augment=augment), digits
    shelf = Shelf(task.train.read(slice(0, 230)))
    models = [build(ModelSpec.of("resnet-small(width=4)"), task, 0) for _ in range(2)]
    a = fit(models[0], shelf.images, task.train.labels[:230], recipe, 3).state_dict()
    b = fit(models[1], shelf, task.train.labels[:230], recipe, 3).state_dict()
    assert all(torch.equal(a[key], b[key]) for key in a)
    assert shelf.read == [50] * 8


@pytest.mark.parametrize("batch_size", [1, 7, 64])
def test_images_read_batch_by_batch_get_the_same_scores_as_a_tensor(digits, batch_size):
    model = build(ModelSpec.of("cnn-small"), digits, 0)
    shelf = Shelf(digits.test.read(slice(0, 50)))
    assert alike(predict(model, shelf, batch_size), predict(model, shelf.images))
    assert max(shelf.read) <= batch_size


@pytest.mark.parametrize("threads", [1, 3])
def test_parts_come_in_order_however_long_each_takes_to_read(threads):
    class Slow:
        def __len__(self):
            return 8

        def __getitem__(self, rows):
            time.sleep(0.02 if rows[0] % 3 == 0 else 0)
            return rows

    parts = torch.arange(8).split(1)
    assert torch.equal(torch.cat(list(prefetch(Slow(), parts, threads))), torch.arange(8))


def test_a_network_on_a_cpu_has_one_reader_and_one_elsewhere_as_many_as_there_are_cores(monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    result = [reader_threads(torch.device(where)) for where in ("cpu", "cuda", "mps")]
    assert result == [1, MOST, MOST]
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    assert reader_threads(torch.device("cuda")) == 1


def test_an_image_that_cannot_be_read_ends_the_training_and_its_thread(digits):
    import threading

    model, labels = build(ModelSpec.of("cnn-small"), digits, 0), digits.train.labels
    before = threading.active_count()
    with pytest.raises(BadInput, match="image 7"):
        fit(model, Shelf(digits.train.images, broken=3), labels, Recipe(batch=16), 0)
    with pytest.raises(BadInput, match="no images"):
        predict(model, Shelf(digits.train.images[:0]))
    assert threading.active_count() == before


def test_no_layer_gets_a_layout_that_makes_it_write_past_its_memory():
    """A strided 1×1 convolution over few channels: channels last, its backward pass kills the process."""
    seen = []
    for channels, inputs, safe in ((3, 4, False), (1, 4, False), (3, 8, True)):
        x = torch.rand(2, channels, 4, 4).to(memory_format=torch.channels_last)
        model = nn.Sequential(nn.Conv2d(channels, inputs, 3, padding=1), nn.Conv2d(inputs, 8, 1, 2))
        model[1].register_forward_pre_hook(lambda _, args: seen.append(args[0]))
        raw_output(channels_last(model), x)
        assert seen[-1].is_contiguous(memory_format=torch.channels_last) is safe
