"""Handwritten digits, 8×8 grey: 1,797 images that ship with the package.

The test part of the UCI "Optical Recognition of Handwritten Digits" set (Alpaydin and Kaynak 1998, CC BY 4.0), the
same images and order as scikit-learn's `load_digits`.
"""

from __future__ import annotations

from importlib import resources
from typing import Annotated

import numpy as np
import torch
from pydantic import Field

from uproar.data.registry import tasks
from uproar.data.task import Split, Task
from uproar.seeds import generator


@tasks.declare(images="1,438 + 359 grey 8×8", truth="none")
def digits(*, test: Annotated[float, Field(gt=0, lt=1)] = 0.2) -> Task:
    """Handwritten digits 0-9, 8×8 grey, a fixed split with the same share of each class in both parts."""
    with resources.files("uproar.data").joinpath("digits.npz").open("rb") as file:
        stored = np.load(file, allow_pickle=False)
        images, labels = stored["images"], stored["labels"]
    x = torch.from_numpy(images).float()[:, None] / 16
    y = torch.from_numpy(labels).long()
    in_test = _stratified(y, test)
    return Task(
        "digits", Split("train", x[~in_test], y[~in_test]), Split("test", x[in_test], y[in_test]), tuple("0123456789")
    )


def _stratified(labels: torch.Tensor, share: float) -> torch.Tensor:
    chosen = torch.zeros(len(labels), dtype=torch.bool)
    for label in labels.unique().tolist():
        members = (labels == label).nonzero()[:, 0]
        order = torch.randperm(len(members), generator=generator("digits", "split", label))
        chosen[members[order[: round(share * len(members))]]] = True
    return chosen
