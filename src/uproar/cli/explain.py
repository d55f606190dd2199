"""`uproar explain`: maps of some images, as a picture and as arrays."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rich.markup import escape

from uproar.cli.checks import check_classes, check_file, check_output_option, check_target_option
from uproar.cli.console import check_size, note, output, print_file, some, table
from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.json_output import add_to_json
from uproar.cli.map_picture import captions_of, draw_maps, network_outputs, network_quality, print_quality
from uproar.cli.next_steps import command, open_page_hint, print_next, same_subject
from uproar.cli.options import (
    Classes,
    DataRoot,
    Images,
    Model,
    OutputOption,
    PictureSize,
    Plugins,
    Seed,
    Task,
    Weights,
    flag,
    names,
    option,
)
from uproar.cli.progress import watched
from uproar.errors import BadInput

if TYPE_CHECKING:
    from torch import Tensor

    from uproar.cli.progress import Watch
    from uproar.estimators import Chain
    from uproar.results.quality import NetworkQuality
    from uproar.storage.store import Store
    from uproar.study.maps import Subject
    from uproar.study.subjects import ImageSet

DEFAULT = ("saliency", "guided_backprop", "ig", "smoothgrad", "grad_cam")
PICTURES = (".png", ".svg", ".html")
ARRAYS = (".npz", ".safetensors")
LIMIT = 64
"""Images explained, if nobody says how many."""


def explain(
    images: Images = None,
    estimators: Annotated[
        list[str] | None, names(kind="estimators", text="uproar ls estimators", default="five usual")
    ] = None,
    task: Task = "digits",
    model: Model = "cnn-small",
    weights: Weights = None,
    size: PictureSize = None,
    limit: Annotated[int, option(takes="N", text="At most so many images", default=str(LIMIT))] = LIMIT,
    plugin: Plugins = None,
    layers: Annotated[bool, flag("--layers", text="Instead list the network's layers")] = False,
    out: Annotated[Path, option(takes="FILE", text="Picture: .png, .svg, .html", default="maps.png")] = Path(
        "maps.png"
    ),
    save: Annotated[Path | None, option(takes="FILE", text="Maps as arrays: .npz or .safetensors")] = None,
    target: Annotated[
        str,
        option(
            takes="predicted|label|N",
            text="The class, label or component explained",
            default="predicted",
            advanced=True,
        ),
    ] = "predicted",
    classes: Classes = None,
    answers: OutputOption = "auto",
    seed: Seed = 0,
    store: Annotated[
        str, option(takes="FOLDER|URL", text="Finished maps are kept here", default="runs/explain/store", advanced=True)
    ] = "runs/explain/store",
    data_root: DataRoot = None,
) -> int:
    """Show the maps of several methods side by side, as a picture and as arrays."""
    _check_options(images, limit, classes, size, out, save)
    check_output_option(answers)
    if layers:
        return _list_layers(images, task, model, weights, classes, size, plugin)
    from uproar.estimators import read_chain, require_maps  # torch loads slowly
    from uproar.extend import load_plugin
    from uproar.report.libraries import missing_libraries, require_libraries

    if save is None:
        require_libraries("A picture of maps (with --save FILE arrays are written without one)")
    for file in plugin or ():
        load_plugin(file)
    chains = require_maps([read_chain(name) for name in some("--estimators", estimators, DEFAULT)])
    check_target_option(target)
    from uproar.checks import undefined_maps
    from uproar.cli.subjects import make_subject, read_image_set
    from uproar.storage.store import Store
    from uproar.study.applicable import with_applicable

    kept_maps = Store(store)
    with watched("reading the images") as watch, keeping(f"Finished maps are in {store}; {AGAIN}"):
        chosen = read_image_set(images, task, model, weights, classes, limit, size, seed, kept_maps, watch)
        subject = make_subject(chosen, model, weights, target, seed, watch, answers)  # type: ignore[arg-type]
        (maps, quality, layers), left_out = with_applicable(
            subject, chains, lambda some: _explained(subject, chosen, some, kept_maps, out, watch)
        )
    note(*undefined_maps(maps), *left_out, *kept_maps.faults.take_notices())
    print_quality(quality)
    _print_layers(layers)
    drawn = not missing_libraries()
    add_to_json(picture=out if drawn else None, arrays=save, quality=quality.sentence, estimators=list(maps))
    if drawn:
        print_file("Picture", out)
    if save is not None:
        _save(save, maps, subject, chosen)
    again = same_subject(
        images, task, model, weights, classes, plugin, size=size, seed=seed, data_root=data_root, answers=answers
    )
    judged = ["--maps", str(save)] if save else ["--estimators", ",".join(maps)]
    judged += [] if target == "predicted" else ["--target", target]
    print_next(
        open_page_hint(out), f"{command('score', *again, *judged, '--limit', str(len(subject.x)))} judges these maps"
    )
    return 0


def _list_layers(
    images: str | None,
    task: str,
    model: str,
    weights: str | None,
    classes: int | None,
    size: int | None,
    plugin: list[str] | None,
) -> int:
    """The layers of a network with their shapes, and which of them methods take where none is named."""
    from uproar.estimators.layer_candidates import layer_candidates  # torch loads slowly
    from uproar.extend import load_plugin
    from uproar.study.subjects import example_images

    for file in plugin or ():
        load_plugin(file)
    network, x = example_images(images, task, model, weights, classes, size)
    candidates, refusals = layer_candidates(network.eval(), x)
    add_to_json(layers=[asdict(each) for each in candidates], refusals=refusals)
    title = f"Layers of {model} on {images or task}"
    shown = table(title, "layer", "module", "output of an image", "places", "default of")
    for each in candidates:
        shape, places = " × ".join(map(str, each.shape)), " × ".join(map(str, each.grid))
        shown.add_row(escape(each.name), each.module, shape, places, ", ".join(each.default_of))
    output.print(shown)
    note(*(f"{family} has no default here: {reason}." for family, reason in refusals.items()))
    taken = next((each.name for each in candidates if "CAM" in each.default_of), "NAME")
    again = same_subject(images, task, model, weights, classes, plugin, size=size)
    print_next(command("explain", *again, "--estimators", f"grad_cam(layer={taken})"))
    return 0


def _check_options(
    images: str | None, limit: int, classes: int | None, size: int | None, out: Path, save: Path | None
) -> None:
    """Refuse options that cannot be meant, before anything is read."""
    if out.suffix not in PICTURES:
        raise BadInput(f"A picture ends in {', '.join(PICTURES)}, not {out.name!r}.")
    if limit < 1:
        raise BadInput(f"--limit must be at least 1, not {limit}.")
    check_size(size, images)
    if save is not None and save.suffix not in ARRAYS:
        raise BadInput(f"--save writes {' or '.join(ARRAYS)}, not {save.name!r}.")
    check_classes(classes, images)
    for written in (out, save):
        if written is not None:
            check_file(written)


def _explained(
    subject: Subject, images: ImageSet, chains: list[Chain], store: Store, out: Path, watch: Watch
) -> tuple[dict[str, Tensor], NetworkQuality, dict[str, str]]:
    """The maps of the images, of which some are drawn, the quality of the network on them, and the layers looked at."""
    from uproar.study.maps import pieces_of, stored_maps

    pieces = pieces_of(subject, chains, store)
    maps = stored_maps(subject, chains, store, watch.explaining(pieces, len(subject.x)), pieces)
    watch.say("drawing the maps")
    outputs = network_outputs(subject.model, subject.x, subject.output)
    quality = network_quality(outputs, images.labels, subject.output)
    classes = () if images.bench is None else images.bench.task.classes
    arrays = {name: a.numpy() for name, a in maps.items()}
    captions = captions_of(images.titles, outputs, classes, subject.target.numpy(), subject.output)
    layers = _layers(subject, chains)
    draw_maps(out, subject.x, arrays, captions, quality, layers)
    return maps, quality, layers


def _layers(subject: Subject, chains: list[Chain]) -> dict[str, str]:
    """By method, where it looks at layers of the network: their names."""
    from uproar.estimators.layer_candidates import chosen_layers
    from uproar.models.output_kind import assuming_output

    with assuming_output(subject.output):
        by_method = chosen_layers(subject.model, subject.x, chains)
    return {name: ", ".join(layers) for name, layers in by_method.items()}


def _save(file: Path, maps: dict[str, Tensor], subject: Subject, images: ImageSet) -> None:
    """The maps as arrays, with the images, the classes explained and the labels."""
    from uproar.arrays import write_arrays

    tensors = {**maps, "images": subject.x, "targets": subject.target}
    if images.labels is not None:
        tensors["labels"] = images.labels
    write_arrays(file, {name: a.numpy() for name, a in tensors.items()})
    print_file("Arrays", file)


def _print_layers(layers: dict[str, str]) -> None:
    """A line for each layer, with the methods that look at it."""
    by_layer: dict[str, list[str]] = {}
    for name, layer in layers.items():
        by_layer.setdefault(layer, []).append(name)
    for layer, methods in by_layer.items():
        word = "Layers" if ", " in layer else "Layer"
        output.print(escape(f"{word} {layer}: {', '.join(methods)}"), soft_wrap=True, highlight=False)
