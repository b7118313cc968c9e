"""A line that is too long, cut anywhere: every reader passes over it and reads what follows.

`LineCutter.limit` is lowered, so that a short line is too long.
"""

import msgspec
import pytest

from helpers.fed import pieces
from hostile.formats import FORMATS, recording
from lore.formats.lines import LineCutter
from lore.formats.registry import READERS
from lore.testing import everything

LONG = b'{"kind":"' + b"x" * 600 + b'"}'


@pytest.fixture(autouse=True)
def short(monkeypatch):
    """Lines of more than 400 bytes are too long."""
    monkeypatch.setattr(LineCutter, "limit", 400)


def shown(reads):
    """Return comparable rows of the reads."""
    return [
        (type(one.value).__name__, msgspec.json.encode(one.value, enc_hook=list), one.line, one.byte) for one in reads
    ]


def with_long_lines(format: str) -> bytes:
    """A long line in the middle, another at the end without its line feed."""
    return recording(format, line=LONG) + LONG


@pytest.mark.parametrize("format", FORMATS)
def test_long_line_cut_anywhere_is_skipped(format):
    data = with_long_lines(format)
    whole = shown(everything(READERS[format](), data))
    for cut in range(0, len(data) + 1, 7):
        assert shown(READERS[format]().read([data[:cut], data[cut:]])) == whole, cut


@pytest.mark.parametrize("size", [1, 50, 401, 5000])
def test_too_long_damaged_body_is_one_problem(size):
    data = b'{"model":"m",\n"messages":[\n' + b'{"role":"user","content":"x"},\n' * 50 + b"]}\n"
    found = list(READERS["bodies"]().read(pieces(data, size)))
    assert shown(found) == shown(everything(READERS["bodies"](), data))
    assert [(one.value.code, one.line) for one in found] == [("LORE217", 1)]
