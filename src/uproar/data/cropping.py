"""One picture file as the square of bytes that a network sees: scaled, then cut from the middle."""

from __future__ import annotations

from dataclasses import dataclass
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from uproar.errors import BadInput


@dataclass(frozen=True)
class CentreCrop:
    """The shorter side is scaled to `shorter`, then the middle `size` × `size` pixels are kept.

    Bilinear with antialiasing, sizes rounded as the usual evaluation transforms of photo networks do, so that the
    accuracies stated for such networks hold here. A smaller picture is enlarged.
    """

    size: int
    shorter: int = 0
    """0: the usual 256 for 224, in proportion."""

    def __post_init__(self) -> None:
        if self.size < 1:
            raise BadInput(f"A picture is at least 1 pixel wide, not {self.size}.")
        if self.shorter == 0:
            object.__setattr__(self, "shorter", round(self.size * 256 / 224))
        if self.shorter < self.size:
            raise BadInput(
                f"The shorter side cannot be scaled to {self.shorter} and then give {self.size} pixels; "
                f"let it be at least {self.size}."
            )

    def scaled(self, width: int, height: int) -> tuple[int, int]:
        """The width and height of a picture after scaling."""
        if width <= height:
            return self.shorter, max(self.shorter, int(self.shorter * height / width))
        return max(self.shorter, int(self.shorter * width / height)), self.shorter

    def corner(self, width: int, height: int) -> tuple[int, int]:
        """Left and top of what is kept of a scaled picture."""
        return round((width - self.size) / 2), round((height - self.size) / 2)

    @property
    def key(self) -> str:
        """What enters the digest of cropped images: equal for equal crops, in all versions of this package."""
        return f"Framing(size={self.size}, shorter={self.shorter})"

    def box(self, box: tuple[float, float, float, float], width: int, height: int) -> tuple[int, ...]:
        """A box x0, y0, x1, y1 of a picture (last column and row included) in the pixels of the crop.

        What lies outside is cut off; a box that lies wholly outside becomes the nearest border pixel.
        """
        wide, high = self.scaled(width, height)
        left, top = self.corner(wide, high)
        x0, y0, x1, y1 = box
        edges = (
            x0 * wide / width - left,
            y0 * high / height - top,
            (x1 + 1) * wide / width - left - 1,
            (y1 + 1) * high / height - top - 1,
        )
        return tuple(min(max(round(edge), 0), self.size - 1) for edge in edges)

    def picture(self, path: Path, content: bytes | None = None) -> np.ndarray:
        """A picture file as (3, size, size) bytes, turned upright as its EXIF data say; `content` if it was read."""
        try:
            with Image.open(path if content is None else BytesIO(content)) as file:
                upright = _rgb(ImageOps.exif_transpose(file))
        except FileNotFoundError:
            raise BadInput(f"The picture {path} is not there.") from None
        except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
            reason = str(error).strip().rstrip(".")
            raise BadInput(f"{path} cannot be decoded ({reason}); replace the file or leave it out.") from None
        wide, high = self.scaled(*upright.size)
        left, top = self.corner(wide, high)
        scaled = upright.resize((wide, high), Image.Resampling.BILINEAR)
        kept = scaled.crop((left, top, left + self.size, top + self.size))
        return np.ascontiguousarray(np.asarray(kept).transpose(2, 0, 1))


def _rgb(picture: Image.Image) -> Image.Image:
    """Any picture in three colours; 16 bits are scaled to 8, where plain conversion would cut them off."""
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture).astype(np.float64)
        if values.max(initial=0) > 255:
            values = values / 257
        picture = Image.fromarray(values.round().clip(0, 255).astype(np.uint8))
    picture.load()
    return picture.convert("RGB")
