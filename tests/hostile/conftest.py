"""The command, as the tests of hostile input run it."""

import pytest

from hostile.making import Ended, run


@pytest.fixture
def lore(desk, capsys):
    """Run lore in an empty folder; whatever happens it must not look like a crash."""

    def command(*words: str) -> Ended:
        return run(capsys, *words)

    return command
