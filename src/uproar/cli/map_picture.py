"""The picture of some images with their maps, and what the network takes them for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rich.markup import escape

from uproar.cli.console import note, output

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from torch import Tensor, nn

    from uproar.models.output_kind import OutputKind
    from uproar.results.quality import NetworkQuality

SHOWN = 8
"""Images in the picture; the array file has them all."""


def draw_maps(
    out: Path,
    x: Tensor,
    maps: dict[str, Any],
    captions: list[str],
    quality: NetworkQuality,
    layers: dict[str, str] | None = None,
) -> None:
    """Draw some images with their maps, where the libraries for it are installed."""
    from uproar.report.libraries import missing_libraries
    from uproar.report.mapsheet import write_map_sheet  # plots load slowly

    if missing_libraries():
        return

    few = {name: a[:SHOWN] for name, a in maps.items()}
    write_map_sheet(out, x[:SHOWN].numpy(), few, captions[:SHOWN], quality, layers)


def network_outputs(model: nn.Module, x: Tensor, kind: OutputKind) -> np.ndarray:
    """The network's scores of the images as logits or values."""
    from uproar.models.output_kind import logits_of
    from uproar.training import predict

    scores: np.ndarray = logits_of(predict(model, x), kind).float().cpu().numpy()
    return scores


def network_quality(outputs: np.ndarray, labels: Tensor | None, kind: OutputKind) -> NetworkQuality:
    """How good the network is on the images; without labels that it knows, how sure."""
    from uproar.results.outputs import quality_of

    one_class = labels is not None and labels.dim() == 1 and kind.kind != "regression"
    known = one_class and bool(((labels >= 0) & (labels < outputs.shape[1])).all())  # type: ignore[operator]
    followed = labels.numpy() if labels is not None and known else outputs.argmax(1)
    return quality_of(outputs, followed, known, kind)


def captions_of(
    titles: list[str], outputs: np.ndarray, classes: Sequence[str], target: np.ndarray, kind: OutputKind
) -> list[str]:
    """What stands beside each image: its name, and what the network takes it for."""
    from uproar.results.outputs import predictions_of

    shown = predictions_of(outputs[:SHOWN], target[:SHOWN], kind, classes)
    return [f"{title}\n{one.words}" for title, one in zip(titles, shown, strict=False)]


def print_quality(quality: NetworkQuality) -> None:
    """How good the network is, and what to keep in mind where it is not."""
    output.print(escape(quality.sentence), soft_wrap=True)
    if quality.warning:
        note(quality.warning)
