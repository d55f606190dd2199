"""Devices: which is chosen, one GPU per worker, and that everything runs elsewhere with the same numbers."""

from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn

import uproar
from tests.elsewhere import ELSEWHERE, elsewhere
from tests.estimators.test_contract import MAPS
from tests.readings import forget
from uproar.data import load
from uproar.errors import BadInput
from uproar.estimators.control import Kind
from uproar.models import ModelSpec, build
from uproar.study import devices, steps
from uproar.study.executors import Processes, executor
from uproar.training import Recipe, fit, predict


@pytest.fixture
def gpus(monkeypatch):
    """A machine that seems to have three GPUs."""
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)


def test_every_worker_has_a_gpu_of_its_own(gpus, monkeypatch):
    assert [str(devices.choose_device("auto", i)) for i in range(4)] == ["cuda:0", "cuda:1", "cuda:2", "cuda:0"]
    assert str(devices.choose_device("cuda:1", 2)) == "cuda:1"
    assert str(devices.choose_device("cpu", 2)) == "cpu"
    monkeypatch.setenv(devices.WORKER, "2")
    assert str(devices.choose_device("cuda")) == "cuda:2"
    assert devices.default_jobs("auto") == devices.default_jobs("cuda") == 3
    assert devices.default_jobs("cuda:1") == 1


def test_worker_processes_know_their_number_and_a_new_one_takes_it_over(tmp_path, monkeypatch):
    started = []

    class Process:
        def __init__(self, command, pass_fds, env):
            started.append(int(env[devices.WORKER]))

        def kill(self):
            pass

        def wait(self):
            return -9

    monkeypatch.setattr("uproar.study.executors.subprocess.Popen", Process)
    pool = executor(str(tmp_path), 3)
    assert isinstance(pool, Processes)
    assert started == []  # not before there is a job
    for number, plugins in ((0, ""), (1, ""), (1, ""), (1, "mine"), (1, ""), (1, "other")):
        worker = pool.worker(number, plugins)
    assert started == [0, 1, 1, 1], "a process for plug-ins beside the other one, and anew for another plug-in"
    assert worker.stop() == -9
    pool.worker(1, "other")
    assert started == [0, 1, 1, 1, 1]
    pool.close()


def test_a_machine_without_a_gpu_says_so(monkeypatch, small_study, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert str(devices.choose_device("auto")) == "cpu"
    for name in ("cuda", "cuda:1", "mps"):
        with pytest.raises(BadInput, match=f"This machine has no device '{name}'; it has cpu"):
            devices.choose_device(name)
    with pytest.raises(BadInput, match="no device 'cuda'"):
        uproar.run(small_study, device="cuda", store=tmp_path / "never-made")
    assert not (tmp_path / "never-made").exists()


@pytest.mark.parametrize("name", ["gpu", "cuda:", "cuda:x", "CPU", ""])
def test_what_is_no_device_is_refused_when_a_study_is_read(name):
    with pytest.raises(BadInput, match="device must be auto, cpu, cuda"):
        uproar.Study(device=name)


def test_the_flags_for_repeatable_work_are_given_back():
    before = (torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled())
    with devices.repeatable(torch.device("cuda:0")):
        assert torch.backends.cudnn.deterministic
        assert torch.are_deterministic_algorithms_enabled()
    assert (torch.backends.cudnn.deterministic, torch.are_deterministic_algorithms_enabled()) == before


# the same numbers elsewhere


class Dropping(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv, self.norm = nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.drop, self.head = nn.Dropout(0.4), nn.Linear(8, 10)

    def forward(self, x):
        return self.head(self.drop(self.norm(self.conv(x)).relu().mean((2, 3))))


@pytest.mark.parametrize(
    "recipe",
    [
        Recipe(epochs=1, augment=("flip", "shift"), label_smoothing=0.1),
        Recipe(epochs=1, optimizer="adam", lr=0.01, ghost=16, augment=("crop", "resized-crop")),
    ],
    ids=["sgd", "adam"],
)
def test_training_elsewhere_draws_the_same_random_numbers(recipe):
    task = load("digits").limited(128)
    x, y = task.train.read(slice(None)), task.train.labels
    here = fit(Dropping(), x, y, recipe, 3)
    with elsewhere() as place:
        there = fit(Dropping().to(place), x, y, recipe, 3)
        assert {weight.device for weight in there.parameters()} == {ELSEWHERE}
        scores = predict(there, x)
        assert scores.device == x.device
        weights = {name: value.cpu() for name, value in there.state_dict().items()}
    for name, value in here.state_dict().items():
        torch.testing.assert_close(weights[name], value, msg=lambda m, name=name: f"{name}: {m}")
    torch.testing.assert_close(scores, predict(here, x))


DEGRADED = [f"degraded(kind={kind})" for kind in get_args(Kind)]
ATTENTION = {"attention_rollout", "grad_attention", "legrad"}


@pytest.mark.parametrize("name", [name for name in MAPS if not name.startswith("tame")] + DEGRADED)
def test_estimators_give_the_same_maps_elsewhere(name):
    """All but `tame`, which itself uses the device that is pretended here."""
    task = load("planted(size=8, channels=3, classes=3, train=12, test=6)")
    network = "vit-small(width=8)" if name in ATTENTION else "resnet-small(width=8)"
    model = build(ModelSpec.of(network), task, 0).eval()
    x, train = task.test.read(slice(0, 2)), task.train.read(slice(None))
    around = {"mean": task.mean, "train": train, "target": [0, 1]}
    here = uproar.explain(model, x, name, truth=task.test.truth(slice(0, 2)), **around)
    with elsewhere() as place:
        truth = task.test.truth(slice(0, 2)).to(place)
        there = uproar.explain(model.to(place), x.to(place), name, truth=truth, **around)
        assert there.device == ELSEWHERE
        there = there.cpu()
    # layers of the CPU's own are computed in blocks of rows, which changes last digits
    torch.testing.assert_close(there, here, rtol=1e-5, atol=1e-6)


def test_metrics_give_the_same_values_elsewhere():
    task = load("planted(size=8, channels=3, classes=3, train=12, test=6)")
    model = build(ModelSpec.of("cnn-small"), task, 0).eval()
    x, y, truth = task.test.read(slice(None)), task.test.labels, task.test.truth(slice(None))
    maps = uproar.explain(model, x, "grad")
    names = ["insertion(steps=4)", "average_drop", "sparseness", "relevance_mass", "complexity"]
    here = uproar.score(model, x, y, maps, names, truth=truth, mean=task.mean)
    with elsewhere() as place:
        away = [a.to(place) for a in (x, y, maps)]
        there = uproar.score(model.to(place), *away, names, truth=truth.to(place), mean=task.mean)
    np.testing.assert_allclose(there["value"], here["value"], atol=1e-6)


@pytest.fixture
def small_study():
    return uproar.study_of(
        {
            "name": "small",
            "task": "planted(size=8, classes=3, train=60, test=30)",
            "model": "cnn-small(width=4)",
            "estimators": ["random", "sg_sq(grad, samples=2)", "sobel"],
            "metrics": ["roar", "kar:no-retrain", "deletion(steps=4)", "randomisation"],
            "fractions": [0.4],
            "seeds": 1,
            "recipe": {"epochs": 1, "batch": 16},
        }
    )


def test_a_whole_study_elsewhere_gives_the_same_numbers(tmp_path, small_study, monkeypatch):
    here = uproar.run(small_study, store=tmp_path / "here", jobs=1)
    monkeypatch.setattr(devices, "choose_device", lambda *_: ELSEWHERE)
    monkeypatch.setattr(steps, "current_device", lambda: ELSEWHERE)
    forget()
    try:
        with elsewhere():
            there = uproar.run(small_study, store=tmp_path / "there", jobs=1)
    finally:
        forget()
    assert (there.cells["status"] == "done").all()
    np.testing.assert_array_equal(there.cells["accuracy"], here.cells["accuracy"])
    assert (there.scores["status"] == "done").all()
    np.testing.assert_allclose(there.scores["value"], here.scores["value"], atol=1e-6)
