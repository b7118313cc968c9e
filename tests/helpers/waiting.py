"""What waits for a followed file in tests: instead of sleeping, the next thing happens to the file."""

from collections.abc import Callable
from pathlib import Path


class Script:
    """Do one thing each time that a follower waits; then end it."""

    def __init__(self, *actions: Callable[[], object]) -> None:
        self._actions = list(actions)

    def __call__(self) -> bool:
        if not self._actions:
            return False
        self._actions.pop(0)()
        return True


def add(path: Path, data: bytes) -> Callable[[], object]:
    """Append to a file, which need not exist."""

    def act() -> None:
        with path.open("ab") as file:
            file.write(data)

    return act
