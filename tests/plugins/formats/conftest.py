"""Fixtures: the plug-in is loaded, and every test runs in an empty folder with an empty home."""

import pytest

from cli.conftest import empty_folder as empty_folder
from lore.recording.base import load_plugins


@pytest.fixture(scope="session", autouse=True)
def loaded():
    load_plugins()
