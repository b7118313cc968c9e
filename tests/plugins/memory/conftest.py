"""Every test runs in an empty folder, without settings from outside."""

from cli.conftest import empty_folder  # noqa: F401 - a fixture
