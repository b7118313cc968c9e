"""Text that makes regular expressions slow takes about as much time as ordinary text of the same size."""

import functools
import time

import pytest

from cli.running import lore, put
from helpers.matrix import some

PUMPS = (  # the first two once took minutes
    ":", "12:", "a", " ", "\n", "0", "-", "/", "\\", "<", ">", "{", "}", "[", ".", "=", "_", "'", '"', "`", "#", "*",
    "é", "\t", "a ", "a:", "a=", "0-", "0:", "0.", "2026-01-0", "://a:", "a@", "sk-", "eyJa.", "AKIA", "Bearer ",
    "<a>", "</", "Today is ", "- a\n", "\n\n", "a\r\n", "token=", "-----BEGIN ", "/a", "C:\\", "0x", "abc123",
)  # fmt: skip
ENDS = ("\n", "!", '"', "=", "a")  # what follows: an expression that fails only there is tried from each place before
SIZE = 65_536
MOST, SPARE = 20, 0.5  # times the ordinary text, and seconds by which a measurement may be off


def seconds(text: str) -> float:
    """Return the CPU seconds of comparing and judging two requests that hold a text."""
    for turn in range(2):
        messages = [{"role": "user", "content": f"{turn}{text}"}]
        put(
            f"{turn}.json",
            {"model": "claude-opus-4-8", "max_tokens": 9, "system": f"{text}{turn}", "messages": messages},
        )
    before = time.process_time()
    assert lore("diff-prefix", "0.json", "1.json").code == 0
    assert lore("check", "0.json", "1.json", "--json").code in (0, 1)
    return time.process_time() - before


@functools.cache
def usual() -> float:
    """Return the seconds that ordinary text takes."""
    return max(seconds(("The parser drops the last row of a file. " * SIZE)[:SIZE]), 0.05)


@pytest.mark.parametrize("end", some(ENDS))
@pytest.mark.parametrize("pump", some(PUMPS, 2))
def test_repeated_text_is_judged_like_ordinary_text(desk, pump, end):
    assert seconds((pump * SIZE)[:SIZE] + end) <= MOST * usual() + SPARE
