"""Fixtures of the audits' tests."""

from __future__ import annotations

import pytest

from tests.audits.made_up import textured
from uproar.data import tasks


@pytest.fixture
def made_up_tasks():
    """`textured(grain=blocks)` and `textured(grain=noise)` are tasks during a test."""
    before = dict(tasks._entries)
    tasks.add("textured", textured, images="made up", truth="none")
    yield
    tasks._entries.clear()
    tasks._entries.update(before)
