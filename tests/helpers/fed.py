"""Feed a reader of lines piece by piece, as a growing log does."""

from lore.formats.base import Read
from lore.formats.lines import LineCutter, TextReader


def fed(reader: TextReader, data: bytes) -> list[Read]:
    """Return what the lines of `data` hold, without ending the file."""
    return [read for line in LineCutter(times=reader.line_limit_factor).feed(data) for read in reader.read_line(line)]


def fed_in_two(reader: TextReader, data: bytes, cut: int) -> tuple[list[Read], list[Read]]:
    """Return the reads of a log that grew once: those up to a byte, and those of the rest."""
    cutter = LineCutter(times=reader.line_limit_factor)
    before = [read for line in cutter.feed(data[:cut]) for read in reader.read_line(line)]
    lines = [*cutter.feed(data[cut:]), *cutter.finish()]
    return before, [*(read for line in lines for read in reader.read_line(line)), *reader.end()]


def pieces(data: bytes, size: int) -> list[bytes]:
    """Cut bytes into pieces of this size."""
    return [data[at : at + size] for at in range(0, len(data), size)]
