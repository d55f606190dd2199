"""Models with several inputs: the images are changed and explained, all else is held fixed.

Inside `holding(model, inputs)` the model is called with the other inputs beside the images. A tensor with one row
stands for all images, one with a row for each image belongs to that image, and anything else is given as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from uproar.checks import plain
from uproar.errors import BadInput

GivenInputs = Mapping[str, Any] | Sequence[Any] | None
"""By the name of the argument, or in order behind the images."""


@dataclass
class HeldInputs:
    """The inputs of a model beside the images, of which there are so many."""

    positional: tuple[Any, ...]
    named: dict[str, Any]
    images: int
    image: int | None = None
    """The image that is asked about, where inputs belong to images."""

    @classmethod
    def of(cls, given: Any, images: int, image: int | None = None) -> HeldInputs:
        """The inputs as they were given, refused where they are none."""
        if isinstance(given, Mapping):
            return cls((), {name: plain(value) for name, value in given.items()}, images, image)
        if isinstance(given, Tensor | str) or not isinstance(given, Sequence):
            raise BadInput(
                "inputs= are the model's inputs beside the images, by name ({'age': ages}) or in order ([ages]), not "
                f"{type(given).__name__}."
            )
        return cls(tuple(map(plain, given)), {}, images, image)

    @property
    def by_image(self) -> bool:
        """Whether some belong to single images."""
        return any(self._rows(value) == self.images > 1 for value in (*self.positional, *self.named.values()))

    def beside(self, count: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What the model gets beside `count` images, which are versions of one image where inputs belong to images."""
        return (
            tuple(self._for(value, count) for value in self.positional),
            {name: self._for(value, count) for name, value in self.named.items()},
        )

    def _for(self, value: Any, count: int) -> Any:
        rows = self._rows(value)
        if rows == self.images > 1:
            if self.image is None:
                raise BadInput("An input that belongs to single images was asked for without saying of which image.")
            value, rows = value[self.image : self.image + 1], 1
        return value.expand(count, *value.shape[1:]) if rows == 1 else value

    def _rows(self, value: Any) -> int | None:
        return len(value) if isinstance(value, Tensor) and value.dim() else None

    @property
    def odd(self) -> list[str]:
        """Which have neither one row nor one for each image: right only for a model that takes them as they are."""
        by_name = {**{str(place): value for place, value in enumerate(self.positional)}, **self.named}
        return [
            f"{name!r} has {rows}"
            for name, value in by_name.items()
            if (rows := self._rows(value)) not in (None, 1, self.images)
        ]


@contextmanager
def holding(model: nn.Module, held: HeldInputs | None) -> Iterator[None]:
    """Inside, the model gets these inputs beside the images, however it is called; its layers keep their names."""
    if held is None:
        yield
        return

    def add(
        _module: nn.Module, given: tuple[Any, ...], named: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        positional, more = held.beside(len(given[0]))
        return (*given, *positional), {**named, **more}

    hook = model.register_forward_pre_hook(add, with_kwargs=True)
    try:
        yield
    except BadInput as error:
        if not held.odd or error.__cause__ is None:
            raise
        raise BadInput(
            f"The model refuses its inputs=: of these, {', '.join(held.odd)} rows where 1 (for all images) or "
            f"{held.images} (one for each image) are expected."
        ) from error
    finally:
        hook.remove()
