"""Every estimator: cost against Captum's, memory, and a gallery of maps.

    python benchmarks/estimators.py                                        a few minutes
    python benchmarks/estimators.py --gallery docs/images/estimators.png   the picture of the page on estimators

*Time.* `resnet-small` on 16 images of 32×32×3, one thread, best of several runs; ours and Captum's take turns, so that
a busy machine slows both. Both get the same frozen model and the same work: as many steps, samples, references and
pieces, windows of one size and stride, the same layer and rule, and at most 256 rows per pass where Captum has a
setting for it (`internal_batch_size`, `perturbations_per_eval`). Where the number of evaluations still differs (windows
at the border), the ratio is that of the times per evaluation. Ours is timed from images to signed maps (`raw_maps`);
`uproar.explain` takes about a millisecond per call more to read the expression and check its arguments. `grad_cam` has
a line without a class for its default, which looks for the layer first. Target: at most 1.1 times Captum's time.

*Passes* are counted while the estimator runs: half a pass for each row that goes forward, half for each that comes
back; what rules compute beside the model (`lrp`) is not seen. "Said" is what the estimator's declaration says.

*Memory* is the peak resident size beyond that of the idle process, for 32 and for 128 images with a batch size of 16.
It is bounded by the batch: it must not grow by more than the maps themselves take (1.1 MB here) and a little noise.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
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
from uproar.errors import NotApplicable
from uproar.estimators import Context, estimators, prepare_states, raw_maps, read_chain
from uproar.estimators.chain import Chain
from uproar.models import ModelSpec, borrowed, build
from uproar.seeds import Draws
from uproar.training import Recipe, fit

sys.path.append(str(Path(__file__).parents[1]))
from tools.cards import builtin

DATA = "planted(size=32, channels=3, train=256, test=128)"
NETWORK = "resnet-small"
IMAGES, ROWS, TARGET = 16, 256, 1.1
M_MMAP_THRESHOLD = -3
FEW = {  # the most memory is needed in every step: few steps show it
    "rise": "rise(masks=64)",
    "lime": "lime(samples=100)",
    "kernel_shap": "kernel_shap(samples=100)",
    "extremal_perturbation": "extremal_perturbation(iterations=2)",
    "iba": "iba(steps=2)",
    "input_iba": "input_iba(epochs=1, steps=2, feature_steps=2, pool=64)",
    "tame": "tame(epochs=1)",
}


def names() -> list[str]:
    """All estimators that give a map."""
    return [entry.name for entry in builtin(estimators) if entry.facts["role"] == "estimator"]


class Case:
    """A network, its data, and the images explained."""

    def __init__(self, data: str, network: str, epochs: int = 0, seed: int = 0) -> None:
        self.task: Task = uproar.load(data)
        self.model: nn.Module = build(ModelSpec.of(network), self.task, seed).eval()
        if epochs:
            images = self.task.train.read(slice(None))
            self.model = fit(self.model, images, self.task.train.labels, Recipe(epochs=epochs), seed)

    def images(self, n: int) -> Tensor:
        return self.task.test.read(slice(0, n))

    def labels(self, n: int) -> Tensor:
        return self.task.test.labels[:n]

    def maker(self, name: str, n: int, batch: int = 64) -> Callable[[], Tensor]:
        """What makes the signed maps of n images; whatever is prepared once per model is done before."""
        chain, x, target = read_chain(name), self.images(n), self.labels(n)
        context = Context(Draws.of(0, n), self.task.mean, self.task.train)
        with borrowed(self.model), torch.no_grad():
            states = prepare_states(self.model, context, [chain])
        truth = self.task.test.truth(slice(0, n))
        context = Context(context.draws, context.mean, context.train, truth, states)
        return lambda: raw_maps(self.model, x, target, context, [chain.raw], batch)[chain.raw]

    def maps(self, chain: Chain, n: int) -> Tensor:
        """One number per pixel, (n, h, w)."""
        return chain.reduced(self.maker(chain.name, n)())


# ---- time


@dataclass(frozen=True)
class Pair:
    """The same work for both: our expression, and what Captum calls it."""

    ours: str
    theirs: Callable[[], Any]
    called: str


def pairs(case: Case) -> dict[str, Pair]:
    """Captum's counterparts, with the settings of ours."""
    model, x, target = case.model, case.images(IMAGES), case.labels(IMAGES)
    train, h, w = case.task.train.read(slice(None)), *case.task.shape[1:]
    mean = case.task.mean.view(1, -1, 1, 1).expand(1, *case.task.shape)
    side = torch.arange(h) * 7 // h
    pieces = (side[:, None] * 7 + side).expand(1, *case.task.shape)
    window, each = (x.shape[1], 4, 4), ROWS // IMAGES

    def run(cls: Any, *built: Any, **asked: Any) -> Callable[[], Any]:
        return lambda: cls(model, *built).attribute(x.clone().requires_grad_(), target=target, **asked)

    def forward(cls: Any, **asked: Any) -> Callable[[], Any]:
        return lambda: cls(model).attribute(x, target=target, baselines=mean, **asked)

    def enlarged() -> Tensor:
        result = run(attr.LayerGradCam, model[4], relu_attributions=True)()
        return attr.LayerAttribution.interpolate(result, (h, w), "bilinear")

    surrogate = {"feature_mask": pieces, "n_samples": 500, "perturbations_per_eval": ROWS}
    path = {"n_steps": 25, "method": "riemann_middle", "internal_batch_size": ROWS}
    result = [
        Pair("grad", run(attr.Saliency, abs=False), "Saliency"),
        Pair("grad_input", run(attr.InputXGradient), "InputXGradient"),
        Pair("ig(steps=25)", run(attr.IntegratedGradients, **path), "IntegratedGradients"),
        Pair("guided_backprop", run(attr.GuidedBackprop), "GuidedBackprop"),
        Pair("deconv", run(attr.Deconvolution), "Deconvolution"),
        Pair("deep_lift", run(attr.DeepLift), "DeepLift"),
        Pair("deep_shap(samples=10)", run(attr.DeepLiftShap, baselines=train[:10]), "DeepLiftShap"),
        Pair(
            "grad_shap(samples=25)", run(attr.GradientShap, baselines=train, n_samples=25, stdevs=0.1), "GradientShap"
        ),
        Pair("lrp(composite=epsilon)", lambda: _captum_lrp(model, x, target), "LRP"),
        Pair('grad_cam(layer="4")', enlarged, "LayerGradCam"),
        Pair(
            "occlusion(window=4, stride=2, score=logit)",
            forward(
                attr.Occlusion, sliding_window_shapes=window, strides=(window[0], 2, 2), perturbations_per_eval=each
            ),
            "Occlusion",
        ),
        Pair("lime(patches=7, samples=500, score=logit)", forward(attr.Lime, **surrogate), "Lime"),
        Pair("kernel_shap(patches=7, samples=500)", forward(attr.KernelShap, **surrogate), "KernelShap"),
    ]
    return {read_chain(pair.ours).raw.name: pair for pair in result}


def _captum_lrp(model: nn.Module, x: Tensor, target: Tensor) -> Tensor:
    from captum.attr._utils.lrp_rules import EpsilonRule

    plain = [m for m in model.modules() if type(m).__name__ in ("Normalise", "Identity", "Flatten")]
    try:
        for module in plain:  # Captum knows no rule for them
            module.rule = EpsilonRule(1e-6)
        return attr.LRP(model).attribute(x.clone().requires_grad_(), target=target)
    finally:
        for module in plain:
            vars(module).pop("rule", None)


@contextmanager
def counted(model: nn.Module) -> Iterator[list[int]]:
    """Rows that go forward through the model inside, and rows whose gradient comes back."""
    rows = [0, 0]

    def forward(_module: nn.Module, args: Any) -> None:
        rows[0] += len(args[0])

    def back(gradient: Tensor) -> None:
        rows[1] += len(gradient)

    def after(_module: nn.Module, _args: Any, out: Tensor) -> None:
        if out.requires_grad:
            out.register_hook(back)

    handles = [model.register_forward_pre_hook(forward), model.register_forward_hook(after)]
    try:
        yield rows
    finally:
        for handle in handles:
            handle.remove()


def seconds(function: Callable[[], Any]) -> float:
    began = time.perf_counter()
    function()
    return time.perf_counter() - began


def taking_turns(functions: Sequence[Callable[[], Any]], repeats: int) -> list[float]:
    """The best time of each."""
    return [min(times) for times in zip(*([seconds(f) for f in functions] for _ in range(repeats)), strict=True)]


def report_time(repeats: int, only: Sequence[str]) -> None:
    case = Case(DATA, NETWORK)
    print(
        f"\n{NETWORK}, {IMAGES} images {tuple(case.task.shape)}, one thread, best of {repeats}, milliseconds per image"
    )
    print(f"{'expression':46} {'passes':>7} {'said':>6} {'ours':>9}   {'Captum class':20} {'Captum':>9} {'ratio':>6}")
    known, worst = pairs(case), 0.0
    with borrowed(case.model):
        for name in names():
            if only and name not in only:
                continue
            if name in known:
                worst = max(worst, _compared(case, known[name], repeats))
            if name not in known or name == "grad_cam":
                _alone(case, name, repeats)
    verdict = "reached" if worst <= TARGET else "MISSED"
    print(f"largest ratio {worst:.2f} (target: at most {TARGET:g}): {verdict}")


def _compared(case: Case, pair: Pair, repeats: int) -> float:
    ours = case.maker(pair.ours, IMAGES)
    with counted(case.model) as mine:
        ours()
    with counted(case.model) as others:
        pair.theirs()
    a, b = taking_turns([ours, pair.theirs], repeats)
    forward_only = not mine[1]
    ratio = a / b * (others[0] / mine[0] if forward_only else 1)
    per = " per evaluation" if forward_only and mine[0] != others[0] else ""
    print(f"{_line(pair.ours, mine, a)}   {pair.called:20} {1e3 * b / IMAGES:9.2f} {ratio:6.2f}{per}", flush=True)
    return ratio


def _alone(case: Case, name: str, repeats: int) -> None:
    ours = case.maker(name, IMAGES)
    with counted(case.model) as rows:
        took = seconds(ours)
    # a slow one is hardly disturbed by a busy moment
    print(_line(name, rows, took if took > 3 else min(took, *taking_turns([ours], repeats))), flush=True)


def _line(expression: str, rows: Sequence[int], took: float) -> str:
    passes, said = sum(rows) / 2 / IMAGES, read_chain(expression).passes
    return f"{expression:46} {passes:7.1f} {said:6.1f} {1e3 * took / IMAGES:9.2f}"


# ---- memory


def report_memory(only: Sequence[str]) -> None:
    """What is needed beyond the idle process for 32 and for 128 images, at a fixed batch size."""
    case = Case(DATA, NETWORK)
    # every larger block on its own: otherwise the peak also shows how the heap happens to be cut up
    ctypes.CDLL("libc.so.6").mallopt(M_MMAP_THRESHOLD, 2**16)
    print(f"\n{'peak memory in MB, batch size 16':60} {'32 images':>10} {'128 images':>10} {'growth':>8}")
    for name in names():
        if only and name not in only:
            continue
        expression = FEW.get(name, name)
        few, many = (case.maker(expression, n, 16) for n in (32, 128))
        few()  # whatever is made once
        a, b = peak(few), peak(many)
        print(f"{expression:60} {a:10.1f} {b:10.1f} {b - a:8.1f}", flush=True)


def peak(function: Callable[[], Any]) -> float:
    """How far the resident size rises while a function runs, in MB (Linux)."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _resident("VmRSS")
    function()
    return _resident("VmHWM") - before


def _resident(what: str) -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


# ---- gallery


def write_gallery(path: str, n: int = 3) -> None:
    """A picture with the maps of n images for every estimator, side by side."""
    case = Case("planted(size=16, channels=1, train=2048, test=64)", NETWORK, epochs=12)
    shown = {"images": case.images(n)[:, 0]}
    for name in names():
        with suppress(NotApplicable):  # methods of transformers
            shown[name] = case.maps(read_chain(name), n)
    columns = 6
    rows = -(-len(shown) // columns)
    figure = Figure(figsize=(2.3 * columns, 0.98 * rows), layout="constrained")
    axes = figure.subplots(rows, columns).flatten()
    for axis in axes:
        axis.axis("off")
    for axis, (name, maps) in zip(axes, shown.items(), strict=False):
        axis.set_title(name, fontsize=8, pad=2)
        if name == "images":
            axis.imshow(_beside(maps, 1.0), cmap="gray", vmin=0, vmax=1)
        else:
            scale = maps.flatten(1).abs().amax(1).clamp_min(1e-30)
            axis.imshow(_beside(maps / scale[:, None, None]), cmap="RdBu_r", vmin=-1, vmax=1)
    figure.savefig(path, dpi=110)


def _beside(maps: Tensor, gap: float = np.nan) -> np.ndarray:
    padded = torch.nn.functional.pad(maps, (0, 1), value=gap)
    return torch.cat(list(padded), 1).numpy()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="*", default=[], help="names of some estimators")
    parser.add_argument("--time", action="store_true", help="time alone")
    parser.add_argument("--memory", action="store_true", help="memory alone")
    parser.add_argument("--gallery")
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")  # Captum's, about hooks and copies
    if given.gallery:
        write_gallery(given.gallery)
    else:
        if not given.memory:
            report_time(given.repeats, given.only)
        if not given.time:
            report_memory(given.only)


if __name__ == "__main__":
    main()
