"""Hostile inputs by class, each made from a fixed seed; `attack.py` runs and counts them.

A class is a function of a random generator and a number of inputs. It yields attacks: names, and calls that raise if
lore fails. They run in an empty folder. Slow expressions, templates and short lines are tests in `tests/hostile`.
"""

import itertools
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from cli.running import Ran, lore
from fuzz import mutate, properties, samples
from hostile.captured import WRITERS, capture, named
from hostile.formats import FORMATS, recording
from store.killing import kills

FILE = "FILE"  # in the words of a command: the input
COMMANDS = tuple(
    tuple(words.split()) for words in (
        "check FILE --json", "check FILE", "diff-prefix FILE", "diff-prefix FILE other.jsonl --json",
        "fold FILE --json", "simulate FILE", "lint FILE", "assemble FILE", "assemble FILE --all",
        "convert FILE --to lore", "compact FILE --dry-run", "compare FILE other.jsonl", "statusline FILE",
    )
)  # fmt: skip
ENDED = (0, 1, 2, 3)  # exit codes that are answers


class Attack(NamedTuple):
    """A hostile input: its name, and a call that raises if lore fails."""

    name: str
    run: Callable[[], object]


Attacks = Iterator[Attack]


def some(found: Iterable[Any], chance: Random, count: int) -> list[Any]:
    """Return up to `count` values at random, in their order."""
    every = list(found)
    return [every[at] for at in sorted(chance.sample(range(len(every)), min(count, len(every))))]


def answered(*words: str) -> Ran:
    """Run a command; it must end with one of its exit codes."""
    ran = lore(*words)
    assert ran.code in ENDED, f"exit code {ran.code}: {ran.err[-300:]}"
    assert "Traceback" not in ran.out + ran.err
    return ran


def commands(file: str, data: bytes, chosen: tuple[tuple[str, ...], ...] = COMMANDS) -> Callable[[], None]:
    """Return a run of commands over one file."""

    def run() -> None:
        Path(file).write_bytes(data)
        Path("other.jsonl").write_bytes(recording("bodies"))
        for words in chosen:
            answered(*(file if word == FILE else word for word in words))

    return run


def whole() -> dict[str, bytes]:
    """Return a recording of each kind, by the name of its file."""
    found = {f"{kind}-{named(kind)}": capture(kind) for kind in WRITERS}
    return found | {f"{kind}.jsonl": recording(kind) for kind in FORMATS}


def files(chance: Random, count: int) -> Attacks:
    """Files of every format: cut, joined, with bytes that no text has, as something else than they are called."""
    known = whole()
    damages: dict[str, Callable[[bytes, bytes], bytes]] = {
        "cut": lambda data, _: data[: chance.randint(0, len(data))],
        "without its middle": lambda data, _: data[: len(data) // 3] + data[len(data) // 2 :],
        "twice": lambda data, _: data + data,
        "before another": lambda data, other: data + other,
        "in UTF-16": lambda data, _: data.decode("utf-8", "replace").encode("utf-16"),
        "with NUL": lambda data, _: data.replace(b":", b":\x00", 3),
        "without quotes": lambda data, _: data.replace(b'"', b"", chance.randint(1, 9)),
        "after a byte order mark": lambda data, _: b"\xef\xbb\xbf" + data,
        "with no UTF-8": lambda data, _: data.replace(b"e", b"\xc3\x28", chance.randint(1, 9)),
        "as one line": lambda data, _: data.replace(b"\n", b" "),
    }
    for (file, data), (what, damage) in some(itertools.product(known.items(), damages.items()), chance, count):
        yield Attack(f"{file}, {what}", commands(file, damage(data, chance.choice(list(known.values())))))


def mutations(chance: Random, count: int) -> Attacks:
    """Mutated recordings, real ones too if they are available, against every property of `fuzz.properties`."""
    found = samples.gather()
    for number in range(count):
        name, donor = chance.choice(list(found)), chance.choice(list(found))
        data = mutate.mutate(found[name], found[donor], chance)
        yield Attack(
            f"{name}, mutation {number}",
            lambda data=data, other=found[name]: properties.examine(data, other, Path.cwd()),
        )


def killed(chance: Random, count: int) -> Attacks:
    """Writers killed at random moments: nothing that was acknowledged is lost or doubled."""
    for number in range(count):
        for scheme in ("jsonl", "sqlite"):
            url, seed = f"{scheme}:killed-{number}-{scheme}", chance.random()
            yield Attack(f"{scheme}, kill {number}", lambda url=url, seed=seed: kills(url, 1, Random(seed)))


def damaged(chance: Random, count: int) -> Attacks:
    """Stores with changed bytes or cut ends: an export is what was written, or the command reports the damage.

    A log that is cut between two events is a shorter session: nothing in it can say that there was more.
    """
    for scheme in ("jsonl", "sqlite"):
        url = f"{scheme}:whole-{scheme}"
        assert lore("store", "import", *_sessions(), "--store", url).code == 0
        (place,) = (path for path in Path().glob(f"whole-{scheme}*") if not path.name.endswith(("-wal", "-shm")))
        kept = {
            path: path.read_bytes() for path in ([place] if place.is_file() else place.rglob("*")) if path.is_file()
        }
        ids = [one["session_id"] for one in lore("store", "list", "--store", url, "--json").json["sessions"]]
        written = {one: lore("store", "export", one, "--store", url).out for one in ids}
        for number in range(count // 2):
            path = chance.choice([one for one, data in kept.items() if data])
            data, at = kept[path], chance.randrange(len(kept[path]))
            changed = (
                data[:at]
                if number % 4 == 0
                else data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
            )
            yield Attack(
                f"{path}, {'cut' if number % 4 == 0 else 'changed'} at byte {at}",
                lambda path=path, data=data, changed=changed, url=url, written=written: _told(
                    path, data, changed, url, written
                ),
            )


def _sessions() -> list[str]:
    return [str(path) for path in sorted((samples.ROOT / "fixtures" / "sessions").glob("*.jsonl"))]


def _told(path: Path, data: bytes, changed: bytes, url: str, written: dict[str, str]) -> None:
    path.write_bytes(changed)
    try:
        answered("store", "list", "--store", url)
        verified = answered("store", "verify", "--store", url).code
        for one, text in written.items():
            ran = answered("store", "export", one, "--store", url)
            same = ran.out == text or (data.startswith(changed) and text.startswith(ran.out))
            assert ran.code != 0 or same or verified != 0, f"{one} is read as something else, and verified"
    finally:
        path.write_bytes(data)


def writers(_: Random, count: int) -> Attacks:
    """Processes that append to one session at the same time: each event is there once."""
    for number in range(count):
        for scheme in ("jsonl", "sqlite"):
            yield Attack(
                f"{scheme}, four writers, {number}", lambda url=f"{scheme}:shared-{number}-{scheme}": _shared(url)
            )


def _shared(url: str) -> None:
    header = b'{"kind":"session_started","session_id":"s"}\n'
    append = [sys.executable, "-m", "lore", "store", "append", "s", "--store", url]
    subprocess.run(append, input=header, check=True, stdout=subprocess.DEVNULL)
    lines = [
        b"".join(b'{"kind":"append","item":{"type":"user_message","uuid":"w%d-%d","text":"x"}}\n' % (writer, event)
                 for event in range(20))
        for writer in range(4)
    ]  # fmt: skip
    running = [subprocess.Popen(append, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) for _ in lines]
    for process, data in zip(running, lines, strict=True):
        assert process.stdin is not None
        process.stdin.write(data)
        process.stdin.close()
    codes = [process.wait() for process in running]
    assert codes == [0] * 4, codes
    found = re.findall(r'"uuid":"(w\d-\d+)"', lore("store", "export", "s", "--store", url).out)
    assert sorted(found) == sorted(f"w{writer}-{event}" for writer in range(4) for event in range(20))


def nesting(chance: Random, count: int) -> Attacks:
    """Values nested in each other, in a field of every format and as the whole file."""
    shapes = {"lists": (b"[", b"]"), "objects": (b'{"a":', b"}"), "lists without an end": (b"[", b"")}
    tried = itertools.product((100, 900, 1_100, 5_000, 100_000), shapes.items(), (*FORMATS, ""))
    for depth, (what, (begin, end)), kind in some(tried, chance, count):
        value = begin * depth + b"1" + end * depth
        data = recording(kind, value=value) if kind else value
        yield Attack(f"{depth:,} {what} in {kind or 'a file'}", commands("nested.jsonl", data))


# The classes, each with its number of inputs: enough for minutes.
CLASSES: dict[str, tuple[Callable[[Random, int], Attacks], int]] = {
    "hostile files": (files, 400),
    "mutated recordings": (mutations, 600),
    "kills while writing": (killed, 10),
    "damaged stores": (damaged, 120),
    "concurrent writers": (writers, 5),
    "nesting": (nesting, 200),
}

if os.name == "nt":  # writers are fed through pipes that only POSIX can wait for
    del CLASSES["kills while writing"]
