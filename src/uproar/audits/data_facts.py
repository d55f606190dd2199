"""What an audit must know of a study's data before it can say what it needs: the size of images, known regions."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from uproar.data import load

if TYPE_CHECKING:
    from uproar.data import Task
    from uproar.study.spec import Study


def shape_of(study: Study) -> tuple[int, int, int]:
    """(channels, rows, columns) of the images of a study of one task."""
    return _task(study.tasks[0]).shape


def knows_truth(study: Study) -> bool:
    """Whether the important pixels of the test images are known."""
    return _task(study.tasks[0]).test.truth(slice(0, 1)) is not None


@functools.lru_cache(maxsize=2)
def _task(name: str) -> Task:
    return load(name)
