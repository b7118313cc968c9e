"""Hostile inputs by class, each made from a fixed seed: what `attack.py` runs and counts.

A class is a function from chance and a number to attacks: names, and calls that raise where lore does not hold. They
run in an empty folder of their own. What is known to be hostile is taken from the tests of it; here it is multiplied.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from bench import costly
from cli.running import Ran, lore
from fuzz import mutate, properties, samples
from helpers.work import calls
from hostile import test_templates as templates
from hostile.captured import WRITERS, capture, named
from hostile.formats import FORMATS, recording
from lore.errors import LoreError
from lore.model.limits import RENDERED_CHARACTERS
from lore.prompt.sandbox import Sandbox
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
AS_MUCH = 20  # times the work of ordinary text of the same size
COSTLY = 900_000  # bytes of a file that was made to cost
FIRST = 400_000  # calls for the first short lines and entries, which are read one by one
SPARE = 0.5  # seconds of CPU that a measurement may be off by


class Attack(NamedTuple):
    """One hostile input: what it is, and what to do with it; raises where lore does not hold."""

    name: str
    run: Callable[[], object]


Attacks = Iterator[Attack]


def some(found: Iterable[Any], chance: Random, count: int) -> list[Any]:
    """Return so many at random, in their order; all where there are no more."""
    every = list(found)
    return [every[at] for at in sorted(chance.sample(range(len(every)), min(count, len(every))))]


def answered(*words: str) -> Ran:
    """Run a command; it has to answer, however it answers."""
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
        "behind a mark": lambda data, _: b"\xef\xbb\xbf" + data,
        "with no UTF-8": lambda data, _: data.replace(b"e", b"\xc3\x28", chance.randint(1, 9)),
        "as one line": lambda data, _: data.replace(b"\n", b" "),
    }
    for (file, data), (what, damage) in some(itertools.product(known.items(), damages.items()), chance, count):
        yield Attack(f"{file}, {what}", commands(file, damage(data, chance.choice(list(known.values())))))


def mutations(chance: Random, count: int) -> Attacks:
    """Recordings, real ones where there are any, changed where their structure is: every law of `fuzz.properties`."""
    found = samples.gather()
    for number in range(count):
        original, donor = chance.choice(found), chance.choice(found)
        data = mutate.mutate(original.data, donor.data, chance)
        yield Attack(
            f"{original.name}, mutation {number}",
            lambda data=data, other=original.data: properties.examine(data, other, Path.cwd()),
        )


PUMPS = (
    "a", " ", "\n", "0", "-", "/", "\\", "<", ">", "{", "}", "[", ":", ".", "=", "_", "'", '"', "`", "#", "*", "é",
    "\t", "a ", "a:", "a=", "0-", "0:", "0.", "2026-01-0", "12:", "://a:", "a@", "sk-", "eyJa.", "AKIA", "Bearer ",
    "<a>", "</", "Today is ", "- a\n", "\n\n", "a\r\n", "token=", "-----BEGIN ", "/a", "C:\\", "0x", "abc123",
)  # fmt: skip


def expressions(chance: Random, count: int) -> Attacks:
    """Text that makes regular expressions slow: as much work as ordinary text of the same size, within a factor."""
    size = 65_536
    ordinary = ("The parser drops the last row of a file. " * size)[:size]
    usual = max(_work(ordinary), 0.05)

    def run(text: str) -> None:
        took = _work(text)
        assert took <= AS_MUCH * usual + SPARE, f"{took:.1f} s of CPU, ordinary text {usual:.2f} s"

    pumped = [(pump, "") for pump in PUMPS] + [(pump, chance.choice(PUMPS)) for pump in PUMPS]
    for pump, end in some(pumped, chance, count):
        text = (pump * size)[:size] + end + "!"
        yield Attack(f"{pump!r} repeated, then {end!r}", lambda text=text: run(text))


def _work(text: str) -> float:
    """Return the CPU seconds of comparing and judging two requests that hold a text, in places that are looked at."""
    bodies = [
        {"model": "claude-opus-4-8", "max_tokens": 9, "system": f"{text}{turn}",
         "messages": [{"role": "user", "content": f"{turn}{text}"}]}
        for turn in range(2)
    ]  # fmt: skip
    Path("pumped.jsonl").write_text("".join(json.dumps(body) + "\n" for body in bodies), "utf-8")
    before = time.process_time()
    answered("diff-prefix", "pumped.jsonl")
    answered("check", "pumped.jsonl", "--json")
    return time.process_time() - before


def escapes(chance: Random, count: int) -> Attacks:
    """Templates that reach for Python, files, recursion or endless output: refused, or harmless text."""
    attributes = (
        "__class__",
        "__globals__",
        "__init__",
        "__mro__",
        "__subclasses__",
        "gi_frame",
        "func_code",
        "__dict__",
    )
    subjects = ("''", "messages", "messages[0]", "self", "cycler", "namespace", "raise_exception", "loop", "joiner()")
    ways = ("{0}.{1}", "{0}['{1}']", "{0}|attr('{1}')", "[{0}]|map(attribute='{1}')|list", "'{{0.{1}}}'.format({0})",
            "[{0}]|map('attr','{1}')|list", "({0},)|first|attr('{1}')", "{0}|attr('{1}'|lower)")  # fmt: skip
    made = [way.format(*pair) for way in ways for pair in itertools.product(subjects, attributes)]
    tables = (templates.DEEP, templates.FILES, templates.OUTPUTS, templates.SHAPES)
    sources = [source for table in tables for source in table.values()]
    sources += ["{{ " + expression + " }}" for expression in (*templates.ATTRIBUTES, *made)]
    for source in some(sources, chance, count):
        yield Attack(source[:80], lambda source=source: _contained(source))


def _contained(source: str) -> None:
    try:
        text = Sandbox(source, {}).render({"messages": templates.MESSAGES})
    except LoreError:
        return
    assert not re.search(r"<class|<function|<built-in|<module|0x[0-9a-f]{6}", text), text[:200]
    assert len(text) <= RENDERED_CHARACTERS


def killed(chance: Random, count: int) -> Attacks:
    """Writers killed at random moments: nothing that was acknowledged is lost or doubled."""
    for number in range(count):
        for scheme in ("jsonl", "sqlite"):
            url, seed = f"{scheme}:killed-{number}-{scheme}", chance.random()
            yield Attack(f"{scheme}, kill {number}", lambda url=url, seed=seed: kills(url, 1, Random(seed)))


def damaged(chance: Random, count: int) -> Attacks:
    """Stores with changed bytes or cut ends: what is read is what was written, or the damage is told.

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


def work(chance: Random, count: int) -> Attacks:
    """Files that were made to cost, and short lines of many kinds between real ones: at most a call a byte."""
    for name in some(costly.files(100), chance, count):
        most = 0 if not name.endswith("YAML") else costly.BUDGET
        yield Attack(name, lambda name=name, most=most: _counted(costly.files(COSTLY)[name], most))
    short = list(costly.SHORT.values())
    for number, (kind, data) in enumerate(itertools.islice(itertools.cycle(FORMATS.items()), count // 2)):
        seed = chance.random()
        yield Attack(
            f"short lines in {kind}, {number}", lambda data=data, seed=seed: _counted(_between(data, seed, short))
        )


def _between(data: bytes, seed: float, short: list[bytes]) -> bytes:
    """Return the lines of a recording with short ones, and some of a few more bytes, behind each."""
    chance, first = Random(seed), data.strip().replace(b"%s", b"1").splitlines(keepends=True)
    long = [line.rstrip(b"\n") * chance.randrange(1, 5) + b"\n" for line in short]
    crowds = (b"".join(chance.choices(short + long[:1], k=COSTLY // 5 // len(first))) for _ in first)
    return b"".join(line.rstrip(b"\n") + b"\n" + crowd for line, crowd in zip(first, crowds, strict=True))


def _counted(data: bytes, most: int = 0) -> None:
    """Read a file; the functions that are called are at most a byte's worth each, YAML's so many times its parser's."""
    costly.reading(data)()  # what is imported and compiled at its first use
    found = calls(costly.reading(data))
    allowed = most * calls(costly.parsing(data)) if most else 30 * len(data)
    assert found <= allowed + FIRST, f"{found:,} calls for {len(data):,} bytes"


# What is run, with how many inputs at most: enough for minutes.
CLASSES: dict[str, tuple[Callable[[Random, int], Attacks], int]] = {
    "hostile files": (files, 400),
    "mutated recordings": (mutations, 600),
    "expressions": (expressions, 100),
    "template escapes": (escapes, 900),
    "kills while writing": (killed, 10),
    "damaged stores": (damaged, 120),
    "concurrent writers": (writers, 5),
    "nesting": (nesting, 200),
    "work": (work, 80),
}

if os.name == "nt":  # writers are fed through pipes that only POSIX can wait for
    del CLASSES["kills while writing"]
