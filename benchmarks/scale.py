"""What a study of ImageNet's size would take, from rates measured here.

    python benchmarks/scale.py --photos FOLDER                      # any photographs, a few dozen
    python benchmarks/scale.py --photos FOLDER --model "resnet50(variant='caffe')" --weights FILE

Rates are per second of processor time on one core, so that other work on the machine disturbs them little. The totals
are those of the remove-and-retrain study of Hooker et al. (2019): 18 estimators, 5 fractions, 3 replicates, 90 epochs.
With zarr installed, level maps are also written with zarr's shards, for comparison.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from uproar.study.levels import Shard, ShardBuilder, ShardedLevels

from uproar.data import Pictures
from uproar.estimators import families, read_chain
from uproar.models import ModelSpec
from uproar.models.registry import make
from uproar.models.weights import load_weights
from uproar.removal import FillContext, Levels, ranks
from uproar.removal.fill import filled
from uproar.seeds import Draws
from uproar.store import Store
from uproar.training.fit import prefetch

TRAIN, TEST, EPOCHS, ESTIMATORS, CUTS, SEEDS = 1_281_167, 50_000, 90, 18, 5, 3
SIZE = 224
FRACTIONS = (0.1, 0.3, 0.5, 0.7, 0.9)
BASES = ("grad", "guided_backprop", "ig(steps=25)")
FORMS = ("{}", "sq({})", "sg({})", "sg_sq({})", "var({})")
CONTROLS = ("random", "sobel", "block_random")
GPU = 2_500
"""Assumed, not measured: images per second that ResNet-50 is trained with on one data-centre GPU, mixed precision."""
BATCH = 8
PICTURES = (".jpg", ".jpeg", ".png")


def spent(work: Callable[[], object], count: int) -> float:
    """Processor seconds per thing."""
    began = time.process_time()
    work()
    return (time.process_time() - began) / count


def measure_reading(photos: list[Path], folder: str) -> dict[str, float]:
    os.environ["UPROAR_CACHE"] = folder
    kept = Pictures(photos, SIZE, threads=1)
    decode = spent(lambda: kept[:], len(photos))
    cached = spent(lambda: kept[:], len(photos))
    return {"decode": decode, "cached": cached, "digest": spent(kept.digest, len(photos))}


def network(x: Tensor, name: str, weights: str | None) -> nn.Module:
    mean, std = x.mean((0, 2, 3)), x.std((0, 2, 3))
    model = make(ModelSpec.of(name), 0, (3, SIZE, SIZE), 1000, mean, std)
    return load_weights(model, weights) if weights else model


def measure_network(model: nn.Module, x: Tensor) -> tuple[dict[str, float], Tensor, Tensor]:
    """Seconds per image, and maps: as fine as pixels, and as coarse as the last layer that has places."""
    model = model.to(memory_format=torch.channels_last).eval()
    kept: list[Tensor] = []
    for part in model.modules():
        part.register_forward_hook(
            lambda _m, _i, out: (
                kept.append(out) if isinstance(out, Tensor) and out.dim() == 4 and out.shape[-1] > 1 else None
            )
        )
    parts = x.to(memory_format=torch.channels_last).split(BATCH)

    def gradients() -> None:
        for part in parts:
            kept.clear()
            inputs = part.clone().requires_grad_()
            top = model(inputs).amax(1).sum()
            slope, at = torch.autograd.grad(top, [inputs, kept[-1]])
            fine.append(slope.abs().sum(1))
            cam = F.relu((at.mean((2, 3), keepdim=True) * kept[-1]).sum(1, keepdim=True)).detach()
            coarse.append(F.interpolate(cam, size=(SIZE, SIZE), mode="bilinear")[:, 0])

    fine: list[Tensor] = []
    coarse: list[Tensor] = []
    gradient = spent(gradients, len(x))
    with torch.no_grad():
        forward = spent(lambda: [model(part) for part in parts], len(x))
    model.train()
    weights = [w for w in model.parameters() if w.requires_grad]
    step = spent(lambda: torch.autograd.grad(model(parts[0]).logsumexp(1).sum(), weights), len(parts[0]))
    return ({"forward": forward, "gradient": gradient, "training": step}, torch.cat(fine), torch.cat(coarse))


def measure_levels(maps: Tensor, folder: str) -> dict[str, float]:
    n = len(maps)
    draws, shard = Draws.of(0, n, "train"), Shard("train", 0, n)
    kept = ShardBuilder(shard, FRACTIONS)
    ranking = spent(lambda: kept.add(maps, draws, FRACTIONS, "map"), n)
    store = Store(folder)
    store.write("shard", shard.key("levels"), kept.item(0.0))
    size = Path(store.root, store.name("shard", shard.key("levels"))).stat().st_size
    levels = ShardedLevels(store, "levels", (shard,), FRACTIONS, SIZE * SIZE)
    shape = (SIZE, SIZE)
    one = spent(lambda: [levels.removed(0.5, shape, torch.tensor([i])) for i in range(n)], n)
    together = spent(lambda: levels.removed(0.5, shape, torch.arange(n)), n)
    packed = Levels.of(ranks(maps.flatten(1), draws), FRACTIONS)
    result = {"ranking": ranking, "bytes": size / maps.numel(), "one": one, "many": together}
    return result | with_zarr(packed.unpacked(), folder)


def measure_threads(photos: list[Path], maps: Tensor, folder: str) -> dict[int, float]:
    """Changed images per second on the clock, read by one thread and by as many as there are cores."""
    shard, store = Shard("train", 0, len(maps)), Store(folder)
    kept = ShardBuilder(shard, FRACTIONS)
    kept.add(maps, Draws.of(0, len(maps), "train"), FRACTIONS, "map")
    store.write("shard", shard.key("levels"), kept.item(0.0))
    levels = ShardedLevels(store, "levels", (shard,), FRACTIONS, SIZE * SIZE)
    pictures, grey = Pictures(photos, SIZE, threads=1), torch.full((3,), 0.5)

    class Changed:
        def __len__(self) -> int:
            return len(photos)

        def __getitem__(self, rows: Tensor | slice) -> Tensor:
            gone = levels.removed(0.5, (SIZE, SIZE), rows)
            around = FillContext(Draws.of(0, rows, "train"), grey)
            return filled(pictures[rows].float() / 255, gone, "mean", around)

    draws = torch.Generator().manual_seed(0)
    parts = [torch.randint(len(photos), (32,), generator=draws) for _ in range(16)]
    result = {}
    for threads in (1, os.cpu_count() or 1):
        began = time.perf_counter()
        count = sum(len(part) for part in prefetch(Changed(), parts, threads))
        result[threads] = count / (time.perf_counter() - began)
    return result


def with_zarr(levels: np.ndarray, folder: str) -> dict[str, float]:
    if importlib.util.find_spec("zarr") is None:
        return {}
    import zarr

    n, features = levels.shape
    codec = zarr.codecs.BloscCodec(cname="zstd", clevel=5, shuffle="bitshuffle", typesize=1)
    place = Path(folder, "levels.zarr")
    array = zarr.create_array(
        str(place), shape=levels.shape, dtype="u1", chunks=(1, features), shards=levels.shape, compressors=codec
    )
    array[:] = levels
    size = sum(file.stat().st_size for file in place.rglob("*") if file.is_file())
    array = zarr.open_array(str(place), mode="r")
    return {"zarr bytes": size / levels.size, "zarr one": spent(lambda: [array[i] for i in range(n)], n)}


def passes() -> float:
    """Forward-and-backward passes per image of all estimators, those of a family shared."""
    chains = [read_chain(form.format(base)) for base in BASES for form in FORMS]
    return sum(max(chain.passes for chain in family) for family in families(chains))


def totals(rates: dict[str, float], fine: dict[str, float], coarse: dict[str, float]) -> list[tuple[str, float, str]]:
    images, trainings = TRAIN + TEST, ESTIMATORS * CUTS * SEEDS + SEEDS
    seen, explained = TRAIN * EPOCHS * trainings, passes() * images * SEEDS
    ranked = ESTIMATORS * images * SEEDS
    slow = rates["gradient"] / rates["training"]
    return [
        ("pictures decoded once, CPU hours", rates["decode"] * images / 3600, ""),
        ("decoded bytes in the cache, GB", images * (3 * SIZE * SIZE + 8) / 1e9, ""),
        ("passes to explain, thousand million", explained / 1e9, f"{passes():.0f} per image and replicate"),
        ("  CPU hours on a core like this", explained * rates["gradient"] / 3600, ""),
        ("  GPU hours, assumed", explained * slow / GPU / 3600, f"{GPU / slow:,.0f} gradients/s"),
        ("maps ranked, million", ranked / 1e6, ""),
        ("  CPU hours", ranked * fine["ranking"] / 3600, "fine maps"),
        ("levels if all maps are fine, GB", ranked * SIZE * SIZE * fine["bytes"] / 1e9, ""),
        ("levels if all maps are coarse, GB", ranked * SIZE * SIZE * coarse["bytes"] / 1e9, ""),
        ("float16 maps of the test images, GB", TEST * ESTIMATORS * SEEDS * SIZE * SIZE * 2 / 1e9, ""),
        ("images seen in training, thousand million", seen / 1e9, f"{trainings} trainings"),
        ("  CPU hours on a core like this", seen * rates["training"] / 3600, ""),
        ("  GPU hours, assumed", seen / GPU / 3600, f"{GPU:,} images/s"),
        (
            "  CPU hours to make the changed images",
            seen * rates["changed"] / 3600,
            f"{1 / rates['changed']:,.0f} images/s and core",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--photos", required=True, type=Path)
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--weights")
    parser.add_argument("--images", type=int, default=48)
    given = parser.parse_args()
    torch.set_num_threads(1)
    photos = sorted(p for p in given.photos.rglob("*") if p.suffix.lower() in PICTURES)[: given.images]
    with tempfile.TemporaryDirectory() as folder:
        rates = measure_reading(photos, f"{folder}/cache")
        x = Pictures(photos, SIZE)[:].float() / 255
        result, fine_maps, coarse_maps = measure_network(network(x, given.model, given.weights), x)
        rates |= result
        fine, coarse = (measure_levels(m, f"{folder}/{i}") for i, m in enumerate((fine_maps, coarse_maps)))
        by_threads = measure_threads(photos, fine_maps, f"{folder}/threads")
    around = FillContext(Draws.of(0, len(x), "train"), x.mean((0, 2, 3)))
    gone = torch.rand(len(x), SIZE, SIZE) < 0.5
    bytes_ = (x * 255).byte()
    filling = spent(lambda: filled(bytes_.float() / 255, gone, "mean", around), len(x))
    rates["changed"] = rates["cached"] + fine["one"] + filling  # a batch is from everywhere
    for name, seconds in rates.items():
        print(f"{name:>10}: {1e3 * seconds:9.2f} ms, {1 / seconds:9.1f} images/s")
    for threads, rate in by_threads.items():
        print(f"changed images read by {threads} thread{'s' * (threads > 1)}: {rate:.0f} per second on the clock")
    for name, result in (("fine", fine), ("coarse", coarse)):
        words = (f"{k} {v:.4f}" if "bytes" in k else f"{k} {1e3 * v:.2f} ms" for k, v in result.items())
        print(f"{name:>10}: {', '.join(words)}")
    print()
    for name, value, note in totals(rates, fine, coarse):
        print(f"{name:<45} {value:14,.1f}   {note}")


if __name__ == "__main__":
    main()
