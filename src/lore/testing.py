"""Contract suites for those who add a format or a dialect of their own.

Subclass one, give it what it asks for, and let pytest collect the subclass:

    class TestMyReader(ReaderContract):
        reader = MyReader
        samples = (b"...",)

Needs pytest only to be collected; plain asserts inside.
"""

from __future__ import annotations

from typing import ClassVar

import msgspec

from lore.formats.base import Read, Reader
from lore.model.problems import Problem
from lore.model.prompt import Prompt
from lore.prompt.base import Dialect, Memo


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
                first = reader.feed(sample[:cut])
                restored = self.reader.restore(reader.state)
                assert _shown([*first, *everything(restored, sample[cut:])]) == whole, cut

    def test_garbage_gives_problems_and_nothing_else(self) -> None:
        for junk in (b"", b"\x00\xff\n", b"{", b"[1,2]\n", b'{"a":', b"null\n\n", b'"\\ud800"\n', b"{}{}\n"):
            for read in everything(self.reader(), junk):
                assert read.line >= 1
                assert isinstance(read.value, Problem) or read.byte >= 0


class DialectContract:
    """What every dialect must do; `prompts` are prompts that it assembled or parsed."""

    dialect: ClassVar[Dialect]
    prompts: ClassVar[tuple[Prompt, ...]]

    def test_what_is_written_parses_to_the_same_segments(self) -> None:
        for prompt in self.prompts:
            parsed = self.dialect.parse(self.dialect.write(prompt), prompt.fidelity, Memo())
            assert list(parsed) == list(prompt)
            assert [one.path for one in parsed] == [one.path for one in prompt]

    def test_it_recognises_what_it_writes(self) -> None:
        for prompt in self.prompts:
            body = msgspec.json.decode(self.dialect.write(prompt), type=dict[str, msgspec.Raw])
            assert self.dialect.recognises({key: bytes(value) for key, value in body.items()})


def _shown(reads: list[Read]) -> list[tuple[bytes, int, int]]:
    """Put reads into bytes that can be compared; the vectors of a prompt are written as lists."""
    return [(msgspec.json.encode(read.value, enc_hook=list), read.line, read.byte) for read in reads]
