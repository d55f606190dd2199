"""F-Fidelity and IDSDS: the released codes' numbers, slow second versions, and what is undefined."""

import dataclasses
import itertools
import math

import pytest
import scipy
import torch
from torch import nn

from tests.metrics.looking import batch_of
from uproar.errors import BadOption, NotApplicable
from uproar.expression import parse
from uproar.metrics.fine_tuned import PartlyRemoved
from uproar.metrics.probe import evaluate, images_shown, summarise
from uproar.metrics.registry import fine_tuning_of
from uproar.seeds import Draws


class GivenDraws(Draws):
    """Uniform numbers from a table, (images, draws, h, w)."""

    table = None

    def copies(self, numbers):
        (draw,) = numbers
        made = GivenDraws(self.seed, tuple((*row, draw) for row in self.rows), self.split)
        object.__setattr__(made, "table", self.table)
        return made

    def uniform(self, purpose, *shape):
        if purpose != "f-fidelity":
            return super().uniform(purpose, *shape)
        return torch.stack([self.table[row[0], row[-1]] for row in self.rows])


def judged(batch):
    """The batch whose model is its own fine-tuned copy."""
    return dataclasses.replace(batch, fine_tuned=lambda tuning: batch.model)


def one(text, batch, **more):
    call = parse(text)
    return evaluate([call], batch, **more)[0][str(call)]


@pytest.mark.parametrize(("name", "side"), [("ffid_plus", "MoRF"), ("ffid_minus", "LeRF")])
def test_f_fidelity_agrees_with_the_released_code(golden, name, side):
    g = golden("ffidelity")
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 5, bias=False))
    model[1].weight.data = g["w_1_weight"]
    batch = judged(batch_of(g["scores"], model=model, x=g["x"], target=g["y"], mean=torch.zeros(3)))
    numbers = g[f"{side}_draws"].view(4, 8, 6, 32, 32)  # image by image, size by size
    assert g["alpha"] == 0.5 and g["beta"] == pytest.approx(0.1)
    losses = []
    for i, percent in enumerate(g["sparsity"].tolist()):
        draws = GivenDraws(0, batch.draws.rows)
        object.__setattr__(draws, "table", numbers[:, i])
        size = min(int(10.24 * (percent + 1)), 1024) / 1024
        result = one(f"{name}(draws=6, sizes=[{size}])", dataclasses.replace(batch, draws=draws))
        torch.testing.assert_close(result["curve"][:, 0], g[side][:, i + 1].double(), atol=1e-6, rtol=0)
        losses.append(g[side][:, 0] - g[side][:, i + 1])
        torch.testing.assert_close(result["value"], losses[-1].double(), atol=1e-6, rtol=0)
    assert len({tuple(row.tolist()) for row in g[side]}) > 1  # the numbers tell images apart


@pytest.mark.parametrize("kind", ["grad_input", "random"])
def test_idsds_agrees_with_the_released_code(golden, kind):
    g = golden("idsds")
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 8, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    model.load_state_dict({name: g[f"w_{name.replace('.', '_')}"] for name in model.state_dict()})
    batch = judged(batch_of(g[f"map_{kind}"].sum(1), model=model, x=g["x"], target=g["y"], mean=torch.zeros(3)))
    result = one("idsds", batch)
    torch.testing.assert_close(result["value"], g[f"per_image_{kind}"].double(), atol=1e-6, rtol=0)
    assert summarise(parse("idsds"), result)["value"] == pytest.approx(float(g[f"score_{kind}"]), abs=1e-6)


@pytest.fixture
def small():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(2 * 9 * 7, 4)).eval().requires_grad_(False)
    x, maps = torch.rand(5, 2, 9, 7), torch.randn(5, 9, 7)
    mean = torch.tensor([0.3, 0.6])
    return judged(batch_of(maps, model=model, x=x, target=torch.tensor([0, 1, 2, 3, 0]), mean=mean))


def test_f_fidelity_is_what_its_definition_gives_pixel_by_pixel(small):
    """Each pixel of the part by itself, with the numbers that belong to the image and the draw."""
    options = "sizes=[0.1, 0.5], alpha=0.4, beta=0.15, draws=3, by=probability"
    for name, first in (("ffid_plus", True), ("ffid_minus", False)):
        result = one(f"{name}({options})", small)
        for i in range(5):
            order = sorted(range(63), key=lambda p: -float(small.maps[i].flatten()[p]))
            label = int(small.target[i])
            before = float(small.model(small.x[i : i + 1]).softmax(1)[0, label])
            points = []
            for size, chance in ((6, 0.4), (32, 0.15 * 63 / 32)):
                looked_at = order[:size] if first else order[63 - size :]
                probabilities = []
                for draw in range(3):
                    numbers = small.draws[[i]].copies([draw]).uniform("f-fidelity", 9, 7)[0]
                    changed = small.x[i].clone()
                    for p in looked_at:
                        if float(numbers.flatten()[p]) <= chance:
                            changed[:, p // 7, p % 7] = small.mean
                    probabilities.append(float(small.model(changed[None]).softmax(1)[0, label]))
                points.append(sum(probabilities) / 3)
            assert result["curve"][i].tolist() == pytest.approx(points, abs=1e-6)
            assert float(result["value"][i]) == pytest.approx(before - sum(points) / 2, abs=1e-6)


def test_no_more_than_the_bound_is_removed_and_the_whole_image_has_no_sides(small):
    features = 63
    for count, chance in itertools.product((7, 30, 63), (0.1,)):
        masks = [
            PartlyRemoved("most", count, min(0.5, chance * features / count), d).removed_mask(small) for d in range(400)
        ]
        gone = torch.stack(masks).float().mean((0, 2, 3))
        assert (gone < 0.1 + 0.02).all()
    both = [one(f"{name}(sizes=[1.0], draws=4)", small)["curve"] for name in ("ffid_plus", "ffid_minus")]
    assert torch.equal(*both)


def test_idsds_is_the_rank_correlation_of_sums_and_falls(small):
    """Cell by cell with scipy, on images that 4 does not divide."""
    result = one("idsds(grid=4)", small)
    rows, columns = [[0, 3, 5, 7, 9], [0, 2, 4, 6, 7]]  # where cells begin: ceil(i·size / 4)
    for i in range(5):
        sums, falls = [], []
        before = float(small.model(small.x[i : i + 1])[0, small.target[i]].detach())
        for (top, bottom), (left, right) in itertools.product(itertools.pairwise(rows), itertools.pairwise(columns)):
            changed = small.x[i].clone()
            changed[:, top:bottom, left:right] = small.mean.view(2, 1, 1)
            falls.append(before - float(small.model(changed[None])[0, small.target[i]].detach()))
            sums.append(float(small.maps[i, top:bottom, left:right].sum()))
        assert float(result["value"][i]) == pytest.approx(scipy.stats.spearmanr(sums, falls).statistic, abs=1e-9)


def test_constant_and_broken_maps_are_undefined_and_counted(small):
    maps = small.maps.clone()
    maps[0], maps[1] = 0, 0.7  # cells of different sizes: the sums differ, the map does not
    maps[2, 0, 0] = math.nan
    result = one("idsds", dataclasses.replace(small, maps=maps))
    assert result["value"].isnan().tolist() == [True, True, True, False, False]
    summary = summarise(parse("idsds"), result)
    assert summary["nan"] == 3 and math.isfinite(summary["value"])
    blind = nn.Sequential(nn.Flatten(), nn.Linear(126, 4))
    blind[1].weight.data.zero_()
    same = one("idsds", judged(dataclasses.replace(small, model=blind)))
    assert same["value"].isnan().all()  # no cell costs anything
    broken = one("ffid_plus(draws=2)", dataclasses.replace(small, maps=maps))["value"]
    assert broken.isnan().tolist() == [False, False, True, False, False]


def test_both_sides_share_one_fine_tuning_and_the_explained_network_judges_the_rest(small):
    plus, minus, cells = (fine_tuning_of(name) for name in ("ffid_plus", "ffid_minus", "idsds"))
    assert plus == minus != cells
    assert fine_tuning_of("ffid_plus(draws=3)") == plus != fine_tuning_of("ffid_plus(lr=0.001)")
    assert fine_tuning_of("deletion") is None
    asked = []

    def tuned(tuning):
        asked.append(tuning)
        other = nn.Sequential(nn.Flatten(), nn.Linear(126, 4)).eval()
        return other

    batch = dataclasses.replace(small, fine_tuned=tuned)
    calls = [parse(text) for text in ("deletion(steps=3)", "ffid_plus(draws=2)", "idsds", "ffid_minus(draws=2)")]
    responses, shown = evaluate(calls, batch)
    assert asked == [plus, cells]
    assert list(responses) == [str(call) for call in calls]
    assert torch.equal(responses["deletion(steps=3)"]["value"], one("deletion(steps=3)", small)["value"])
    # the clean images are shown to each copy; the whole image, looked at from both sides, is still two changes
    assert shown == 5 * (3 + (1 + 2 * 2 * 20) + (1 + 16))
    assert images_shown(("ffid_plus(draws=2)", "idsds"), (2, 9, 7)) == 40 + 16


def test_recipes_are_those_of_the_papers():
    adam, sgd = fine_tuning_of("ffid_plus").recipe, fine_tuning_of("idsds").recipe
    assert (adam.optimizer, adam.lr, {adam.rate(t / 10) for t in range(10)}) == ("adam", 1e-4, {1e-4})
    rates = [sgd.rate(epoch / 30) for epoch in range(30)]
    assert rates[:10] == [1e-3] * 10
    assert rates[10:20] == pytest.approx([1e-4] * 10) and rates[20:] == pytest.approx([1e-5] * 10)
    assert (sgd.optimizer, sgd.epochs, sgd.batch, sgd.momentum, sgd.weight_decay) == ("sgd", 30, 256, 0.9, 1e-4)


def test_without_training_images_or_cells_it_does_not_apply(small):
    lone = dataclasses.replace(small, fine_tuned=None)
    for name in ("idsds", "ffid_plus"):
        with pytest.raises(NotApplicable, match=rf"{name} asks a copy .* fine-tuned on training images; give these"):
            one(name, lone)
    with pytest.raises(NotApplicable, match="images of 9x7 pixels have no 8x8 cells; give a smaller grid"):
        one("idsds(grid=8)", small)
    with pytest.raises(BadOption, match="sizes"):
        one("ffid_plus(sizes=[])", small)
