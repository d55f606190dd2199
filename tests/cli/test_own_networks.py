"""Commands with a network of one's own in a file: one logit, several labels, an answer with logits, two inputs."""

from __future__ import annotations

import numpy as np
import pytest

from uproar.cli.app import _exit_code

NETWORKS = """
from types import SimpleNamespace
from torch import nn

def network(outputs, kind=nn.Sequential):
    layers = nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, outputs)
    return kind(*layers)

def one_logit():
    return network(1)

def labels():
    return nn.Sequential(network(3), nn.Sigmoid())

class Answer(nn.Sequential):
    def forward(self, x):
        return SimpleNamespace(logits=super().forward(x))

def answer():
    return network(4, Answer)

class Two(nn.Sequential):
    def forward(self, x, age):
        return super().forward(x) + age

def trained():
    net = network(3)
    for weights in net.parameters():
        nn.init.constant_(weights, 0.1)
    return net

def two_inputs():
    return network(3, Two)
"""


@pytest.fixture
def said(tmp_path, monkeypatch, capsys):
    """`said("layers net.py:labels images.npy")`: the exit code of a command, and all that it printed in one line."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.py").write_text(NETWORKS)
    np.save("images.npy", np.random.default_rng(0).random((3, 3, 10, 14), dtype=np.float32))

    def run(command: str) -> tuple[int, str]:
        code, printed = _exit_code(command.split()), capsys.readouterr()
        return code, " ".join((printed.out + printed.err).split())

    return run


@pytest.mark.parametrize("network", ["one_logit", "labels", "answer"])
def test_layers_are_listed_on_images_of_ones_own_whatever_the_outputs(said, network):
    code, printed = said(f"explain images.npy --layers --model net.py:{network}")
    assert code == 0
    assert "4 × 8 × 12" in printed
    assert f"uproar explain images.npy --model net.py:{network} --estimators" in printed


def test_a_network_with_two_inputs_is_refused_with_what_to_do(said):
    for command in (
        "explain images.npy --layers --model net.py:two_inputs",
        "explain images.npy --model net.py:two_inputs",
    ):
        code, printed = said(command)
        assert code == 2
        assert "argument: 'age'; in Python inputs= gives it what it takes beside images, else wrap it in" in printed


def test_scores_without_labels_say_which_output_they_follow(said):
    asked = "--estimators grad --metrics deletion(steps=2)"
    code, printed = said(f"score images.npy --model net.py:labels {asked}")
    assert code == 0
    assert "scores are those of the label of the highest output" in printed
    code, printed = said(f"score images.npy --model net.py:one_logit --output sigmoid {asked}")
    assert code == 0
    assert "scores are those of the class that the model predicts" in printed
    assert said(f"score images.npy --model net.py:one_logit {asked}")[0] == 2


def test_an_estimator_that_does_not_fit_the_network_is_left_out_by_name(said):
    left_out = "attention_rollout is left out: attention is needed, and none was met in this model."
    for command in ("explain images.npy --save maps.npz", "score images.npy --metrics deletion --out scored"):
        code, printed = said(f"{command} --model net.py:answer --estimators grad,attention_rollout")
        assert code == 0
        assert left_out in printed
        code, printed = said(f"{command} --model net.py:answer --estimators attention_rollout")
        assert code == 2
        assert "No estimator applies to this network: attention_rollout (attention is needed" in printed
    assert {"grad", "images"} <= set(np.load("maps.npz")) and "attention_rollout" not in np.load("maps.npz")


@pytest.mark.parametrize(("network", "random"), [("answer", True), ("trained", False)])
def test_random_weights_are_told_and_those_that_a_file_sets_itself_are_not(said, network, random):
    code, printed = said(f"explain images.npy --model net.py:{network} --estimators grad")
    assert code == 0
    assert (f"net.py:{network} has random weights: give --weights" in printed) is random
