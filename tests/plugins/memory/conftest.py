"""Every test runs in an empty folder, without settings from outside, and with locks of its own."""

import pytest

from cli.conftest import empty_folder  # noqa: F401 - a fixture


@pytest.fixture(autouse=True)
def own_state(state: None) -> None:
    """Keep locks in the test's own folder."""
