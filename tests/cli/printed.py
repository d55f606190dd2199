"""What commands print, kept instead of shown."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from uproar.cli.screen import Screen


def terminal_of(monkeypatch: pytest.MonkeyPatch, width: int) -> Console:
    """A terminal of some width in place of the one that commands print to; what was printed is in its file."""
    console = Screen(width=width, file=io.StringIO(), color_system=None)
    for module in [module for name, module in sys.modules.items() if name.startswith("uproar.cli.")]:
        if isinstance(getattr(module, "output", None), Console):
            monkeypatch.setattr(module, "output", console)
    return console
