"""Every estimator: cost against Captum's, memory, hits on pixels that are known to count, and a gallery of maps.

    python benchmarks/estimators.py                                        a few minutes
    python benchmarks/estimators.py --planted                              the table of docs/estimator-hits.md
    python benchmarks/estimators.py --gallery docs/images/estimators.png   the picture of docs/estimators.md

*Time.* `resnet-small` on 16 images of 32×32×3, one thread, best of several runs; ours and Captum's take turns, so that a
busy machine slows both. Both get the same model and chain of options: as many steps, samples, references, pieces
and windows, the same layer, and at most 256 rows per pass (`internal_batch_size`, `perturbations_per_eval`) where
Captum has a setting. Where the number of model evaluations still differs (windows at the border), times are per
evaluation. Ours is timed from images to signed maps (`raw_maps`); reading an expression and collecting the context in
`uproar.explain` takes about a millisecond per call more. Target: never more than 1.1 times Captum's time.

*Passes* are counted while the estimator runs: half a pass for each row that goes forward, half for each that comes back.

*Memory* is the growth of the peak resident size from 32 to 128 images with a batch size of 16: it must not exceed what
the images and maps themselves take (about 3 MB here) by more than the allocator's noise.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from captum import attr
from matplotlib.figure import Figure
from torch import Tensor, nn

import uproar
from uproar.data import Task
from uproar.errors import UproarError
from uproar.estimators import Context, estimators, prepare_states, raw_maps, read_chain
from uproar.estimators.cards import FAMILIES, cards, own
from uproar.estimators.chain import Chain
from uproar.models import ModelSpec, borrowed, build
from uproar.seeds import Draws
from uproar.training import Recipe, fit

DATA = "planted(size=32, channels=3, train=256, test=128)"
NETWORK = "resnet-small"
IMAGES, ROWS, TARGET = 16, 256, 1.1
