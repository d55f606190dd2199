"""The Python interface for tensors: build, explain, layers, removed, fill."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from uproar.data import Split, Task
from uproar.errors import OWN_COLOUR, BadInput, BadShape, NeedsColour, NotApplicable
from uproar.estimators import (
    Context,
    estimators,
    explain_chains,
    prepare_states,
    raw_maps,
    read_chain,
    register_function,
    require_maps,
)
from uproar.estimators.adapters import captum_object
from uproar.estimators.chain import Chain, Channels, Sign
from uproar.estimators.explain import BATCH, check_kind, output_for
from uproar.estimators.layers import chosen_layers, layer_candidates
from uproar.expression import Call, parse
from uproar.models import MemoryBudget, ModelSpec, borrowed
from uproar.models import build as build_model
from uproar.models.forward import GivenInputs, HeldInputs, holding
from uproar.models.given import read_given, taking_pixels
from uproar.models.output_kind import (
    Output,
    Pick,
    assumed_output,
    assuming_output,
    check_output,
    picked_kind,
    predicted_target,
)
from uproar.removal import FillContext, filled, ranks, removed_at
from uproar.seeds import Draws
from uproar.tensors import (
    check_batch_size,
    check_images,
    check_like,
    check_model,
    classes_of,
    colour_of,
    in_single,
    map_values,
    outside_inference_mode,
    plain,
    unusual_pixels,
)
from uproar.training import predict
from uproar.types import Images, Labels

if TYPE_CHECKING:
    import pandas as pd

Estimator = str | Callable[..., Tensor]


def build(name: str, task: Task, seed: int = 0) -> nn.Module:
    """A fresh network for a task, by name or `file.py:factory`.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> build("cnn-small", task)(task.test.images).shape
    torch.Size([4, 2])
    """
    return build_model(ModelSpec.of(name), task, seed)


@outside_inference_mode()
def explain(
    model: nn.Module,
    x: Any,
    estimator: Estimator | Sequence[Estimator] = "grad",
    *,
    target: Tensor | Sequence[int] | int | Pick | None = None,
    raw: bool = False,
    sign: Sign = "none",
    channels: Channels = "sum",
    mean: Tensor | None = None,
    train: Tensor | None = None,
    truth: Tensor | None = None,
    seed: int = 0,
    index: Sequence[int] | None = None,
    split: str = "test",
    batch_size: int = BATCH,
    output: Output = "auto",
    inputs: GivenInputs = None,
    normalise: Any = None,
) -> Any:
    """Maps of the images, (n, h, w), larger = more important; for several estimators, a dict of them.

    `x` are images (n, c, h, w) in [0, 1]; or whatever `choose` takes, of which all are read. `normalise` is that of
    `choose`: how the network's images are normalised.

    `target` is what is explained: the class (of one logit 0, no, or 1, yes), the label or the component of a
    regression, for all images or for each; or a function that takes one number per image from the model's answer. By
    default it is what the model predicts. `raw=True` gives the signed maps (n, c, h, w) before channels are reduced.
    `index` says which samples of their data set these are: random numbers follow the sample, so
    that `explain(x[5:], index=range(5, n))` equals `explain(x)[5:]`. Some estimators need `train` (images), `mean`
    (colour) or `truth` (the important pixels, (n, h, w) bool). `batch_size` images are explained at a time, fewer when
    memory runs out; no map depends on it. `output` says what the model answers: `softmax` (`logit` or `probability`
    where that is to be said), `sigmoid` of one logit or of several labels, `regression`, or `auto`, what it looks like.
    `inputs` are what the model takes beside the images, by name or in order, and are held fixed. The model is given
    back as it came.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> images, labels, model = task.test.images, task.test.labels, uproar.build("cnn-small", task)
    >>> explain(model, images, "sg_sq(grad, samples=4)", target=labels).shape
    torch.Size([4, 8, 8])
    >>> {name: tuple(maps.shape) for name, maps in explain(model, images, ["grad", "ig"]).items()}
    {'grad': (4, 8, 8), 'ig': (4, 8, 8)}
    """
    check_model(model)
    if not isinstance(x, Tensor) or normalise is not None:
        options = locals().copy()
        pixels, _ = read_given(options.pop("x"))
        with taking_pixels(options.pop("model"), pixels, options.pop("normalise"), x) as (network, pixels):
            return explain(network, pixels, **options)
    check_images(x)
    for sentence in unusual_pixels(x):
        warnings.warn(sentence, stacklevel=3)  # a decorator stands between
    check_like(train, x, "train")
    check_batch_size(batch_size)
    check_output(output)
    x, train = in_single(plain(x)), None if train is None else in_single(plain(train))
    mean, truth = plain(colour_of(mean, x, "mean")), plain(truth)
    several = isinstance(estimator, Sequence) and not isinstance(estimator, str)
    wanted: Any = estimator if several else [estimator]
    if not wanted:
        raise BadInput("There are no estimators: give at least one.")
    chains = require_maps([chain_of(e, sign, channels) for e in wanted])
    rows = range(len(x)) if index is None else index
    if len(rows) != len(x):
        raise BadShape(f"There are {len(x)} images but {len(rows)} indices.")
    budget, draws = MemoryBudget(batch_size), Draws.of(seed, rows, split)
    if isinstance(target, int):
        target = torch.full((len(x),), target, device=x.device)
    elif target is not None and not callable(target):
        target = classes_of(plain(target), len(x), "targets").to(x.device)
    known = None if train is None else Split("train", train, torch.zeros(len(train), dtype=torch.long))
    if train is not None and mean is None:
        mean = train.mean((0, 2, 3))
    held = None if inputs is None else HeldInputs.of(inputs, len(x))

    def maps_of(rows: slice) -> list[Tensor]:
        """The maps of some of the images, by estimator."""
        images, followed = x[rows], target if target is None or callable(target) else target[rows]
        if callable(target):
            kind = picked_kind(target, output)
            check_kind([chain.raw for chain in chains], kind)
        else:
            kind = budget.run(lambda size: output_for(model, images, chains, size, output))
        with assuming_output(kind):
            classes = budget.run(lambda size: _targets(model, images, followed, size))
            context = Context(draws[rows], mean, known, None if truth is None else truth[rows])
            with borrowed(model), torch.no_grad():
                context = replace(context, states=prepare_states(model, replace(context, truth=None), chains))
            if not raw:
                return budget.run(lambda size: explain_chains(model, images, classes, context, chains, size))
            calls = [chain.raw for chain in chains]
            by_call = budget.run(lambda size: raw_maps(model, images, classes, context, calls, size))
            return [by_call[call] for call in calls]

    with holding(model, held):
        if held is None or not held.by_image:
            try:
                maps = maps_of(slice(0, len(x)))
            except NeedsColour:
                warnings.warn(OWN_COLOUR, stacklevel=3)
                mean = x.mean((0, 2, 3))
                maps = maps_of(slice(0, len(x)))
        else:
            for chain in chains:
                if chain.facts.get("prepare"):
                    raise NotApplicable(
                        f"{chain.name} learns from training images, whose inputs are not known: give inputs= that all "
                        "share"
                    )
            pieces = []
            for image in range(held.images):
                held.image = image
                pieces.append(maps_of(slice(image, image + 1)))
            maps = [torch.cat(images) for images in zip(*pieces, strict=True)]
    return {c.name: a for c, a in zip(chains, maps, strict=True)} if several else maps[0]


@outside_inference_mode()
def layers(
    model: nn.Module,
    x: Tensor,
    estimator: Estimator | None = None,
    *,
    output: Output = "auto",
    inputs: GivenInputs = None,
) -> pd.DataFrame:
    """The layers of a model that methods can look at, one row each: name, module, output's shape, places, default_of.

    With `estimator`, only those that it looks at in these images: named in it, or found by its rule. `output` and
    `inputs` are those of `explain`.

    >>> import uproar
    >>> task = uproar.load("planted(size=8, classes=2, train=16, test=4)")
    >>> images, labels, model = task.test.images, task.test.labels, uproar.build("cnn-small", task)
    >>> layers(model, images, "grad_cam")[["layer", "shape"]].values.tolist()
    [['3.0', (32, 2, 2)]]
    """
    import pandas as pd  # explaining needs none of it

    check_model(model)
    check_images(x)
    check_output(output)
    few = in_single(plain(x[:2]))
    chains = [] if estimator is None else [chain_of(estimator, "none", "sum")]
    held = None if inputs is None else HeldInputs.of(inputs, len(x), image=0)
    with holding(model, held), assuming_output(output_for(model, few, chains, len(few), output)):
        candidates, _ = layer_candidates(model, few)
        names = chosen_layers(model, few, chains).get(chains[0].name, ()) if chains else None
    rows = [
        {"layer": c.name, "module": c.module, "shape": c.shape, "places": c.grid, "default_of": ", ".join(c.default_of)}
        for c in candidates
        if names is None or c.name in names
    ]
    return pd.DataFrame(rows, columns=["layer", "module", "shape", "places", "default_of"])


def removed(
    maps: Tensor, fraction: float, *, seed: int = 0, index: Sequence[int] | None = None, split: str = "test"
) -> Tensor:
    """The most important pixels: bool, exactly `round(fraction · h · w)` True in every image.

    >>> removed(torch.zeros(2, 8, 8), 0.3).sum((1, 2))
    tensor([19, 19])
    """
    if not isinstance(maps, Tensor) or maps.dim() not in (3, 4):
        got = tuple(maps.shape) if isinstance(maps, Tensor) else type(maps).__name__
        raise BadShape(f"Maps are a tensor (n, h, w), or (n, c, h, w) per channel, not {got}.")
    rows = range(len(maps)) if index is None else index
    if len(rows) != len(maps):
        raise BadShape(f"There are {len(maps)} maps but {len(rows)} indices.")
    places = ranks(map_values(maps).flatten(1), Draws.of(seed, rows, split))
    return removed_at(places, fraction, maps.shape[1:])


def fill(
    x: Tensor,
    removed: Tensor,
    fill: str = "mean",
    *,
    value: Tensor | Sequence[float] | None = None,
    noise: float | None = None,
    train: Tensor | None = None,
    seed: int = 0,
    index: Sequence[int] | None = None,
    split: str = "test",
) -> Tensor:
    """The images with the removed pixels replaced; all others stay bit for bit.

    The fill `mean` takes its colour from `value`, `linear` the size of its noise from `noise`, `resample` its pixels
    from the images `train`. Without `value`, the mean colour is that of `train` where it is given.

    >>> fill(torch.ones(1, 1, 2, 2), torch.tensor([[[True, False], [False, False]]]), "zero")[0, 0]
    tensor([[0., 1.],
            [1., 1.]])
    """
    check_images(x)
    check_like(train, x, "train")
    if not isinstance(removed, Tensor) or removed.dtype != torch.bool:
        got = removed.dtype if isinstance(removed, Tensor) else type(removed).__name__
        raise BadInput(f"`removed` is a tensor of bool, such as uproar.removed returns, not {got}.")
    if value is None and train is not None:
        value = train.mean((0, 2, 3))
    colour = colour_of(value, x, "value")
    if noise is not None:
        call = parse(fill)
        fill = str(Call(call.name, (), tuple(sorted({**dict(call.options), "noise": float(noise)}.items()))))
    rows = range(len(x)) if index is None else index
    return filled(x, removed, fill, FillContext(Draws.of(seed, rows, split), colour, train))


def chain_of(estimator: Estimator, sign: Sign, channels: Channels) -> Chain:
    """The chain of an estimator by name, or of a function, which is declared under its name."""
    name = estimator if isinstance(estimator, str) else declared_method(estimator)
    return read_chain(name, sign, channels)


def declared_method(method: Any, name: str = "", model: nn.Module | None = None) -> str:
    """The name under which a function, or an Attribution object of Captum that was made for `model`, is declared."""
    if hasattr(method, "attribute"):
        name = name or type(method).__name__
        method = captum_object(method, model)
    name = name or getattr(method, "__name__", "")
    if not callable(method) or not name.isidentifier():
        raise BadInput(
            f"A method is a name, a function with a name (def, or {{'mine': function}}), or maps, not {method!r}."
        )
    if name not in estimators or estimators[name].function is not method:
        register_function(name, method)
    return name


def _targets(model: nn.Module, x: Images, target: Any, batch_size: int) -> Labels:
    if callable(target):
        return torch.full((len(x),), int(assumed_output().kind == "sigmoid"), device=x.device)
    if target is None:
        answers = predict(model, x, batch_size)
        lost = (~answers.isfinite().all(1)).nonzero()[:, 0].tolist()
        if lost:
            raise BadInput(
                f"The model's answers to {len(lost)} of {len(x)} images are NaN or infinite (first: image {lost[0]}): "
                "it predicts no class for them; give target=, or leave them out."
            )
        return predicted_target(answers)
    return target
