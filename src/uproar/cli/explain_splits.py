"""`uproar explain --split both`: the maps of all training and test images of a task, in files for a study."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from uproar.cli.console import note, print_file
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json
from uproar.cli.map_picture import SHOWN, captions_of, draw_maps, network_outputs, network_quality, print_quality
from uproar.cli.next_steps import command, open_page_hint, print_next
from uproar.cli.progress import Watch, watched
from uproar.errors import BadInput, BadOption
from uproar.statistics.design import BASELINE

if TYPE_CHECKING:
    from pathlib import Path

    from uproar.estimators import Chain
    from uproar.results.quality import NetworkQuality
    from uproar.study.bench import Bench
    from uproar.study.maps import Subject
    from uproar.study.settings import Setting


@dataclass(frozen=True)
class MapFiles:
    """What was written: chains, and the estimator of each one's file."""

    chains: list[Chain]
    names: list[str]
    left_out: list[str]
    """A sentence on each chain that does not apply to the network."""


def explain_splits(
    source: str | dict[str, Any],
    chains: list[Chain],
    limit: int | None,
    target: str,
    seed: int,
    save: Path | None,
    out: Path,
    store: str,
) -> int:
    """The maps of all training and test images of a task, one file per estimator, and a picture of some."""
    if save is None or save.suffix != ".safetensors":
        raise BadInput("--split both writes its maps to a file: give --save maps.safetensors.")
    if target not in ("predicted", "label"):
        raise BadOption(f"--target is predicted or label with --split both, not {target!r}.")
    from uproar.study.bench import bench_for  # torch loads slowly

    setting = _only_setting(source, chains, limit)
    _files(save, chains)  # refuses what cannot be written before anything is explained
    with watched("reading the images") as watch, keeping(f"Finished maps are in {store}; {AGAIN}"):
        bench = bench_for(setting, store)
        bench.base_models.get(seed, listen=watch.counting("epochs", f"training {bench.spec.name}"))
        written = _write(bench, chains, seed, save, watch)
        watch.say("drawing the maps")
        quality = _draw(bench, written, seed, out)
    print_quality(quality)
    note(*written.left_out, *bench.store.faults.take_notices())
    arrays = dict(zip([chain.name for chain in written.chains], written.names, strict=True))
    add_to_json(picture=out, arrays=arrays, quality=quality.sentence)
    print_file("Picture", out)
    for chain, name in arrays.items():
        print_file(chain, name)
    compared = ",".join([BASELINE, *written.names])
    print_next(
        open_page_hint(out),
        f"{command('run', '--estimators', compared)}, for the same task and model, judges these maps",
    )
    return 0


def _only_setting(source: str | dict[str, Any], chains: list[Chain], limit: int | None) -> Setting:
    """The task and model of a study, which must have one of each."""
    from uproar.study.settings import Setting
    from uproar.study.spec import study_of

    changes: dict[str, Any] = {"estimators": [chain.name for chain in chains]}
    if limit is not None:
        changes["limit"] = limit
    chosen = study_of(source, **changes)
    if len(chosen.tasks) > 1 or len(chosen.models) > 1:
        raise BadInput(
            "--split both explains one model on one task; this study has "
            f"{len(chosen.tasks)} tasks and {len(chosen.models)} models."
        )
    return Setting.all_of(chosen)[0]


def _write(bench: Bench, chains: list[Chain], seed: int, save: Path, watch: Watch) -> MapFiles:
    """The maps in their files, of the chains that apply to the network."""
    from uproar.estimators.map_files import name_of
    from uproar.study.applicable import with_applicable
    from uproar.study.mapfile import write_maps

    listen = watch.counting("maps", "explaining")

    def write(some: list[Chain]) -> tuple[list[Chain], list[Path]]:
        files = _files(save, some)
        write_maps(bench, some, seed, files, listen)
        return some, files

    (kept, files), left_out = with_applicable(_first_image(bench, seed), chains, write)
    return MapFiles(kept, [name_of(file) for file in files], left_out)


def _first_image(bench: Bench, seed: int) -> Subject:
    """The first test image with its network, on which chains are tried."""
    from uproar.study.subjects import ImageSet, subject_of_images

    test = bench.task.test
    first = ImageSet(test.read(slice(0, 1)), [], test.labels[:1], bench.task.name, bench=bench)
    return subject_of_images(first, bench.spec.name, None, "predicted", seed)


def _draw(bench: Bench, written: MapFiles, seed: int, out: Path) -> NetworkQuality:
    """A picture of some test images with their maps; how good the network is on these images."""
    from uproar.estimators import estimators
    from uproar.models.output_kind import SOFTMAX

    test = bench.task.test
    rows = range(min(SHOWN, len(test)))
    few = [estimators[name].facts["stored"].read(test, rows).sum(1).numpy() for name in written.names]
    maps = dict(zip([chain.name for chain in written.chains], few, strict=True))
    images, labels = test.read(slice(0, SHOWN)), test.labels[:SHOWN]
    outputs = network_outputs(bench.base_models.get(seed)[0], images, SOFTMAX)
    quality = network_quality(outputs, labels, SOFTMAX)
    titles = [bench.task.classes[k] for k in labels.tolist()]
    draw_maps(out, images, maps, captions_of(titles, outputs, bench.task.classes, labels.numpy(), SOFTMAX), quality)
    return quality


def _files(save: Path, chains: list[Chain]) -> list[Path]:
    """One file for one estimator, else one for each with the estimator in its name."""
    if len(chains) == 1:
        return [save]
    from uproar.report.formatting import slug  # reports load slowly

    files = [save.with_name(f"{save.stem}-{slug([chain.name])}{save.suffix}") for chain in chains]
    if len(set(files)) < len(files):
        raise BadInput("Two of the estimators would share a file: write them one at a time.")
    return files
