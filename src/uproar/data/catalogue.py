"""What is known of the public sets: how they lie on a disk, where they come from, and what they must hold.

Folders are those the official archives unpack to and those other tools make of them. Checksums are the published ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uproar.errors import unknown


@dataclass(frozen=True)
class RemoteFile:
    """A file on a server. An archive is unpacked in the data folder, any other file put `into` a folder there."""

    url: str
    md5: str
    into: str = ""

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.url.rpartition("/")[2].partition("?")[0]


@dataclass(frozen=True)
class PublicDataset:
    """A public set."""

    name: str
    folders: tuple[str, ...]
    """Where it may lie below a data folder, the usual place first."""
    marks: tuple[str, ...]
    """A folder that has any one of these files or folders holds the set."""
    counts: tuple[int, int]
    """Training and test images of the complete set."""
    page: str
    size: str
    classes: int = 10
    shape: tuple[int, int, int] = (3, 224, 224)
    """Of its images; photos are cut to a size that the task is asked for."""
    files: tuple[RemoteFile, ...] = ()
    """What `uproar data get` downloads; nothing where the owner asks for a login."""
    how: str = ""
    """What to do by hand."""
    md5: Mapping[str, str] = field(default_factory=dict)
    """Checksums of files of the set by name; of a file.gz that of what is in it, since packers differ."""
    common: bool = False
    """Whether the marks are those of other sets too: then a folder must be named, or given as `root=`."""


_IDX = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")
_IDX_MARKS = tuple(name + end for end in ("", ".gz") for name in ("t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"))


def _idx_files(server: str, folder: str, packed: tuple[str, ...]) -> tuple[RemoteFile, ...]:
    return tuple(RemoteFile(f"{server}/{name}.gz", md5, folder) for name, md5 in zip(_IDX, packed, strict=True))


_MNIST = (
    "f68b3c2dcbeaaa9fbdd348bbdeb94873",
    "d53e105ee54ea40749a09fcbcd1e9432",
    "9fb629c4189551a2d022fa330f9573f3",
    "ec29112dd5afa0611ce80d1b7f02629c",
)
_MNIST_PLAIN = (
    "6bbc9ace898e44ae57da46a324031adb",
    "a25bea736e30d166cdddb491f175f624",
    "2646ac647ad5339dbf082846283269ea",
    "27ae3e4e09519cfbb04c329615203637",
)
_FASHION = (
    "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "25c81989df183df01b3e8a0aad5dffbe",
    "bef4ecab320f06d8554ea6380940ec79",
    "bb300cfdad3c16e7a12a480ee83cd310",
)
_FASHION_PLAIN = (
    "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "9018921c3c673c538a1fc5bad174d6f9",
    "8181f5470baa50b63fa0f6fddb340f0a",
    "15d484375f8d13e6eb1aabb0c3f46965",
)
_TORONTO = "https://www.cs.toronto.edu/~kriz"
_STANFORD = "http://ufldl.stanford.edu/housenumbers"

_SETS = (
    PublicDataset(
        "mnist",
        ("MNIST/raw", "mnist/raw", "MNIST", "mnist"),
        _IDX_MARKS,
        (60000, 10000),
        classes=10,
        shape=(1, 28, 28),
        page="http://yann.lecun.com/exdb/mnist",
        size="11 MB",
        common=True,
        files=_idx_files("https://ossci-datasets.s3.amazonaws.com/mnist", "MNIST/raw", _MNIST),
        md5=dict(zip(_IDX, _MNIST_PLAIN, strict=True)),
    ),
    PublicDataset(
        "fashion-mnist",
        ("FashionMNIST/raw", "fashion-mnist/raw", "FashionMNIST", "fashion-mnist", "fashion"),
        _IDX_MARKS,
        (60000, 10000),
        classes=10,
        shape=(1, 28, 28),
        page="https://github.com/zalandoresearch/fashion-mnist",
        size="30 MB",
        common=True,
        files=_idx_files("http://fashion-mnist.s3-website.eu-central-1.amazonaws.com", "FashionMNIST/raw", _FASHION),
        md5=dict(zip(_IDX, _FASHION_PLAIN, strict=True)),
    ),
    PublicDataset(
        "cifar10",
        ("cifar-10-batches-bin", "cifar-10-batches-py"),
        ("test_batch.bin", "test_batch"),
        (50000, 10000),
        classes=10,
        shape=(3, 32, 32),
        page=f"{_TORONTO}/cifar.html",
        size="170 MB",
        files=(RemoteFile(f"{_TORONTO}/cifar-10-binary.tar.gz", "c32a1d4ab5d03f1284b67883e8d87530"),),
        md5={
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "test_batch": "40351d587109b95175f43aff81a1287e",
        },
    ),
    PublicDataset(
        "cifar100",
        ("cifar-100-binary", "cifar-100-python"),
        ("test.bin", "test"),
        (50000, 10000),
        classes=100,
        shape=(3, 32, 32),
        page=f"{_TORONTO}/cifar.html",
        size="169 MB",
        common=True,
        files=(RemoteFile(f"{_TORONTO}/cifar-100-binary.tar.gz", "03b5dce01913d631647c71ecec9e9cb8"),),
        md5={
            "train.bin": "6172c7755cfe09b2fe270c85cebc1b15",
            "test.bin": "4499cfba6c016c1be1438163640a0898",
            "train": "16019d7e3df5f24257cddd939b257f8d",
            "test": "f0ef6b0ae62326f3e7ffdfab6717acfc",
        },
    ),
    PublicDataset(
        "svhn",
        ("svhn", "SVHN", "svhn-first"),
        ("test_32x32.mat",),
        (73257, 26032),
        classes=10,
        shape=(3, 32, 32),
        page=_STANFORD,
        size="246 MB",
        files=(
            RemoteFile(f"{_STANFORD}/train_32x32.mat", "e26dedcc434d2e4c54c9b2d4a06d8373", "svhn"),
            RemoteFile(f"{_STANFORD}/test_32x32.mat", "eb5a983be6a315427106f1b164d9cef3", "svhn"),
        ),
        md5={
            "train_32x32.mat": "e26dedcc434d2e4c54c9b2d4a06d8373",
            "test_32x32.mat": "eb5a983be6a315427106f1b164d9cef3",
        },
    ),
    PublicDataset(
        "cub200",
        ("CUB_200_2011",),
        ("image_class_labels.txt",),
        (5994, 5794),
        classes=200,
        shape=(3, 224, 224),
        page="https://www.vision.caltech.edu/datasets/cub_200_2011",
        size="1.2 GB",
        files=(
            RemoteFile(
                "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                "97eceeb196236b17998738112f37df78",
            ),
        ),
    ),
    PublicDataset(
        "food101",
        ("food-101",),
        ("meta/train.txt", "meta/train.json"),
        (75750, 25250),
        classes=101,
        shape=(3, 224, 224),
        page="https://data.vision.ee.ethz.ch/cvl/datasets_extra/food-101",
        size="5.0 GB",
        files=(RemoteFile("http://data.vision.ee.ethz.ch/cvl/food-101.tar.gz", "85eeb15f3717b99a5da872d97d918f87"),),
    ),
    PublicDataset(
        "birdsnap",
        ("birdsnap",),
        ("species.txt",),
        (47386, 2443),
        classes=500,
        shape=(3, 224, 224),
        page="http://thomasberg.org",
        size="about 10 GB of photos, from their own servers; many are gone",
        files=(
            RemoteFile("http://thomasberg.org/datasets/birdsnap/1.1/birdsnap.tgz", "1788158175f6ae794aebf27bcd7a3f5d"),
        ),
    ),
    PublicDataset(
        "tiny-imagenet",
        ("tiny-imagenet-200",),
        ("wnids.txt",),
        (100000, 10000),
        classes=200,
        shape=(3, 64, 64),
        page="http://cs231n.stanford.edu",
        size="248 MB",
        files=(RemoteFile("http://cs231n.stanford.edu/tiny-imagenet-200.zip", "90528d7ca1a48142e341f4ef8d21d0de"),),
    ),
    PublicDataset(
        "imagenet",
        ("imagenet", "ImageNet", "ILSVRC2012", "ILSVRC2012_img", "ILSVRC"),
        ("train", "Data/CLS-LOC/train", "ILSVRC/Data/CLS-LOC/train"),
        (1281167, 50000),
        classes=1000,
        shape=(3, 224, 224),
        page="https://image-net.org/download.php",
        size="about 155 GB",
        common=True,
        how="Ask for access at https://image-net.org/download.php, download ILSVRC2012_img_train.tar, "
        "ILSVRC2012_img_val.tar, ILSVRC2012_devkit_t12.tar.gz and, for boxes, ILSVRC2012_bbox_val_v3.tgz, and unpack "
        "them as imagenet/train/nXXXXXXXX/*.JPEG, imagenet/val/*.JPEG, imagenet/ILSVRC2012_devkit_t12 and "
        "imagenet/bbox/val/*.xml; the archive of the Kaggle challenge works as it unpacks.",
    ),
)

CATALOGUE: Mapping[str, PublicDataset] = {known.name: known for known in _SETS}


def public_dataset(name: str) -> PublicDataset:
    """What is known of a public set."""
    if name not in CATALOGUE:
        raise unknown("public data set", name, CATALOGUE)
    return CATALOGUE[name]
