"""Fixtures of the audits' tests."""

from __future__ import annotations

import pytest

from tests.audits.made_up import framed, textured
from uproar.data import tasks


@pytest.fixture
def made_up_tasks():
    """`textured(grain=blocks)`, `textured(grain=noise)` and `framed(border=0.7)` are tasks during a test."""
    for made in (textured, framed):
        tasks.add(made.__name__, made, images="made up", truth="none")
    yield
    for made in (textured, framed):
        del tasks._entries[made.__name__]
