"""`uproar explain`: maps of some images, as a picture and as arrays."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from uproar.cli.interrupt import AGAIN, keeping
from uproar.cli.network import Network
from uproar.cli.options import advanced, check_folder, flag, load_plugins, names, option
from uproar.cli.progress import watched
from uproar.cli.screen import add_to_json, command, note, output, print_file, print_next, print_table, some
from uproar.errors import BadInput, StoreError
from uproar.paths import user_path

if TYPE_CHECKING:
    from torch import Tensor

    from uproar.cli.progress import Watch
    from uproar.estimators import Chain
    from uproar.results.quality import NetworkQuality
    from uproar.store import Store
    from uproar.study.subjects import ImageSet, Subject

STORE = "runs/explain/store"
"""Finished maps are kept here."""
DEFAULT = ("saliency", "guided_backprop", "ig", "smoothgrad", "grad_cam")
LIMIT, SHOWN = 64, 8
"""Images explained, if nobody says how many, and those in the picture; the array file has them all."""


def explain(
    network: Network,
    estimators: Annotated[
        list[str] | None, names("estimators", "Methods (uproar ls estimators)", default="five")
    ] = None,
    limit: Annotated[int, option("N", "At most so many images", default=str(LIMIT))] = LIMIT,
    layers: Annotated[bool, flag("--layers", "Instead list the network's layers")] = False,
    out: Annotated[Path, option("FILE", "Picture: .png or .svg", default="maps.png")] = Path("maps.png"),
    save: Annotated[Path | None, option("FILE", "Maps as arrays: .npz or .safetensors")] = None,
    target: Annotated[
        str, advanced("predicted|label|N", "The class, label or component explained", default="predicted")
    ] = "predicted",
) -> int:
    """Show the maps of several methods side by side, as a picture and as arrays."""
    network.check(limit, target)
    if layers:
        return list_layers(network)
    check_files(out, save)
    from uproar.estimators import read_chain, require_maps
    from uproar.report.files import missing_libraries, require_libraries
    from uproar.store import Store
    from uproar.tensors import undefined_maps  # torch loads slowly

    if save is None:
        require_libraries("A picture of maps (with --save FILE arrays are written without one)")
    load_plugins(network.plugin)
    chains = require_maps([read_chain(name) for name in some("--estimators", estimators, DEFAULT)])
    from uproar.study.subjects import with_applicable  # tables load slowly: not before names are known

    kept_maps, drawn = Store(STORE), not missing_libraries()
    with watched("reading the images") as watch, keeping(f"Finished maps are in {STORE}; {AGAIN}"):
        images = network.read(limit, kept_maps, watch)
        subject = network.subject(images, target, watch)
        (maps, quality, seen), left_out = with_applicable(
            subject, chains, lambda some: explained(subject, images, some, kept_maps, out if drawn else None, watch)
        )
    note(*undefined_maps(maps), *left_out, *kept_maps.faults.take_notices())
    output.say(quality.sentence)
    note(*([quality.warning] if quality.warning else []))
    for layer, methods in seen.items():
        output.say(f"{'Layers' if ', ' in layer else 'Layer'} {layer}: {', '.join(methods)}")
    add_to_json(picture=out if drawn else None, arrays=save, quality=quality.sentence, estimators=list(maps))
    if drawn:
        print_file("Picture", out)
    if save is not None:
        from uproar.data.arrays import write_arrays

        tensors = {**maps, "images": subject.x, "targets": subject.target}
        if images.labels is not None:
            tensors["labels"] = images.labels
        write_arrays(save, {name: a.numpy() for name, a in tensors.items()})
        print_file("Arrays", save)
    scored = ["--maps", str(save)] if save else ["--estimators", ",".join(maps)]
    scored += [] if target == "predicted" else ["--target", target]
    score = command("score", *network.words(), *scored, "--limit", str(len(subject.x)))
    print_next(f"open {out}", f"{score} scores these maps")
    return 0


def list_layers(network: Network) -> int:
    """The layers of a network with their shapes, and which of them methods take where none is named."""
    from uproar.estimators.layers import layer_candidates  # torch loads slowly
    from uproar.study.subjects import example_images

    load_plugins(network.plugin)
    named = (network.images, network.task, network.model, network.weights, network.classes_given(), network.size)
    model, x = example_images(*named)
    candidates, refusals = layer_candidates(model.eval(), x)
    add_to_json(layers=[asdict(each) for each in candidates], refusals=refusals)
    rows = []
    for each in candidates:
        shape, places = " × ".join(map(str, each.shape)), " × ".join(map(str, each.grid))
        rows.append((each.name, each.module, shape, places, ", ".join(each.default_of)))
    columns = ("=layer", "module", "output of an image", "places", "default of")
    print_table(f"Layers of {network.model} on {network.images or network.task}", columns, rows)
    note(*(f"{family} has no default here: {reason}." for family, reason in refusals.items()))
    taken = next((each.name for each in candidates if "CAM" in each.default_of), "NAME")
    print_next(command("explain", *network.words(), "--estimators", f"grad_cam(layer={taken})"))
    return 0


def check_files(out: Path, save: Path | None) -> None:
    """Refuse files that cannot be written."""
    if out.suffix not in (".png", ".svg"):
        raise BadInput(f"A picture ends in .png or .svg, not {out.name!r}.")
    if save is not None and save.suffix not in (".npz", ".safetensors"):
        raise BadInput(f"--save writes .npz or .safetensors, not {save.name!r}.")
    for file in (out, save):
        if file is not None:
            if user_path(file).is_dir():
                raise StoreError(f"Cannot write {file}: it is a folder; give the name of a file.")
            check_folder(file.parent)


def explained(
    subject: Subject, images: ImageSet, chains: list[Chain], store: Store, out: Path | None, watch: Watch
) -> tuple[dict[str, Tensor], NetworkQuality, dict[str, list[str]]]:
    """The maps of the images, of which some are drawn; how good the network is; by layer, the methods that use it."""
    from uproar.estimators.layers import chosen_layers
    from uproar.models.output_kind import assuming_output, logits_of
    from uproar.report.mapsheet import MapSheet  # plots load slowly
    from uproar.results.quality import predictions_of, quality_of
    from uproar.study.subjects import stored_maps
    from uproar.training import predict

    maps = stored_maps(subject, chains, store, watch.explaining(len(subject.x)))
    watch.say("drawing the maps")
    kind, labels = subject.output, images.labels
    outputs = logits_of(predict(subject.model, subject.x), kind).float().cpu().numpy()
    one_class = labels is not None and labels.dim() == 1 and kind.kind != "regression"
    known = one_class and bool(((labels >= 0) & (labels < outputs.shape[1])).all())  # type: ignore[operator]
    quality = quality_of(outputs, labels.numpy() if known else outputs.argmax(1), known, kind)  # type: ignore[union-attr]
    with assuming_output(kind):
        layers = {name: ", ".join(each) for name, each in chosen_layers(subject.model, subject.x, chains).items()}
    if out is not None:
        classes = images.names if images.setting is None else images.setting.data.task.classes
        whole = images.folders if len(images.folders) == outputs.shape[1] else ()
        predictions = predictions_of(outputs[:SHOWN], subject.target.numpy()[:SHOWN], kind, classes or whole)
        captions = [f"{title}\n{each.words}" for title, each in zip(images.titles, predictions, strict=False)]
        few = {name: a[:SHOWN].numpy() for name, a in maps.items()}
        heading = " ".join(text for text in (quality.sentence, quality.warning) if text)
        MapSheet(subject.x[:SHOWN].numpy(), few, captions, heading, layers).save(out)
    by_layer: dict[str, list[str]] = {}
    for name, layer in layers.items():
        by_layer.setdefault(layer, []).append(name)
    return maps, quality, by_layer
