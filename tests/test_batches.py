import pytest
import torch

from uproar.batches import in_batches, spans
from uproar.errors import BadInput, BadShape


def test_spans_cover_everything_once():
    assert [(s.start, s.stop) for s in spans(7, 3)] == [(0, 3), (3, 6), (6, 7)]


@pytest.mark.parametrize("size", [1, 2, 7, 100])
def test_the_result_is_as_if_called_once(size):
    x, y = torch.arange(22.0).view(11, 2), torch.arange(11)
    total = in_batches(lambda a, b: a.sum(1) + b, x, y, size=size)
    assert torch.equal(total, x.sum(1) + y)
    tuples = in_batches(lambda a: (a, a * 2), x, size=size)
    assert torch.equal(tuples[1], 2 * x)
    tables = in_batches(lambda a: {"a": a[:, 0]}, x, size=size)
    assert torch.equal(tables["a"], x[:, 0])


def test_bad_sizes_and_lengths_are_refused():
    with pytest.raises(BadInput, match="at least one"):
        in_batches(lambda a: a, torch.zeros(3, 1), size=0)
    with pytest.raises(BadInput, match="no samples"):
        in_batches(lambda a: a, torch.zeros(0, 1), size=2)
    with pytest.raises(BadShape, match="3, 2"):
        in_batches(lambda a, b: a, torch.zeros(3), torch.zeros(2), size=2)
