"""The sets of photographs in their official layouts, the boxes after cropping, and what bad files get."""

from __future__ import annotations

import re

import pytest
import torch
from PIL import Image

import uproar
from tests.data.layouts import (
    BOX,
    WNIDS,
    write_birdsnap,
    write_box_file,
    write_cub,
    write_food,
    write_imagenet,
    write_lines,
    write_picture,
    write_tiny_imagenet,
)
from uproar.data import load
from uproar.data.download import verify
from uproar.errors import BadInput, BadOption
from uproar.study.spec import study_of


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty place without the user's own data, and no cache of pixels."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UPROAR_CACHE", "off")
    monkeypatch.delenv("UPROAR_DATA", raising=False)
    return tmp_path


def boxes_fit(split) -> None:
    """The white rectangle of every picture is where the truth says, up to the blurred border."""
    white = split.read(slice(None)).mean(1) > 0.6
    truth = split.truth(slice(None))
    assert white.any((1, 2)).all()
    overlap = (white & truth).sum((1, 2)) / (white | truth).sum((1, 2))
    assert overlap.min() > 0.8


def test_cub_has_the_official_split_names_and_boxes(here):
    write_cub(here / "data" / "CUB_200_2011")
    task = load("cub200(size=32)")
    assert task.classes == ("Black footed Albatross", "Laysan Albatross")
    assert task.train.labels.tolist() == [0, 0, 1, 1] and task.test.labels.tolist() == [0, 1]
    levels = task.train.read(slice(None))[:, 0, 0, 0] * 255
    assert levels.round().tolist() == [10, 20, 40, 50], "images 3 and 6 are the test images"
    boxes_fit(task.train)
    boxes_fit(task.test)
    assert len(load("cub200(size=32, train=2, test=2)").train) == 2


def test_boxes_follow_the_framing_and_one_outside_the_frame_is_no_truth(here):
    write_cub(here / "CUB_200_2011")
    for shorter in (24, 36, 50):
        boxes_fit(load(f"cub200(root=., size=24, shorter={shorter})").test)
    boxes_fit(load("cub200(root=., size=64)").test)  # larger than the photos: they are enlarged
    lines = [f"{n} 0.0 0.0 3.0 3.0" for n in range(1, 7)]
    write_lines(here / "CUB_200_2011" / "bounding_boxes.txt", *lines)
    assert not load("cub200(root=., size=24, shorter=36)").test.truth(slice(None)).any()


def test_a_turned_photo_and_its_box_are_upright(here):
    write_cub(here / "CUB_200_2011")
    file = sorted((here / "CUB_200_2011" / "images").rglob("*.jpg"))[2]  # a test image
    with Image.open(file) as picture:
        upright = picture.copy()
    exif = Image.Exif()
    exif[0x0112] = 6
    upright.rotate(90, expand=True).save(file, "PNG", exif=exif)
    boxes_fit(load("cub200(root=., size=32)").test)


def test_food_is_split_by_its_lists(here):
    write_food(here / "data" / "food-101")
    task = load("food101(size=16)")
    assert task.classes == ("apple pie", "paella")
    assert (task.train.labels.tolist(), task.test.labels.tolist()) == ([0, 0, 1, 1], [0, 1])
    assert task.shape == (3, 16, 16)


def test_birdsnap_is_what_of_it_was_found(here):
    folder = here / "data" / "birdsnap"
    write_birdsnap(folder)
    with pytest.raises(BadInput, match="none of its photos"):
        load("birdsnap")
    for bird in ("Acadian_Flycatcher", "Acorn_Woodpecker"):
        for i in (0, 2):
            write_picture(folder / "download" / "images" / bird / f"{i}.jpg")
    task = load("birdsnap(size=32)")
    assert task.classes == ("Acadian Flycatcher", "Acorn Woodpecker")
    assert (task.train.labels.tolist(), task.test.labels.tolist()) == ([0, 1], [0, 1])
    boxes_fit(task.test)


def test_tiny_imagenet_counts_classes_as_its_list_does(here):
    write_tiny_imagenet(here / "data" / "tiny-imagenet-200")
    task = load("tiny-imagenet")
    assert task.classes == ("frog", "crane")
    assert task.test.labels.tolist() == [0, 1] and task.shape == (3, 64, 64)
    assert task.test.boxes.tolist() == [list(BOX)] * 2, "at its own size nothing moves"
    boxes_fit(load("tiny-imagenet(size=32)").train)


def test_tiny_imagenet_keeps_the_classes_asked_for_in_their_order(here):
    folder = here / "data" / "tiny-imagenet-200"
    write_tiny_imagenet(folder, ("n02", "n01", "n03"))
    task = load("tiny-imagenet(only=[n03, n02])")
    assert task.classes == ("crane", "frog"), "the other crane is no class of this task"
    levels = task.train.read(slice(None))[:, 0, 0, 0] * 255
    assert task.train.labels.tolist() == [0, 0, 1, 1] and levels.round().tolist() == [30, 30, 20, 20]
    assert task.test.labels.tolist() == [1, 0], "in the order of the table, without the second"
    assert [path[-10:] for path in task.test.images.paths] == ["val_0.JPEG", "val_2.JPEG"]
    assert task.test.boxes.tolist() == [list(BOX)] * 2
    every = load("tiny-imagenet(only=[n02, n01, n03])")
    assert every.fingerprint == load("tiny-imagenet").fingerprint != task.fingerprint
    assert [len(load("tiny-imagenet(only=[n03, n02], train=2)").train), len(task.train)] == [2, 4]
    # with these classes alone on the disk it is the same task
    write_tiny_imagenet(here / "some" / "tiny-imagenet-200", ("n02", "n01", "n03"), ("n02", "n03"))
    assert load("tiny-imagenet(only=[n03, n02], root=some)").fingerprint == task.fingerprint


@pytest.mark.parametrize(
    ("only", "said"),
    [
        ("[n01, n07, n08]", "only= names n07, n08, but wnids.txt in .* has no such class"),
        ("[n01]", r"only must name at least two classes, each once, not \('n01',\)"),
        ("[n01, n02, n01]", "only must name at least two classes, each once"),
        ("[1, 2]", r"only must be a text, not \(1, 2\)"),
    ],
)
def test_classes_that_tiny_imagenet_cannot_keep_get_one_sentence(here, only, said):
    write_tiny_imagenet(here / "data" / "tiny-imagenet-200")
    with pytest.raises(BadOption, match=said):
        load(f"tiny-imagenet(only={only})")


@pytest.mark.parametrize("labels", ["folders", "solution", "kit"])
def test_imagenet_finds_the_labels_of_its_validation_photos(here, labels):
    write_imagenet(here / "data" / "imagenet", labels)
    task = load("imagenet(size=32)")
    by_file = {
        path[-10:-5]: label for path, label in zip(task.test.images.paths, task.test.labels.tolist(), strict=True)
    }
    assert by_file == {"00001": 1, "00002": 0, "00003": 1, "00004": 0}
    assert task.train.labels.tolist() == [0, 0, 1, 1]
    assert task.classes == (("tench", "goldfish") if labels == "solution" else WNIDS)
    if labels == "kit":
        boxes_fit(task.test)
    else:
        assert task.test.truth(slice(None)) is None


def test_several_boxes_of_a_photos_own_class_are_its_truth_together(here):
    write_imagenet(here / "data" / "imagenet", "folders")
    place = here / "data" / "imagenet" / "bbox" / "val"
    far, other = (4, 4, 7, 7), (40, 4, 45, 9)
    write_box_file(place / "ILSVRC2012_val_00000001.xml", [(WNIDS[1], BOX), (WNIDS[1], far), (WNIDS[0], other)])
    task = load("imagenet(size=36, shorter=36)")
    truth = task.test.truth(slice(None))
    row = [path[-10:-5] for path in task.test.images.paths].index("00001")
    left = (48 - 36) // 2
    assert truth[row, BOX[1], BOX[0] - left] and truth[row, far[1], far[2] - left]
    assert not truth[row, other[1], 35]
    area = (BOX[2] - BOX[0] + 1) * (BOX[3] - BOX[1] + 1)
    assert int(truth[row].sum()) == area + 4 * 2, "of the far box two columns are inside the frame"
    assert int(truth.any((1, 2)).sum()) == 1, "photos without a box file have no truth"


def test_a_tree_of_class_folders_is_split_for_good(here):
    for name, count in (("cat", 10), ("dog", 5)):
        for i in range(count):
            write_picture(here / "pets" / name / ("more" if i % 2 else "") / f"{i}.png", i)
    write_lines(here / "pets" / "cat" / ".hidden.png", "x")
    write_lines(here / "pets" / "cat" / "notes.txt", "x")
    task = load("folder(root=pets, size=16)")
    assert (len(task.train), torch.bincount(task.test.labels).tolist()) == (12, [2, 1])
    assert task.classes == ("cat", "dog")
    before = task.fingerprint
    (here / "moved").mkdir()
    (here / "pets").rename(here / "moved" / "animals")
    assert load("folder(root=moved/animals, size=16)").fingerprint == before


def test_a_tree_with_its_own_split_keeps_it(here):
    for split, counts in (("train", (3, 2)), ("val", (1, 2))):
        for name, count in zip(("cat", "dog"), counts, strict=True):
            for i in range(count):
                write_picture(here / "pets" / split / name / f"{i}.png", i)
    task = load("folder(root=pets, size=16)")
    assert (torch.bincount(task.train.labels).tolist(), torch.bincount(task.test.labels).tolist()) == ([3, 2], [1, 2])
    write_picture(here / "pets" / "val" / "bird" / "1.png")
    with pytest.raises(BadInput, match="class 'bird' is in val but not in train"):
        load("folder(root=pets)")


def test_a_table_gives_files_labels_splits_and_boxes(here):
    rows = []
    for i in range(8):
        write_picture(here / "photos" / "images" / f"p{i}.png", 10 * i)
        box = ",".join(map(str, BOX)) if i != 7 else ",,,"
        rows.append(f"p{i},{'cat' if i % 2 else 'dog'},{'test' if i > 4 else 'train'},{box}")
    write_lines(here / "photos" / "list.csv", "file,kind,split,x0,y0,x1,y1", *rows)
    task = load("folder(root=photos, csv=list.csv, image=file, label=kind, size=32)")
    assert task.classes == ("cat", "dog")
    assert task.train.labels.tolist() == [1, 0, 1, 0, 1] and task.test.labels.tolist() == [0, 1, 0]
    boxes_fit(task.train)
    assert not task.test.truth(slice(2, 3)).any()
    with pytest.raises(BadInput, match="has no column 'image' but file, kind, .*image="):
        load("folder(root=photos, csv=list.csv)")


TABLE = [
    "p0,1,0,2.5,cat",
    "p1,0,yes,-1,dog;cat",
    "p2,1,1,0.25,",
    "p3,0,0,4,dog",
    "p4,1,no,7,cat",
    "p5,0,1,1e1,cat; dog",
]


@pytest.fixture
def listed(here):
    for i in range(6):
        write_picture(here / "photos" / f"p{i}.png", 20 * i)
    write_lines(
        here / "photos" / "list.csv",
        "image,round,red,age,label,split",
        *(f"{r},{s}" for r, s in zip(TABLE, SPLITS, strict=True)),
    )
    return here


SPLITS = ["train", "test", "train", "test", "test", "train"]


def test_a_table_may_hold_several_labels_or_values_of_a_picture(listed):
    task = load("folder(root=photos, csv=list.csv, labels=[round, red], size=16)")
    assert (task.kind, task.classes) == ("sigmoid", ("round", "red"))
    assert task.train.labels.tolist() == [[1, 0], [1, 1], [0, 1]]
    assert task.test.labels.tolist() == [[0, 1], [0, 0], [1, 0]]
    values = load("folder(root=photos, csv=list.csv, values=[age], size=16, test=2)")
    assert (values.kind, values.classes) == ("regression", ("age",))
    assert values.train.labels.tolist() == [[2.5], [0.25], [10.0]]
    assert values.test.labels.tolist() == [[-1.0], [4.0]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("labels=[round, age]", "line 2: the label 'age' must be 0 or 1, not '2.5'"),
        ("values=[red]", "line 3: 'red' must be a number, not 'yes'"),
        ("labels=[blue]", "has no column 'blue' but image, round, red, age, label, split; say which with labels="),
        ("labels=[red], values=[age]", "labels= and values= say different things of the labels"),
    ],
)
def test_columns_that_are_no_labels_are_refused_in_a_sentence(listed, options, message):
    with pytest.raises(BadInput, match=re.escape(message)):
        load(f"folder(root=photos, csv=list.csv, size=16, {options})")
    with pytest.raises(BadInput, match="labels= says what a table holds"):
        load("folder(root=photos, labels=[red])")


def test_labels_of_a_given_network_are_numbers_and_may_be_few(here):
    for i in range(6):
        write_picture(here / "photos" / f"p{i}.png", 10 * i)
    write_lines(here / "photos" / "list.csv", "image,label", *(f"p{i},{200 * i}" for i in range(6)))
    task = load("folder(root=photos, csv=list.csv, classes=1001, share=0.5, size=16)")
    assert len(task.classes) == 1001 and (len(task.train), len(task.test)) == (3, 3)
    labels = sorted(task.train.labels.tolist() + task.test.labels.tolist())
    assert labels == [0, 200, 400, 600, 800, 1000]
    with pytest.raises(BadInput, match="line 7: the label '1000' is not one of 0 to 999. Are they counted from 1"):
        load("folder(root=photos, csv=list.csv, classes=1000)")
    with pytest.raises(BadInput, match="line 2: the label '0' is not one of 1 to 1000"):
        load("folder(root=photos, csv=list.csv, classes=1000, first=1)")


def _empty_class(place):
    (place / "bird").mkdir()


def _one_class(place):
    for file in (place / "dog").iterdir():
        file.unlink()
    (place / "dog").rmdir()


@pytest.mark.parametrize(
    ("spoil", "name", "said"),
    [
        (_empty_class, "folder(root=pets)", "The class folder .*bird has no pictures; fill it or remove it"),
        (_one_class, "folder(root=pets)", "has 1 class folders; a task needs at least two"),
        (None, "folder(root=cats)", "There is no folder cats; looked in"),
        (None, "folder(root=pets, csv=list.csv)", "There is no table"),
        (None, "folder(root=pets, classes=10)", "needs a table"),
        (None, "folder(root=pets, size=16, shorter=8)", "cannot be scaled to 8 and then give 16"),
    ],
)
def test_a_folder_that_cannot_be_used_gets_one_sentence(here, spoil, name, said):
    for kind in ("cat", "dog"):
        for i in range(2):
            write_picture(here / "pets" / kind / f"{i}.png")
    if spoil is not None:
        spoil(here / "pets")
    with pytest.raises(BadInput, match=said):
        load(name)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        (["cat.png,cat,train", "none.png,dog,test"], "line 3: there is no picture 'none.png'"),
        (["cat.png,cat,train", "cat.png,,test"], "line 3: there is no label"),
        (["cat.png,cat,train", "cat.png,dog,later"], "line 3: the split must be train or test, not 'later'"),
        (["cat.png,cat,train", "cat.png,cat,test"], "has 1 classes; a task needs at least two"),
        (["cat.png,cat,train", "cat.png,dog,test", "cat.png,dog,train"], "class 'cat' has no test images, but train"),
        (["cat.png,cat,train", "cat.png,cat,test", "cat.png,dog,test"], "class 'dog' has no train images, but test"),
        (["../cat.png,cat,train", "cat.png,dog,test"], "names '../cat.png', which is outside of it"),
    ],
)
def test_a_table_that_cannot_be_used_gets_one_sentence(here, rows, said):
    write_picture(here / "pets" / "cat.png")
    write_picture(here / "cat.png")
    write_lines(here / "pets" / "list.csv", "image,label,split", *rows)
    with pytest.raises(BadInput, match=said):
        load("folder(root=pets, csv=list.csv)")


def test_official_lists_that_contradict_themselves_get_one_sentence(here):
    write_cub(here / "CUB_200_2011")
    folder = here / "CUB_200_2011"
    write_lines(folder / "image_class_labels.txt", *(f"{n} {n % 2}" for n in range(1, 7)))
    with pytest.raises(BadInput, match="image 2: there is no class '0' but 1, 2"):
        load("cub200(root=.)")
    write_lines(folder / "image_class_labels.txt", "1 1")
    with pytest.raises(BadInput, match="image 2 .* has no label or no split"):
        load("cub200(root=.)")
    write_lines(folder / "bounding_boxes.txt", "1 2 3")
    with pytest.raises(BadInput, match="entry 1: expected 5 columns"):
        load("cub200(root=.)")
    write_food(here / "food-101")
    write_lines(here / "food-101" / "meta" / "test.txt", "pizza/1")
    with pytest.raises(BadInput, match="test.txt: there is no class 'pizza' but apple_pie, paella"):
        load("food101(root=.)")
    write_tiny_imagenet(here / "tiny-imagenet-200")
    write_lines(here / "tiny-imagenet-200" / "val" / "val_annotations.txt", "val_0.JPEG n07 0 0 1 1")
    with pytest.raises(BadInput, match="val_0.JPEG: there is no class 'n07' but"):
        load("tiny-imagenet(root=.)")


def test_imagenet_without_labels_or_with_wrong_ones_gets_one_sentence(here):
    write_imagenet(here / "imagenet", "kit")
    truth = here / "imagenet" / "ILSVRC2012_devkit_t12" / "data" / "ILSVRC2012_validation_ground_truth.txt"
    for lines, said in (
        (("0", "1", "0", "1"), "00001.JPEG: there is no class '0' but n01440764, n01443537"),
        (("1", "2"), "00003.JPEG: there is no class '' but"),
    ):
        write_lines(truth, *lines)
        with pytest.raises(BadInput, match=said):
            load("imagenet(root=.)")
    write_lines(truth, "1", "2", "1", "2")
    write_lines(here / "imagenet" / "bbox" / "val" / "ILSVRC2012_val_00000002.xml", "<annotation><object>")
    with pytest.raises(BadInput, match=r"00002\.xml is not a box file"):
        load("imagenet(root=.)")
    truth.unlink()
    with pytest.raises(BadInput, match="have no labels: sort them into class folders"):
        load("imagenet(root=.)")
    with pytest.raises(BadInput, match=r"image-net.org/download.php.*imagenet/train"):
        load("imagenet(root=nowhere)")


def test_one_truncated_photo_is_named(here):
    for kind in ("cat", "dog"):
        for i in range(4):
            write_picture(here / "pets" / kind / f"{i}.png", 40 * i)
    bad = here / "pets" / "cat" / "1.png"
    bad.write_bytes(bad.read_bytes()[:-40])
    task = load("folder(root=pets, size=16)")
    with pytest.raises(BadInput, match=r"cat/1\.png cannot be decoded"):
        for split in (task.train, task.test):
            split.read(slice(None))
    seen: list = []
    verdict = verify("folder(root=pets, size=16)", lambda done, total: seen.append((done, total)))
    assert [*verdict.unreadable] == ["cat/1.png"] and not verdict.sound and seen[-1] == (8, 8)


def test_a_study_goes_on_without_the_task_that_has_a_truncated_photo(here):
    for kind in ("cat", "dog"):
        for i in range(4):
            write_picture(here / "pets" / kind / f"{i}.png", 40 * i)
            write_picture(here / "birds" / kind / f"{i}.png", 40 * i)
    bad = here / "pets" / "cat" / "1.png"
    bad.write_bytes(bad.read_bytes()[:-40])
    study = study_of(
        {
            "tasks": ["folder(root=pets, size=8)", "folder(root=birds, size=8)"],
            "models": "cnn-small(width=4)",
            "estimators": ["random", "grad"],
            "fractions": 0.5,
            "seeds": 1,
            "recipe": {"epochs": 1},
            "metrics": "roar",
        }
    )
    run = uproar.run(study, store=here / "store", jobs=1)
    failed = run.cells[run.cells["status"] == "failed"]
    assert set(failed["task"]) == {"folder(root=pets, size=8)"}
    assert all("cat/1.png cannot be decoded" in reason for reason in failed["reason"])
    assert set(run.cells[run.cells["status"] == "done"]["task"]) == {"folder(root=birds, size=8)"}


def test_too_few_for_the_classes_is_refused(here):
    write_cub(here / "CUB_200_2011")
    with pytest.raises(BadOption, match="train=1 is fewer than one image for each of the 2 classes"):
        load("cub200(root=., train=1)")
    with pytest.raises(BadOption, match="test=3 asks for more than the 2 test images"):
        load("cub200(root=., test=3)")
