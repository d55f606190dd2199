import pytest
import torch

from uproar import fill, removed
from uproar.errors import BadInput, BadMap, BadShape
from uproar.removal import order
from uproar.removal.order import count, levels_of, pack_levels, ranks, removed_at, tie_share, unpack_levels
from uproar.seeds import Draws

FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.99)


def maps_of_all_kinds(n=6, f=100) -> dict[str, torch.Tensor]:
    g = torch.Generator().manual_seed(0)
    sparse = torch.rand(n, f, generator=g) * (torch.rand(n, f, generator=g) < 0.02)
    return {
        "distinct": torch.rand(n, f, generator=g),
        "constant": torch.zeros(n, f),
        "nearly all zero": sparse,
        "quantised": torch.rand(n, f, generator=g).mul(8).floor(),
        "negative": -torch.rand(n, f, generator=g),
    }


@pytest.mark.parametrize("kind", maps_of_all_kinds())
@pytest.mark.parametrize("fraction", [0.0, *FRACTIONS, 1.0])
def test_exactly_the_rounded_share_is_removed_whatever_the_map(kind, fraction):
    maps = maps_of_all_kinds()[kind].view(6, 10, 10)
    gone = removed(maps, fraction)
    assert (gone.sum((1, 2)) == round(fraction * 100)).all()


@pytest.mark.parametrize("kind", maps_of_all_kinds())
def test_nothing_kept_is_more_important_than_anything_removed(kind):
    scores = maps_of_all_kinds()[kind]
    gone = removed(scores.view(6, 10, 10), 0.3).flatten(1)
    for score, g in zip(scores, gone, strict=True):
        assert score[g].min() >= score[~g].max()


def test_larger_fractions_contain_smaller_ones():
    maps = maps_of_all_kinds()["quantised"].view(6, 10, 10)
    masks = [removed(maps, t, seed=4) for t in FRACTIONS]
    assert all((small & ~large).sum() == 0 for small, large in zip(masks, masks[1:], strict=False))


def test_ties_are_broken_at_random_but_the_same_for_a_seed_and_any_batch():
    flat = torch.zeros(50, 10, 10)
    a = removed(flat, 0.5, seed=1)
    assert torch.equal(a, removed(flat, 0.5, seed=1))
    assert not torch.equal(a, removed(flat, 0.5, seed=2))
    assert torch.equal(a[7:9], removed(flat[7:9], 0.5, seed=1, index=[7, 8]))
    # every pixel goes about half the time: no corner is preferred
    assert ((a.double().mean(0) - 0.5).abs() < 0.3).all()


def test_equal_pixels_are_the_only_ones_reordered():
    scores = torch.tensor([[3.0, 1.0, 1.0, 2.0, 1.0]])
    for seed in range(10):
        order = ranks(scores, Draws.of(seed, 1))[0].tolist()
        assert order[0] == 0 and order[3] == 1
        assert sorted(order) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("kind", maps_of_all_kinds())
def test_ranks_equal_a_slow_sort(kind):
    scores = maps_of_all_kinds()[kind]
    draws = Draws.of(9, len(scores))
    fast = ranks(scores, draws)
    shuffles = draws.permutations("ties", scores.shape[1])
    for row, (score, shuffle) in enumerate(zip(scores.tolist(), shuffles.tolist(), strict=True)):
        place = {feature: i for i, feature in enumerate(shuffle)}
        has_ties = len(set(score)) < len(score)
        order = sorted(range(len(score)), key=lambda f: (-score[f], place[f] if has_ties else 0))
        assert [int(fast[row, feature]) for feature in order] == list(range(len(score)))


def test_the_share_of_ties_counts_what_only_the_tie_break_decided():
    scores = torch.tensor([[5.0, 4, 3, 3, 3, 3, 2, 1, 1, 0], [0.0] * 10, [9.0, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    shares = tie_share(scores, [0.2, 0.3, 0.5, 0.8, 1.0])
    expected = [[0, 0.4, 0.4, 0.2, 0], [1, 1, 1, 1, 0], [0, 0, 0, 0, 0]]
    torch.testing.assert_close(shares, torch.tensor(expected))


@pytest.mark.parametrize("fractions", [(0.3,), FRACTIONS, (0.0, 0.5, 1.0), tuple(i / 20 for i in range(21))])
def test_levels_serve_every_fraction_exactly(fractions):
    places, kinds = ranks(maps_of_all_kinds()["distinct"], Draws.of(0, 6)), len(fractions) + 1
    packed = pack_levels(levels_of(places, fractions), kinds)
    levels = torch.from_numpy(unpack_levels(packed, kinds, 100)).view(6, 10, 10)
    for i, t in enumerate(fractions):
        assert torch.equal(levels <= i, removed_at(places, t, (10, 10)))


def test_levels_of_six_fractions_take_at_most_an_eighth_of_a_float_map():
    places = ranks(torch.rand(64, 32 * 32), Draws.of(0, 64))
    assert pack_levels(levels_of(places, FRACTIONS), 7).nbytes <= 64 * 32 * 32 * 4 / 8


def test_nan_and_infinity_are_counted_and_named():
    scores = torch.rand(4, 9)
    scores[1, 3] = torch.nan
    scores[3, 0] = torch.inf
    with pytest.raises(BadMap, match=r"mine has NaN or infinite values in 2 of 4 images \(first: image 8\)"):
        ranks(scores, Draws.of(0, [7, 8, 9, 10]), "mine")


@pytest.mark.parametrize("fraction", [-0.1, 1.2, float("nan")])
def test_a_fraction_outside_0_to_1_is_refused(fraction):
    with pytest.raises(BadInput, match="between 0 and 1"):
        count(fraction, 10)


def test_channel_values_can_be_ranked_on_their_own():
    maps = torch.rand(3, 2, 4, 4)
    gone = removed(maps, 0.25)
    assert gone.shape == (3, 2, 4, 4)
    assert (gone.sum((1, 2, 3)) == 8).all()
    x = torch.rand(3, 2, 4, 4)
    changed = fill(x, gone, "zero")
    assert torch.equal(changed == 0, gone)


def test_maps_of_a_wrong_shape_are_refused():
    with pytest.raises(BadShape, match=r"\(n, h, w\)"):
        removed(torch.rand(4, 4), 0.5)


def test_long_maps_are_sorted_as_short_ones_are():
    """Above a length scores are sorted as whole numbers: signs, zeros and the smallest numbers must keep their order."""
    draw = torch.Generator().manual_seed(3)
    long = order.LONG + 1
    rows = torch.stack(
        [
            torch.randn(long, generator=draw),
            torch.randn(long, generator=draw).round(decimals=1),
            torch.tensor([0.0, -0.0, 1e-45, -1e-45, 3.4e38, -3.4e38]).repeat(long)[:long],
        ]
    )
    expected = rows.argsort(dim=1, descending=True, stable=True)
    assert torch.equal(order._falling(rows), expected)
