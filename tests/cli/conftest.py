"""Fixtures for tests of the command line."""

import pytest

from tests.cli.terminal import Commands


@pytest.fixture(scope="session")
def commands():
    """Commands of the program on a terminal and through pipes."""
    running = Commands()
    yield running
    running.close()
