"""Standard input that never ends: refused at once if unrecognised, else read until it is interrupted.

No test waits for a clock: a writer stops once lore has read as much as it should ever need.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import pytest

from helpers.matrix import crossed, some
from hostile.child import MEGABYTE, TIMEOUT
from hostile.making import GOOD

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="interrupts are POSIX signals here")

COMMANDS = (("check", "-"), ("fold", "-"), ("assemble", "-"), ("diff-prefix", "-"))
LIMIT = 100 * MEGABYTE  # lore has stopped reading long before


def fed(words, first: bytes, again: bytes, enough: int, *, interrupt: bool):
    """Run lore on an endless input; return its exit code, output, errors and the bytes it read.

    With `interrupt` it is interrupted, as by a person, once it has read `enough`.
    """
    process = subprocess.Popen(
        [sys.executable, "-m", "lore", *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    taken, piece = 0, again * (65536 // len(again) + 1)
    said: list[bytes] = []
    reader = threading.Thread(target=lambda: said.extend((process.stdout.read(), process.stderr.read())))
    reader.start()
    try:
        os.write(process.stdin.fileno(), first)
        while taken < enough:
            taken += os.write(process.stdin.fileno(), piece)
        if interrupt:
            process.send_signal(signal.SIGINT)
    except BrokenPipeError:
        pass
    code = process.wait(timeout=TIMEOUT)
    reader.join()
    _closed(process.stdin)
    process.stdout.close()
    process.stderr.close()
    return code, said[0].decode(), said[1].decode(), taken


def _closed(stream) -> None:
    with contextlib.suppress(BrokenPipeError):
        stream.close()


ENDLESS = {
    "nothing": (b"", b"\x00"),
    "text": (b"", b"yes\n"),
    "objects of nothing": (b"", b"{}" + b" " * 200 + b"\n"),
    "an object without an end": (b'{"a":"', b"x"),
}


@crossed("name, command", ENDLESS, COMMANDS)
def test_endless_unrecognised_input_is_refused(desk, name, command):
    code, out, err, taken = fed(command, *ENDLESS[name], LIMIT, interrupt=False)
    assert (code, out) == (2, "")
    assert err.startswith("error: <stdin>")
    assert "Traceback" not in err
    assert taken < LIMIT


LINES = {
    "cache resets": b'{"kind":"cache_reset","reason":"x"}',
    "rubbish": b"x",
    "turns": b'{"kind":"turn_started","turn":1}',
}
ENOUGH = 512 * 1024  # more than a pipe and the beginning that formats are recognised by


@crossed("name, command", LINES, COMMANDS)
def test_endless_recording_is_read_until_interrupted(desk, name, command):
    code, _, err, _ = fed(command, GOOD, LINES[name] + b" " * 500 + b"\n", ENOUGH, interrupt=True)
    assert code == 130
    assert "Traceback" not in err
    assert "bug in lore" not in err


@pytest.mark.parametrize("command", some(COMMANDS))
def test_silent_input_is_waited_for_until_interrupted(desk, command):
    process = subprocess.Popen(
        [sys.executable, "-c", _READY, *command],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == b"reading\n"
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=TIMEOUT)
    assert (process.returncode, out) == (130, b"")
    assert b"Traceback" not in err


_READY = """
import os, sys
from lore.commands.main import main
read = os.read
def report(descriptor, size):
    if descriptor == 0:
        os.write(1, b"reading\\n")
    return read(descriptor, size)
os.read = report
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("command", some([("check", "--json", "-"), ("diff-prefix", "--json", "--no-tokens", "-")]))
def test_closed_output_is_no_error(desk, command):
    """`… | lore diff-prefix - | head -1` ends, though the input does not."""
    process = subprocess.Popen(
        [sys.executable, "-m", "lore", *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        os.write(process.stdin.fileno(), GOOD)
        for number in range(2, 3000):
            os.write(process.stdin.fileno(), b'{"kind":"turn_started","turn":%d}\n' % number)
    _closed(process.stdin)
    code = process.wait(timeout=TIMEOUT)
    assert process.stderr is not None
    assert b"Traceback" not in process.stderr.read()
    process.stderr.close()
    assert code in (0, 1)
