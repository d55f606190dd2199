import torch

from uproar.seeds import Draws, generator, key


def test_numbers_follow_the_sample_not_its_place_in_the_batch():
    whole = Draws.of(3, 10)
    for purpose in ("noise", "ties"):
        a = whole.normal(purpose, 2, 4)
        assert torch.equal(a[5:8], whole[5:8].normal(purpose, 2, 4))
        assert torch.equal(a[[7, 2]], Draws.of(3, [7, 2]).normal(purpose, 2, 4))


def test_seed_split_purpose_and_copy_all_matter():
    base = Draws.of(0, 1).uniform("a", 8)
    others = [
        Draws.of(1, 1).uniform("a", 8),
        Draws.of(0, 1, "train").uniform("a", 8),
        Draws.of(0, 1).uniform("b", 8),
        Draws.of(0, 1).copies(range(1)).uniform("a", 8),
    ]
    assert all(not torch.equal(base, other) for other in others)


def test_copies_of_a_sample_do_not_depend_on_which_other_copies_are_made():
    draws = Draws.of(0, 2)
    all_five = draws.copies(range(5)).normal("n", 3).view(2, 5, 3)
    assert torch.equal(all_five[:, 3:5], draws.copies(range(3, 5)).normal("n", 3).view(2, 2, 3))


def test_permutations_are_permutations():
    orders = Draws.of(0, 6).permutations("ties", 9)
    assert torch.equal(orders.sort(1).values, torch.arange(9).expand(6, 9))


def test_the_global_generator_is_left_alone():
    before = torch.random.get_rng_state()
    Draws.of(0, 4).normal("x", 3)
    torch.rand(2, generator=generator(0, "y"))
    assert torch.equal(before, torch.random.get_rng_state())


def test_a_key_has_63_bits_and_mixes_types():
    assert 0 <= key("a", 1, None, 0.5) < 2**63
    assert key(1) != key("1")


def test_streams_are_keyed_by_seed_purpose_split_and_row():
    """Said again by `key`: results of earlier versions are kept under these numbers."""
    draws = Draws.of(3, [5, 70], 'té"st').copies([0, 11])
    expected = [torch.Generator().manual_seed(key(3, "a 'purpose'", 'té"st', row)) for row in draws.rows]
    for own, other in zip(draws.streams("a 'purpose'"), expected, strict=True):
        assert torch.equal(torch.rand(4, generator=own), torch.rand(4, generator=other))
