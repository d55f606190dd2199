"""`uproar explain --layers`, and the layers that methods look at."""

from __future__ import annotations

import torch

import uproar
from uproar.cli.app import _exit_code
from uproar.estimators import read_chain
from uproar.estimators.layers import chosen_layers, layer_candidates
from uproar.models import ModelSpec, make


def test_layers_of_a_transformer_are_listed_and_the_default_marked(capsys):
    assert _exit_code(["explain", "--layers", "--model", "vit-small(width=8, depth=2, heads=2)"]) == 0
    said = capsys.readouterr().out
    (line,) = [each for each in said.splitlines() if "CAM" in each]
    assert "blocks.1.norm1" in line
    assert "17 × 8" in line
    assert "4 × 4" in line


def test_layers_of_a_cnn_have_the_defaults_of_every_family():
    model = make(ModelSpec.of("cnn-small(width=4)"), 0, (3, 16, 16), 3, torch.zeros(3), torch.ones(3)).eval()
    candidates, refusals = layer_candidates(model, torch.rand(2, 3, 16, 16))
    assert not refusals
    assert {family for each in candidates for family in each.default_of} == {"CAM", "iba", "tame"}


def test_the_layers_that_a_method_looks_at_are_named_found_or_none():
    model = make(ModelSpec.of("cnn-small(width=4)"), 0, (3, 16, 16), 3, torch.zeros(3), torch.ones(3)).eval()
    x = torch.rand(3, 3, 16, 16)
    names = ["grad", "grad_cam", "sg(layer_cam)", "eigen_cam(layer=0)", "tame", "tame(layers=[1, 3])"]
    layers = chosen_layers(model, x, [read_chain(name) for name in names])
    candidates, _ = layer_candidates(model, x)
    default = {family: [each.name for each in candidates if family in each.default_of] for family in ("CAM", "tame")}
    assert layers["grad_cam"] == layers["sg(layer_cam)"] == tuple(default["CAM"])
    assert sorted(layers["tame"]) == sorted(default["tame"])
    assert layers[read_chain("eigen_cam(layer=0)").name] == ("0",)
    assert layers[read_chain("tame(layers=[1, 3])").name] == ("1", "3")
    assert "grad" not in layers
    assert list(uproar.layers(model, x, "grad_cam")["layer"]) == default["CAM"]
    assert list(uproar.layers(model, x)["layer"]) == [each.name for each in candidates]
    assert uproar.layers(model, x, "grad").empty


def test_the_chosen_layer_is_said_beside_the_map(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    asked = ["explain", "--model", "cnn-small(width=4)", "--estimators", "grad,grad_cam,layer_cam(layer=0)"]
    assert _exit_code([*asked, "--limit", "2", "--out", "maps.svg"]) == 0
    said = capsys.readouterr().out
    assert f"Layer 0: {read_chain('layer_cam(layer=0)').name}" in said
    (line,) = [each for each in said.splitlines() if each.endswith(": grad_cam")]
    drawn = (tmp_path / "maps.svg").read_text()
    assert f"layer {line.removeprefix('Layer ').partition(':')[0]}" in drawn
