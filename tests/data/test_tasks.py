import numpy as np
import pytest
import torch

from uproar.data import Split, Task, load
from uproar.data.planted import glyph_shapes
from uproar.errors import BadInput, BadShape, UnknownName


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    theirs = load_digits()
    task = load("digits")
    ours = torch.cat([task.train.images, task.test.images]).flatten(1) * 16
    a = np.sort(ours.numpy() @ np.arange(1, 65) + 1e4 * torch.cat([task.train.labels, task.test.labels]).numpy())
    b = np.sort(theirs.data @ np.arange(1, 65) + 1e4 * theirs.target)
    np.testing.assert_allclose(a, b)


def test_the_clothes_are_whole_and_balanced():
    task = load("fashion-small")
    assert (task.train.images.shape, task.test.images.shape) == ((2000, 1, 28, 28), (500, 1, 28, 28))
    assert task.train.labels.bincount().tolist() == [200] * 10 and task.test.labels.bincount().tolist() == [50] * 10
    assert task.classes[9] == "ankle boot" and task.mean.item() == pytest.approx(0.286, abs=0.01)


def test_the_split_of_digits_is_fixed_and_balanced():
    task = load("digits")
    again = load("digits")
    assert task.fingerprint == again.fingerprint
    assert (len(task.train), len(task.test)) == (1438, 359)
    share = torch.bincount(task.test.labels) / torch.bincount(torch.cat([task.train.labels, task.test.labels]))
    assert (share - 0.2).abs().max() < 0.005
    assert load("digits(test=0.3)").fingerprint != task.fingerprint


def test_planted_pixels_alone_decide_the_class():
    task = load("planted(size=12, channels=3, train=64, test=32)")
    shapes = glyph_shapes(4)
    for split in (task.train, task.test):
        assert split.images.shape[1:] == (3, 12, 12)
        assert split.images.min() >= 0 and split.images.max() <= 1
        assert torch.equal(split.masks.sum((1, 2)), torch.full((len(split),), 9))
        for i in range(len(split)):
            x0, y0, x1, y1 = split.boxes[i].tolist()
            assert torch.equal(split.masks[i, y0 : y1 + 1, x0 : x1 + 1], shapes[split.labels[i]])
            glyph, rest = split.images[i][:, split.masks[i]], split.images[i][:, ~split.masks[i]]
            assert glyph.min() > rest.max()


def test_boxes_become_masks_with_both_borders_inside():
    split = Split("test", torch.zeros(1, 1, 5, 6), torch.zeros(1, dtype=torch.long), boxes=torch.tensor([[1, 2, 3, 4]]))
    truth = split.truth(slice(0, 1))[0]
    assert truth.sum() == 9
    assert truth[2, 1] and truth[4, 3] and not truth[1, 1] and not truth[2, 4]


def test_bytes_are_read_as_shares_of_255():
    split = Split("train", torch.tensor([[[[0, 51, 255]]]], dtype=torch.uint8), torch.zeros(1, dtype=torch.long))
    assert torch.allclose(split.read(slice(None)), torch.tensor([[[[0.0, 0.2, 1.0]]]]))


def test_mean_and_deviation_are_those_of_the_training_images_alone():
    task = load("planted(channels=3, train=40, test=8)")
    torch.testing.assert_close(task.mean, task.train.images.mean((0, 2, 3)))
    torch.testing.assert_close(task.std, task.train.images.permute(1, 0, 2, 3).flatten(1).std(1, correction=0))


def test_a_limit_keeps_the_classes_balanced():
    task = load("digits").limited(25)
    assert len(task.train) == len(task.test) == 25
    assert set(torch.bincount(task.train.labels).tolist()) == {2, 3}
    assert task.fingerprint != load("digits").fingerprint


def _split(labels, shape=(1, 4, 4), name="train"):
    return Split(name, torch.zeros(len(labels), *shape), torch.tensor(labels))


@pytest.mark.parametrize(
    ("train", "test", "error", "sentence"),
    [
        (_split([0, 1]), _split([0, 2]), BadInput, "labels run from 0 to 2, but there are 2 classes"),
        (_split([0, 0]), _split([0, 1]), BadInput, "class 'b' has no train images"),
        (_split([0, 1]), _split([0, 1], (1, 5, 5)), BadShape, "test images"),
        (
            _split([0, 1]),
            Split("test", torch.zeros(0, 1, 4, 4), torch.zeros(0, dtype=torch.long)),
            BadInput,
            "no images",
        ),
    ],
)
def test_a_task_that_cannot_be_learned_is_refused(train, test, error, sentence):
    with pytest.raises(error, match=sentence):
        Task("t", train, test, ("a", "b"))


def test_images_and_labels_must_agree():
    with pytest.raises(BadShape, match="3 images but 2 labels"):
        Split("train", torch.zeros(3, 1, 4, 4), torch.zeros(2, dtype=torch.long))
    with pytest.raises(BadShape, match=r"\(n, c, h, w\)"):
        Split("train", torch.zeros(3, 4, 4), torch.zeros(3, dtype=torch.long))


def test_unknown_tasks_and_options_are_refused():
    with pytest.raises(UnknownName, match="digits"):
        load("digit")
    with pytest.raises(BadInput, match="takes no option 'sice'"):
        load("planted(sice=3)")
    with pytest.raises(BadInput, match="takes options"):
        load("planted(digits)")
