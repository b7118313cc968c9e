"""What every reader of a format must do."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from lore.formats.base import Read, Reader
from lore.model.codes import Problem


def everything(reader: Reader, data: bytes) -> list[Read]:
    """Feed all of it at once."""
    return [*reader.feed(data), *reader.finish()]


class ReaderContract:
    """What every reader must do; `samples` are whole recordings of its format."""

    reader: ClassVar[type[Reader]]
    samples: ClassVar[tuple[bytes, ...]]

    def test_recognises_its_samples(self) -> None:
        for sample in self.samples:
            assert self.reader.recognises(sample)

    def test_any_cut_gives_the_same(self) -> None:
        for sample in self.samples:
            whole = _shown(everything(self.reader(), sample))
            for cut in range(0, len(sample) + 1, max(1, len(sample) // 40)):
                reader = self.reader()
                first = [*reader.feed(sample[:cut])]
                restored = self.reader.restore(reader.state)
                assert _shown([*first, *everything(restored, sample[cut:])]) == whole, cut

    def test_garbage_gives_problems_and_nothing_else(self) -> None:
        for junk in (b"", b"\x00\xff\n", b"{", b"[1,2]\n", b'{"a":', b"null\n\n", b'"\\ud800"\n', b"{}{}\n"):
            for read in everything(self.reader(), junk):
                assert read.line >= 1
                assert isinstance(read.value, Problem) or read.byte >= 0


def _shown(reads: list[Read]) -> list[tuple[bytes, int, int]]:
    """Put reads into bytes that can be compared; the vectors of a prompt are written as lists."""
    return [(msgspec.json.encode(read.value, enc_hook=list), read.line, read.byte) for read in reads]
