"""Every command runs in an empty folder, without settings or colours from outside."""

from cli.conftest import empty_folder  # noqa: F401 - a fixture
