"""What the makers of agents' logs share: the file, what its reader finds, the session that it folds to."""

from typing import Any, ClassVar

from lore.formats.base import Reader
from lore.model.codes import Problem
from lore.model.events import TurnCompleted
from lore.testing import everything
from model.making import Fold, dumps


class Recorded:
    """A log that grows, a record a line."""

    reader: ClassVar[type[Reader]]
    lines: list[dict[str, Any]]

    def data(self) -> bytes:
        """The file."""
        return b"".join(dumps(line) + b"\n" for line in self.lines)

    def read(self) -> list[Any]:
        """What the reader finds."""
        return [read.value for read in everything(self.reader(), self.data())]

    def folded(self) -> Fold:
        """The session that the records fold to, the reader's problems among the fold's."""
        return folded(self.reader, self.data())


def folded(reader: type[Reader], data: bytes) -> Fold:
    """The session that a file folds to."""
    fold = Fold()
    for read in everything(reader(), data):
        if isinstance(read.value, Problem):
            fold.problems.append(read.value)
        else:
            fold.take(read.value)
    return fold


def items(log: Recorded, chain: str = "main") -> list[Any]:
    """The items of a chain's timeline."""
    return [entry.item for entry in log.folded().state.chain(chain).entries]


def ends(log: Recorded, chain: str | None = None) -> list[tuple[Any, ...] | None]:
    """Uncached, read and output tokens of each request that ended, of all chains or of one."""
    values = [value for value in log.read() if isinstance(value, TurnCompleted) and chain in (None, value.chain)]
    bills = [value.usage for value in values]
    return [bill and (bill.uncached_tokens, bill.read_tokens, bill.output_tokens) for bill in bills]
