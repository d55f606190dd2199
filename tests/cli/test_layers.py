"""`uproar layers`."""

from __future__ import annotations

import torch

from uproar.cli.app import _exit_code
from uproar.estimators.layer_candidates import layer_candidates
from uproar.models import ModelSpec, make


def test_layers_of_a_transformer_are_listed_and_the_default_marked(capsys):
    assert _exit_code(["layers", "vit-small(width=8, depth=2, heads=2)"]) == 0
    said = capsys.readouterr().out
    (line,) = [each for each in said.splitlines() if "CAM" in each]
    assert "blocks.1.norm1" in line
    assert "17 × 8" in line
    assert "4 × 4" in line


def test_an_unknown_model_is_refused_in_one_sentence(capsys):
    assert _exit_code(["layers", "vit-smal"]) == 2
    assert "Did you mean 'vit-small'" in capsys.readouterr().err


def test_layers_of_a_cnn_have_the_defaults_of_every_family():
    model = make(ModelSpec.of("cnn-small(width=4)"), 0, (3, 16, 16), 3, torch.zeros(3), torch.ones(3)).eval()
    found, refusals = layer_candidates(model, torch.rand(2, 3, 16, 16))
    assert not refusals
    assert {family for each in found for family in each.default_of} == {"CAM", "iba", "tame"}
