"""Bitmaps of reports in tests that do not look at them: a figure is drawn as SVG, and its PNG file is one white pixel.

Both are drawn from the same lines and words; bitmaps take half of the time of drawing. The tests of figures and of
results draw everything, as do the programs that tests start as processes of their own.
"""

from __future__ import annotations

import base64

PIXEL = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAAAAAA6fptVAAAACklEQVR4nGP4DwABAQEAsTj2FAAAAABJRU5ErkJggg==")
LOOKED_AT = ("test_audits", "test_figures", "test_papers", "test_printing", "test_report", "test_score_report")
"""Files of tests/report in which bitmaps are drawn."""
drawn = False
"""Whether bitmaps are drawn at present."""


def leave_out() -> None:
    """From now on only where `drawn` is set."""
    from uproar.report.canvas import Canvas

    file = Canvas.file

    def vectors(self: Canvas, kind: str) -> bytes:
        return PIXEL if kind == "png" and not drawn else file(self, kind)

    Canvas.file = vectors  # type: ignore[method-assign]
