"""Rows per pass: what fits, what is done when it does not, and that no number depends on it."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import uproar
from uproar.models import forward as budget
from uproar.models.forward import ON_CPU, MemoryBudget, bytes_per_image, rows_within_budget
from uproar.models.small import cnn_small


class Crowded(nn.Module):
    """A network that runs out of memory, as a GPU would, when it is shown more than `most` images at once."""

    def __init__(self, most: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.inner, self.most, self.seen = (cnn_small((1, 8, 8), 3, torch.zeros(1), torch.ones(1)), most, [])

    def forward(self, x):
        self.seen.append(len(x))
        if len(x) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory (pretended)")
        return self.inner(x)


@pytest.fixture
def images():
    return torch.rand(40, 1, 8, 8, generator=torch.Generator().manual_seed(1))


def test_memory_that_runs_out_halves_the_rows_and_changes_no_score(images):
    y, maps = torch.arange(40) % 3, {"grad": images.mean(1), "sobel": images.sum(1) ** 2}
    asked = ["deletion(steps=5)", "average_drop"]
    whole = uproar.score(Crowded(1000), images, y, maps, asked, per_image=True, mean=torch.ones(1))
    short = Crowded(6)
    scores = uproar.score(short, images, y, maps, asked, per_image=True, mean=torch.ones(1))
    assert whole.equals(scores)
    assert max(short.seen[-20:]) <= 6  # it does not try again what did not fit


@pytest.mark.parametrize("name", ["grad", "ig(steps=7)", "sg_sq(grad)", "occlusion(window=2)"])
def test_memory_that_runs_out_changes_no_map(images, name):
    whole = uproar.explain(Crowded(1000), images, name, mean=torch.ones(1))
    assert torch.equal(whole, uproar.explain(Crowded(5), images, name, mean=torch.ones(1)))


def test_what_does_not_fit_at_all_is_an_error(images):
    with pytest.raises(torch.OutOfMemoryError):
        uproar.score(Crowded(0), images, torch.zeros(40, dtype=torch.long), images[:, 0], ["deletion"], batch_size=4)


def test_an_image_takes_the_outputs_of_all_layers():
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
    assert bytes_per_image(model, torch.rand(5, 1, 4, 4)) == 4 * (16 + 64 + 64 + 64 + 10)
    assert bytes_per_image(model, torch.rand(1, 1, 4, 4)) == 4 * (16 + 64 + 64 + 64 + 10)
    assert not model[0]._forward_hooks


@pytest.mark.parametrize(
    ("free", "rows", "short"), [(None, ON_CPU, False), (10**12, ON_CPU, False), (40_000, 11, True), (1, 1, True)]
)
def test_as_many_rows_as_free_memory_holds(monkeypatch, free, rows, short):
    monkeypatch.setattr(budget, "free_bytes", lambda device: free)
    model = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10))
    result = MemoryBudget.of(model, torch.rand(5, 1, 4, 4))
    assert (result.rows, result.short) == (rows, short)


def test_free_memory_is_known_on_this_machine_and_obeys_a_container(tmp_path):
    cpu = torch.device("cpu")
    known = budget.free_bytes(cpu) or 10**9
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("400\n")
    assert known > 600 == budget.free_bytes(cpu, tmp_path)
    (tmp_path / "memory.max").write_text("max\n")
    assert budget.free_bytes(cpu, tmp_path) != 600


def test_rows_deep_inside_are_limited_only_where_memory_is_short():
    assert MemoryBudget(8).run(lambda _: rows_within_budget(256)) == 256
    assert MemoryBudget(8, short=True).run(lambda _: rows_within_budget(256)) == 8
    assert rows_within_budget(256) == 256


def test_spans_cover_everything_once_whatever_fits():
    def work(span, rows):
        if span.stop - span.start > 3:
            raise MemoryError
        return list(range(span.start, span.stop))

    result = list(MemoryBudget(64).over(11, 20, work))
    assert [row for rows in result for row in rows] == list(range(11)) and max(map(len, result)) <= 3
