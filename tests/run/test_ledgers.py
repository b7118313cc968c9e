"""Ledgers are kept between runs, and made again if anything that they depend on changed."""

import multiprocessing
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from cli.running import put
from conftest import ROOT
from formats.claude import answered, asked, counts, log_bytes, text
from lore.recording import corpus
from lore.recording.agents.companions import companions
from lore.recording.inputs import inputs
from lore.recording.opening import Options
from lore.run.rules import Dated
from lore.run.spending import ledgers as module
from lore.run.spending.ledgers import Ledgers

SECRET = "swordfish"
NOW = 1_800_000_000.0


def lines(requests=1):
    records = []
    for number in range(requests):
        before = f"a{number - 1}" if number else None
        usage = counts(5, 100 * number, 100, 2)
        records += [
            asked(f"u{number}", f"{SECRET} {number}", before),
            answered(f"a{number}", f"msg_{number}", text(SECRET), f"u{number}", usage=usage),
        ]
    return [{**line, "sessionId": "s", "cwd": f"/home/ann/{SECRET}-app"} for line in records]


@pytest.fixture
def log(desk):
    return Path(put("a.jsonl", *lines(2)))


def read(*paths, kept_in="kept", dated=None, now=NOW, jobs=1):
    ledgers = Ledgers(Options(), kept_in, now=now, jobs=jobs, **({} if dated is None else {"dated": dated}))
    return ledgers, [ledger for _, ledger in ledgers.read(inputs([str(path) for path in paths]))]


def again(*paths, **options):
    return read(*paths, **options)[0].taken


def test_kept_ledger_of_unchanged_log_is_used(log):
    first, (ledger,) = read(log)
    second, (stored,) = read(log)
    assert (first.taken, second.taken) == (0, 1)
    assert stored == ledger
    assert [row.read_tokens for row in stored.rows] == [0, 100]
    assert stored.project == f"/home/ann/{SECRET}-app"


@pytest.mark.parametrize(
    "change",
    [
        lambda log: log.write_bytes(log_bytes(*lines(3))),
        lambda log: os.utime(log, (1, 1)),
        lambda log: (stat := log.stat(), log.write_bytes(log.read_bytes().replace(b"msg_1", b"msg_9")),
                     os.utime(log, ns=(stat.st_atime_ns, stat.st_mtime_ns))),
        lambda log: put("agent-1.jsonl", *[{**line, "isSidechain": True, "agentId": "1"} for line in lines()]),
    ],
    ids=["grown", "touched", "another of the same size and time", "a new subagent"],
)  # fmt: skip
def test_changed_log_is_read_again(log, change):
    read(log)
    change(log)
    ledgers, after = read(log)
    assert ledgers.taken == 0
    assert after == read(log, kept_in="")[1]


def test_folder_is_listed_once_until_it_changes(desk, monkeypatch):
    """Every session once listed its folder again: n sessions cost n x n names."""
    for name in "abc":
        put(f"many/{name}.jsonl", *lines())
    listed, names = [], corpus.filesystem.names
    monkeypatch.setattr(corpus.filesystem, "names", lambda folder: listed.append(folder) or names(folder))
    paths = [Path("many", f"{name}.jsonl") for name in "abc"]
    os.utime("many", (1, 1))
    for path in paths:
        companions(str(path))
    assert listed == ["many"]
    beside = put("many/agent-1.jsonl", *[{**line, "isSidechain": True, "agentId": "1"} for line in lines()])
    assert [companions(str(path)) for path in paths] == [[str(beside)]] * 3
    assert listed == ["many"] * 4  # what changed just now may change again within the same time


def test_progress_is_shown_before_first_ledger(log):
    progress = []
    next(Ledgers(Options()).read(inputs([str(log)]), lambda *sizes: progress.append(sizes)))
    size = log.stat().st_size
    assert progress == [(0, size), (size, size)]


def test_other_rules_or_program_read_again(log, monkeypatch):
    read(log)
    assert again(log, dated=Dated(tolerance=0.5)) == 0
    monkeypatch.setattr(module, "_maker", lambda *_: "another")
    assert again(log) == 0


FOREIGN = sqlite3.connect(":memory:")
FOREIGN.execute("create table ledgers (another)")


@pytest.mark.parametrize("damage", [b"", b"\x00" * 40, b"no database" * 999, None, FOREIGN.serialize()])
def test_damaged_cache_is_made_again(log, damage):
    """None: a page in the middle of the file."""
    _, expected = read(log)
    cache = Path("kept").read_bytes()
    Path("kept").write_bytes(cache[:5000] + b"x" * 3000 + cache[8000:] if damage is None else damage)
    ledgers, new_ledgers = read(log)
    assert (ledgers.taken, new_ledgers) == (0, expected)
    assert again(log) == 1


@pytest.mark.parametrize("value", [b"", b"\x93\xa1x", msgspec.msgpack.encode(["a", "b", {}])])
def test_damaged_ledger_is_made_again(log, value):
    _, expected = read(log)
    with closing(sqlite3.connect("kept")) as database, database:
        database.execute("update ledgers set ledger = ?", (value,))
    ledgers, new_ledgers = read(log)
    assert (ledgers.taken, new_ledgers) == (0, expected)
    assert again(log) == 1


@pytest.mark.parametrize("change", ["began = 'x'", "began = x'00'", "size = 'x'", "size = null"])
def test_damaged_start_of_kept_recording_is_read_again(log, change):
    Path("other.jsonl").write_bytes(log.read_bytes())
    files = inputs([str(log), "other.jsonl"])
    expected = list(Ledgers(Options(), "kept").read(files))
    with closing(sqlite3.connect("kept")) as database, database:
        database.execute(f"update ledgers set {change} where rowid = 1")
    ledgers = Ledgers(Options(), "kept")
    assert list(ledgers.read(files)) == expected
    assert ledgers.taken == 1


def test_ledger_holds_only_names_and_numbers(log):
    read(log)
    assert Path("kept").stat().st_mode & 0o077 == 0
    with closing(sqlite3.connect("kept")) as database:
        ((data,),) = database.execute("select ledger from ledgers").fetchall()
    assert data.count(SECRET.encode()) == data.count(f"/home/ann/{SECRET}-app".encode()) == 1  # the project's folder
    assert Path("kept").read_bytes().count(SECRET.encode()) == 1
    assert len(data) < 1_500


@pytest.mark.parametrize("place", ["a folder", "a file/kept", "locked"])
def test_unusable_place_keeps_no_ledger(log, place, monkeypatch):
    monkeypatch.setattr("lore.run.spending.ledgers.PATIENCE", 0.01)
    Path("a folder").mkdir()
    Path("a file").write_text("")
    read(log, kept_in="locked")
    log.write_bytes(log_bytes(*lines(3)))
    with closing(sqlite3.connect("locked", isolation_level=None)) as database:
        database.execute("begin exclusive")
        assert len(read(log, kept_in=place)[1][0].rows) == 3
        assert again(log, kept_in=place) == 0


def test_two_processes_keep_all_ledgers(desk):
    paths = [put(f"{number}.jsonl", *lines(number)) for number in range(1, 30)]
    halves = [multiprocessing.Process(target=again, args=paths[start::2]) for start in (0, 1)]
    for half in halves:
        half.start()
    for half in halves:
        half.join(60)
    assert again(*paths) == len(paths)


def test_ledger_unused_for_60_days_is_deleted(log):
    other = put("b.jsonl", *lines())
    read(log, other)
    later = NOW + 40 * 86_400
    assert again(log, now=later) == 1
    assert again(log, now=later + 40 * 86_400) == 1
    assert again(log, other, now=later + 40 * 86_400) == 1


def test_ledgers_of_processes_are_the_same(desk, monkeypatch):
    monkeypatch.setattr("lore.run.checking.verdicts.SMALL", 0)
    paths = [put(f"{number}.jsonl", *lines(number)) for number in range(1, 6)]
    put("words.txt", b"no recording\n")
    alone = read(".", kept_in="")[1]
    assert [len(ledger.rows) for ledger in alone] == [5, 4, 3, 2, 1]  # they begin at one time: the larger file first
    assert read(".", jobs=3)[1] == alone
    assert again(*paths, jobs=3) == 5


def test_order_of_known_recordings_is_kept(desk, monkeypatch):
    for day, name in enumerate("cabd"):
        begin = f"2026-01-0{day % 3 + 1}T00:00:00Z"  # `d.jsonl` begins with `c.jsonl`, and is larger
        put(f"logs/{name}.jsonl", *({**line, "timestamp": begin} for line in lines(day + 1)))
    names = [ledger.path for ledger in read("logs")[1]]
    assert names == ["logs/d.jsonl", "logs/c.jsonl", "logs/a.jsonl", "logs/b.jsonl"]
    monkeypatch.setattr("lore.recording.inputs.start_of", lambda file: pytest.fail(f"{file.path} was opened"))
    assert [ledger.path for ledger in read("logs")[1]] == names


def test_requests_are_ordered_by_their_times(desk):
    """Sums once read captures without an order as they were, and found losses that `check` did not."""
    whole = (ROOT / "fixtures" / "captures" / "litellm" / "stable.jsonl").read_bytes().splitlines(keepends=True)
    Path("a.jsonl").write_bytes(b"".join(whole))
    Path("b.jsonl").write_bytes(b"".join(reversed(whole)))
    ours, right = (read(path, kept_in="")[1][0].rows for path in ("a.jsonl", "b.jsonl"))
    assert len(ours) == len(whole) > 2
    assert [msgspec.structs.replace(row, line=None) for row in right] == [
        msgspec.structs.replace(row, line=None) for row in ours
    ]


SEED = Path(__file__).resolve().parent.parent / "fuzz" / "corpus" / "numbers-past-64-bits.bin"


def test_a_turn_past_64_bits_ends_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_bytes(SEED.read_bytes())
    for _ in range(2):
        ledgers = Ledgers(Options(), str(tmp_path / "cache"))
        ((_, ledger),) = ledgers.read(list(inputs([str(log)])))
        assert ledger.rows[0].number == 2**64
        assert ledgers.taken == 0
