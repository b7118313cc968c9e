"""Two big files that differ in their last byte, and hold no JSON."""

import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple

BLOCK = 1 << 20
HEADROOM = 512 << 20  # left free on the disk, and in memory for everything else
FIRST = b"no recording\n"


class Affordable(NamedTuple):
    """The size of each of two files, with a remark if it is less than requested."""

    size: int
    note: str


def affordable(folder: Path, wanted: int) -> Affordable:
    """Return how big two files may be: they must fit on the disk and stay in memory while compared."""
    room = min(shutil.disk_usage(folder).free, _memory()) - HEADROOM
    size = min(wanted, max(BLOCK, room // 2))
    note = "" if size == wanted else f" (scaled down from {wanted:,}: not enough free disk or memory)"
    return Affordable(size, note)


def _memory() -> int:
    try:
        for line in Path("/proc/meminfo").read_text("ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 1 << 62  # unknown: let the disk decide


class Two(NamedTuple):
    """Two files."""

    left: Path
    right: Path


def pair(folder: Path, size: int) -> Two:
    """Write both."""
    two = Two(folder / "left.bin", folder / "right.bin")
    chance = random.Random(7)
    with two.left.open("wb") as file:
        file.write(FIRST)
        rest = size - len(FIRST)
        while rest > 0:
            file.write(chance.randbytes(min(BLOCK, rest)))
            rest -= BLOCK
    shutil.copyfile(two.left, two.right)
    with two.right.open("r+b") as file:
        file.seek(-1, os.SEEK_END)
        last = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes((last ^ 1,)))
    return two


def warm(*paths: Path) -> None:
    """Read files, so that they are compared from memory."""
    for path in paths:
        with path.open("rb", buffering=0) as file:
            while file.read(BLOCK):
                pass
