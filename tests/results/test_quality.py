"""How good the explained network is, said first and warned of; which methods a metric ranks."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

import uproar
from uproar.models.output_kind import SOFTMAX
from uproar.results.quality import NetworkQuality, WeakNetwork, network_quality, over_replicates, predictions_of
from uproar.results.scores import is_ranked
from uproar.scoring import score_all


class Looks(nn.Module):
    """Answers with the class that the first pixel names, surely."""

    def forward(self, x):
        named = (x[:, 0, 0, 0] * 10).round().clamp(0, 3).long()
        return 5 * torch.nn.functional.one_hot(named, 4).to(x)


def images_of(classes) -> torch.Tensor:
    x = torch.rand(len(classes), 1, 4, 4)
    x[:, 0, 0, 0] = torch.tensor(classes) / 10
    return x


@pytest.mark.parametrize(("classes", "level"), [(2, 0.75), (10, 0.55), (1000, 0.5005)])
def test_the_level_is_half_way_from_chance_to_always_right(classes, level):
    good, bad = (NetworkQuality(500, classes, 0.5, accuracy) for accuracy in (level + 1e-9, level - 1e-9))
    assert good.level == pytest.approx(level)
    assert good.warning is None and "says little" in bad.warning


def test_without_labels_only_a_probability_near_that_of_guessing_is_warned_of():
    assert NetworkQuality(9, 10, 0.21, None).warning is None  # e.g. trained with label smoothing
    assert "0.19" in NetworkQuality(9, 10, 0.19, None).warning
    assert NetworkQuality(9, 2, 0.74, None).weak and not NetworkQuality(9, 2, 0.76, None).weak
    assert "no labels" in NetworkQuality(9, 10, 0.5, None).sentence


def test_accuracy_and_probability_are_counted_over_the_images():
    scores = np.array([[2.0, 0.0, 0.0], [0.0, 1.0, 0.0], [np.nan, 0.0, 0.0], [0.0, 0.0, 3.0]])
    result = network_quality(scores, np.array([0, 0, 0, 2]))
    chances = [math.e**2 / (math.e**2 + 2), 1 / (math.e + 2), math.e**3 / (math.e**3 + 2)]
    assert (result.accuracy, result.unanswered, result.images) == (0.5, 1, 4)
    assert result.probability == pytest.approx(np.mean(chances))
    assert "1 without a finite answer" in result.sentence


def test_of_several_networks_the_weakest_counts():
    result = over_replicates([NetworkQuality(50, 10, p, a) for p, a in ((0.9, 0.96), (0.1, 0.12), (0.8, 0.92))])
    assert result.accuracy == pytest.approx(2 / 3) and result.lowest == 0.12 and result.weak
    assert "the weakest 12 %" in result.sentence
    assert "networks on 12 %" in result.warning


def test_score_says_how_good_the_network_is_and_warns_of_a_weak_one():
    x, y = images_of([0, 1, 2, 3]), torch.tensor([0, 1, 2, 0])
    maps = torch.rand(4, 4, 4)
    scores = score_all(Looks(), x, y, maps, ["deletion(steps=2, fill=channel_mean)"])
    assert scores.quality.accuracy == 0.75 and not scores.notices
    with pytest.warns(WeakNetwork, match="right on only 0 % of 4 images"):
        uproar.score(Looks(), x, (y + 1) % 3, maps, ["deletion(steps=2, fill=channel_mean)"])
    unlabelled = score_all(Looks(), x, y, maps, ["deletion(steps=2, fill=channel_mean)"], labelled=False)
    assert unlabelled.quality.accuracy is None and unlabelled.quality.probability > 0.7


def test_a_method_undefined_for_more_than_a_tenth_of_the_images_is_not_ranked():
    assert is_ranked(20, 2) and not is_ranked(20, 3) and not is_ranked(1, 1)
    x, y = images_of([0] * 20), torch.zeros(20, dtype=torch.long)
    maps = {"two": torch.rand(20, 4, 4), "three": torch.rand(20, 4, 4), "none": torch.rand(20, 4, 4)}
    maps["two"][:2], maps["three"][:3] = torch.nan, torch.nan
    scores = score_all(Looks(), x, y, maps, ["deletion(steps=2, fill=channel_mean)"])
    table = scores.table.set_index("method")
    assert table["ranked"].to_dict() == {"two": True, "three": False, "none": True}
    assert table.loc["three", "note"] == "not ranked: undefined for 3 of 20 images"
    for row in scores.comparisons.itertuples():
        if "three" in (row.better, row.worse):
            assert row.verdict.startswith("not ranked") and math.isnan(row.p_holm)
        else:
            assert row.p_holm == row.p  # the only pair that is tested


def test_the_predicted_class_and_its_probability_go_with_the_images():
    x, y = images_of([0, 1, 2, 3]), torch.tensor([0, 1, 2, 0])
    scores = score_all(Looks(), x, y, torch.rand(4, 4, 4), ["sparseness"])
    assert [one.name for one in scores.predictions] == ["0", "1", "2", "3"]
    sure = math.e**5 / (math.e**5 + 3)
    assert scores.predictions[0].probability == pytest.approx(sure)
    assert scores.predictions[0].words == "predicted 0 (98\u00a0%)"
    lost = predictions_of(np.array([[np.nan, 0.0]]), np.zeros(1), SOFTMAX)[0]
    assert lost.words == "no finite answer"
