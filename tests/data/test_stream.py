"""Images that are read, not held: the same numbers as from memory, decoded once, never half."""

import errno
import os
import warnings

import numpy as np
import pytest
import torch
from PIL import Image

from uproar.data import Pictures, Source, Split, Task
from uproar.data import task as task_module
from uproar.data.stream import CentreCrop, PixelCache, cache_folder
from uproar.errors import BadInput


class Made(Source):
    """Images of a tensor, with a record of what was asked for."""

    def __init__(self, pixels):
        self.pixels, self.most = pixels, 0

    @property
    def shape(self):
        return tuple(self.pixels.shape)

    def read(self, rows):
        self.most = max(self.most, len(rows))
        return self.pixels[rows]

    def digest(self):
        return "made"


def split(images, n, name="train"):
    return Split(name, images, torch.arange(n) % 4)


@pytest.fixture
def pixels():
    return torch.randint(0, 256, (40, 3, 8, 8), generator=torch.Generator().manual_seed(1)).byte()


def both(pixels):
    classes = tuple("abcd")
    held = Task("t", split(pixels, 40), split(pixels[:8], 8, "test"), classes)
    read = Task("t", split(Made(pixels), 40), split(Made(pixels[:8]), 8, "test"), classes)
    return held, read


def test_a_read_task_is_the_task_in_memory(pixels, monkeypatch):
    monkeypatch.setattr(task_module, "READ", 7 * 3 * 64)
    held, read = both(pixels)
    assert torch.equal(held.mean, read.mean) and torch.equal(held.std, read.std)
    assert read.train.images.most <= 7
    exact = pixels.double() / 255
    assert torch.allclose(read.mean.double(), exact.mean((0, 2, 3)), atol=1e-6)
    assert torch.allclose(read.std.double(), exact.std((0, 2, 3), correction=0), atol=1e-6)
    some = torch.tensor([5, 5, 0, 39])
    assert torch.equal(held.train.read(some), read.train.read(some))
    assert torch.equal(held.train.read([3, -1]), read.train.read([3, -1]))
    small, other = held.limited(6), read.limited(6)
    assert torch.equal(small.train.read(slice(None)), other.train.read(slice(None)))
    assert torch.equal(small.train.labels, other.train.labels)
    assert other.train.streams and not small.train.streams
    assert read.fingerprint == both(pixels)[1].fingerprint != other.fingerprint


def test_mean_of_a_large_set_is_taken_from_evenly_spaced_images(pixels, monkeypatch):
    monkeypatch.setattr(task_module, "MOMENT_VALUES", 4 * 3 * 64)
    _, read = both(pixels)
    expected = (pixels[[0, 13, 26, 39]].double() / 255).mean((0, 2, 3))
    assert torch.allclose(read.mean.double(), expected, atol=1e-6)


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.setenv("UPROAR_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(0)
    places = []
    for i, (high, wide) in enumerate([(20, 30), (30, 20), (9, 9), (40, 41)]):
        small = draw.integers(0, 256, (5, 5, 3), dtype=np.uint8)
        places.append(tmp_path / f"{i}.png")
        Image.fromarray(small).resize((wide, high)).save(places[-1])
    return places


def test_pictures_are_scaled_and_cut_from_the_middle(photos):
    got = Pictures(photos, 8, shorter=10)[:]
    assert got.shape == (4, 3, 8, 8) and got.dtype == torch.uint8
    for pixels, place in zip(got, photos, strict=True):
        with Image.open(place) as file:
            wide, high = (10 * file.width // min(file.size), 10 * file.height // min(file.size))
            scaled = np.asarray(file.resize((wide, high), Image.Resampling.BILINEAR))
        left, top = round((wide - 8) / 2), round((high - 8) / 2)
        assert np.array_equal(pixels.permute(1, 2, 0).numpy(), scaled[top : top + 8, left : left + 8])


def test_pictures_are_decoded_once(photos, monkeypatch):
    first = Pictures(photos, 8)[[2, 0, 2]]
    monkeypatch.setattr(CentreCrop, "picture", lambda *_: pytest.fail("decoded again"))
    again = Pictures(photos, 8)
    assert torch.equal(again[[2, 0, 2]], first)
    assert torch.equal(again[torch.tensor([0])], first[1:2])


def test_changed_files_and_damaged_records_are_decoded_again(photos):
    before = Pictures(photos, 8)
    clean, name = before[:], before.digest()
    (file,) = (cache_folder() / "pictures").glob("*.pixels")
    content = bytearray(file.read_bytes())
    content[5] ^= 1
    file.write_bytes(content)
    assert torch.equal(Pictures(photos, 8)[:], clean)
    with Image.open(photos[0]) as picture:
        picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT).save(photos[0])
    after = Pictures(photos, 8)
    assert not torch.equal(after[:1], clean[:1]) and torch.equal(after[1:], clean[1:])
    assert after.digest() != name


def test_a_digest_is_of_contents_not_of_places(photos, tmp_path):
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    copies = [moved / place.name for place in photos]
    for place, copy in zip(photos, copies, strict=True):
        copy.write_bytes(place.read_bytes())
    name = Pictures(photos, 8).digest()
    assert Pictures(copies, 8).digest() == name == Pictures(photos, 8).digest()
    assert Pictures(copies[::-1], 8).digest() != name != Pictures(photos, 9).digest()
    assert Pictures(photos, 8).take(torch.tensor([1, 3])).digest() == Pictures([copies[1], copies[3]], 8).digest()


def test_a_full_disk_switches_the_cache_off(photos, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    source = Pictures(photos, 8, threads=1)
    with pytest.warns(UserWarning, match=r"No space left on device.*UPROAR_CACHE"):
        first = source[:]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert torch.equal(source[:], first)


def test_the_cache_can_be_switched_off(photos, tmp_path, monkeypatch):
    monkeypatch.setenv("UPROAR_CACHE", "off")
    assert cache_folder() is None
    assert Pictures(photos, 8)[:].shape[0] == 4 and len(Pictures(photos, 8).digest()) == 40
    assert not (tmp_path / "cache").exists()


def test_two_writers_share_one_cache(tmp_path):
    one, two = (PixelCache(tmp_path / "c" / "x.pixels", (1, 2, 2)) for _ in range(2))
    pixels = np.arange(4, dtype=np.uint8).reshape(1, 2, 2)
    two.put(3, pixels)
    assert np.array_equal(one.get(3), pixels) and one.get(0) is None and one.get(9) is None


@pytest.mark.parametrize(("mode", "value"), [("L", 128), ("I;16", 128 * 257), ("RGBA", (128, 128, 128, 255)), ("P", 3)])
def test_every_mode_becomes_three_colours(tmp_path, mode, value, monkeypatch):
    monkeypatch.setenv("UPROAR_CACHE", "off")
    picture = Image.new(mode, (12, 10), value)
    if mode == "P":
        picture.putpalette([128] * 768)
    picture.save(tmp_path / "x.png")
    assert bool((Pictures([tmp_path / "x.png"], 8)[:] == 128).all())


def test_a_picture_is_turned_upright(tmp_path, monkeypatch):
    monkeypatch.setenv("UPROAR_CACHE", "off")
    pixels = np.zeros((8, 8, 3), np.uint8)
    pixels[:4] = 255
    exif = Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(pixels).save(tmp_path / "x.png", exif=exif)
    got = Pictures([tmp_path / "x.png"], 8, shorter=8)[:][0, 0]
    assert bool((got[:4] == 0).all()) and bool((got[4:] == 255).all())


def test_bad_pictures_are_named(photos, tmp_path):
    torn = tmp_path / "torn.jpg"
    Image.new("RGB", (64, 64), (9, 80, 9)).save(torn)
    torn.write_bytes(torn.read_bytes()[:400])
    with pytest.raises(BadInput, match=r"torn.jpg cannot be decoded .*replace the file"):
        Pictures([*photos, torn], 8)[:]
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(BadInput, match=r"text.png cannot be decoded"):
        Pictures([tmp_path / "text.png"], 8)[:]
    with pytest.raises(BadInput, match=r"gone.png is not there"):
        Pictures([tmp_path / "gone.png"], 8).digest()
    with pytest.raises(BadInput, match="no pictures"):
        Pictures([], 8)
    with pytest.raises(BadInput, match="at least 8"):
        Pictures(photos, 8, shorter=7)


def test_boxes_follow_the_framing():
    crop = CentreCrop(8, shorter=10)
    # 20 x 40 becomes 10 x 20, of which columns 1..8 and rows 6..13 stay
    assert crop.box((4, 16, 15, 23), 20, 40) == (1, 2, 6, 5)
    assert crop.box((0, 0, 19, 39), 20, 40) == (0, 0, 7, 7)
