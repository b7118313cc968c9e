"""`lore assemble`: all turns, whole or as deltas; what a prompt is made of; where the answer goes."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cli.running import lore, put, session
from helpers.schemas import valid
from lore.commands import assemble
from lore.model.events import CacheReset, encode
from model.making import body, dumps, header, log, record, user

FIXTURES = Path(__file__).parents[2] / "fixtures"
LOGS = sorted(FIXTURES.glob("sessions/*.jsonl"))
EVENT = CacheReset(reason="asked for")
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"

pytestmark = pytest.mark.usefixtures("desk")


@pytest.fixture(autouse=True)
def files(desk):
    put("s.jsonl", session())
    put("bodies.jsonl", *(dumps(body(*"x" * n)) + b"\n" for n in (1, 2)))


@pytest.fixture
def derived(monkeypatch):
    """Reading derives an event that the log does not hold."""
    monkeypatch.setattr(assemble, "unsaved", lambda _: (EVENT,))


# every turn


@pytest.mark.parametrize("path", LOGS, ids=[path.stem for path in LOGS])
def test_assemble_all_follows_schema(path):
    for line in lore("assemble", str(path), "--all").lines:
        valid(line, "assemble-all")
    for line in lore("assemble", str(path), "--all", "--full").lines:
        valid(line, "assemble-full")


def test_full_bodies_equal_bodies_of_single_turns():
    for line in lore("assemble", "s.jsonl", "--all", "--full").out.splitlines():
        told = json.loads(line)
        alone = lore("assemble", "s.jsonl", "--turn", str(told["turn"])).out.rstrip("\n")
        assert line.endswith(f'"body":{alone}}}')


def test_assemble_all_of_session_without_turns_is_empty():
    put("empty.jsonl", log(header(), record("append", item=user("u"))))
    ran = lore("assemble", "empty.jsonl", "--all")
    assert (ran.code, ran.out) == (0, "")
    assert "the session has no turn yet" in ran.err
    assert lore("assemble", "empty.jsonl").code == 0


def test_assembled_turns_are_rejected_as_session():
    put("all.jsonl", lore("assemble", "s.jsonl", "--all").out.encode())
    for words in (["fold"], ["assemble"], ["convert"], ["knowledge", "list"]):
        ran = lore(*words, "all.jsonl")
        assert (ran.code, "is read as assembled prompts, not as events" in ran.err) == (2, True)


def test_diff_prefix_cannot_complete_assembled_turns():
    put("all.jsonl", lore("assemble", "s.jsonl", "--all").out.encode())
    put("system.txt", b"x")
    ran = lore("diff-prefix", "all.jsonl#1", "all.jsonl#2", "--system", "system.txt")
    assert (ran.code, "no prompt to complete" in ran.err) == (2, True)
    ran = lore("diff-prefix", "all.jsonl", "--system", "system.txt")
    assert (ran.code, "nothing is missing" in ran.err) == (2, True)


# what contradicts


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--all", "--turn", "1"], "--turn names one turn, --all means every turn"),
        (["--full"], "use it with --all"),
        (["--all", "--explain"], "--explain shows one turn"),
        (["--json"], "--json answers with --explain; a body is JSON already"),
        (["--all", "--json"], "--json answers with --explain; a body is JSON already"),
        (["--force"], "--force overwrites the file that --output names"),
        (["--turn", "9"], "s.jsonl has no turn 9"),
        (["--tail", "sideways"], "unknown tail policy 'sideways'"),
        (["--all", "--dialect", "morse"], "unknown dialect 'morse'"),
    ],
)
def test_contradicting_options_exit_2(options, said):
    ran = lore("assemble", "s.jsonl", *options)
    assert (ran.code, ran.out) == (2, "")
    assert said in ran.err


def test_assemble_all_rejects_name_of_turn():
    ran = lore("assemble", "s.jsonl#1", "--all")
    assert (ran.code, "s.jsonl#1 is one turn, --all means every turn" in ran.err) == (2, True)


# what a prompt is made of


def test_explain_json_follows_schema():
    ran = lore("assemble", "s.jsonl", "--explain", "--json", "--turn", "1").json
    valid(ran, "assemble-explain")
    assert (ran["session"], ran["chain"], ran["turn"], ran["tail"]) == ("s.jsonl", "main", 1, "system")
    assert sum(one["bytes"] for one in ran["segments"] if one["stable"]) == ran["stable_bytes"]
    assert sum(one["bytes"] for one in ran["segments"] if not one["stable"]) == ran["tail_bytes"] > 0
    assert [one["number"] for one in ran["segments"]] == list(range(len(ran["segments"])))
    assert ran["omitted"] == []
    assert {one["feature"]: one["expressed"] for one in ran["capabilities"]}["thinking"] is True


def test_explain_masks_names_of_recording():
    put("m.jsonl", session(model=f"m\x1b[31m {SECRET}"))
    ran = lore("assemble", "m.jsonl", "--explain")
    assert SECRET not in ran.out
    assert "\x1b" not in ran.out
    assert SECRET not in lore("assemble", "m.jsonl", "--explain", "--json").out


# where the answer goes


@pytest.mark.parametrize("options", [[], ["--all"], ["--all", "--full"], ["--turn", "1"]])
def test_output_file_equals_standard_output(options):
    ran = lore("assemble", "s.jsonl", *options, "-o", "out.json")
    assert (ran.code, ran.out) == (0, "")
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl", *options).out
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_explain_with_output_writes_both():
    ran = lore("assemble", "s.jsonl", "--explain", "--output", "out.json")
    assert "what anthropic can express" in ran.out
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl").out


def test_output_dash_is_standard_output():
    assert lore("assemble", "s.jsonl", "-o", "-").out == lore("assemble", "s.jsonl").out


def test_output_overwrites_only_with_force():
    put("out.json", b"mine\n")
    ran = lore("assemble", "s.jsonl", "-o", "out.json")
    assert (ran.code, "out.json exists" in ran.err) == (2, True)
    assert Path("out.json").read_bytes() == b"mine\n"
    assert lore("assemble", "s.jsonl", "-o", "out.json", "--force").code == 0
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl").out


@pytest.mark.parametrize("name", ["s.jsonl", "./s.jsonl", "link"])
@pytest.mark.parametrize("options", [[], ["--all"]])
def test_output_never_overwrites_the_session(name, options):
    Path("link").symlink_to("s.jsonl")
    ran = lore("assemble", "s.jsonl", *options, "-o", name, "--force")
    assert (ran.code, "is an input of this command" in ran.err) == (2, True)
    assert Path("s.jsonl").read_bytes() == session()


# what reading derived


@pytest.mark.usefixtures("derived")
@pytest.mark.parametrize("options", [[], ["--all"], ["--all", "--full"], ["--explain"], ["--turn", "1"]])
def test_assemble_without_persist_changes_no_file(options):
    os.utime("s.jsonl", ns=(1, 1))
    before = sorted(os.listdir())
    assert lore("assemble", "s.jsonl", *options).code == 0
    assert (Path("s.jsonl").read_bytes(), os.stat("s.jsonl").st_mtime_ns) == (session(), 1)
    assert sorted(os.listdir()) == before


@pytest.mark.usefixtures("derived")
@pytest.mark.parametrize("options", [[], ["--all"], ["--explain"]])
def test_persist_appends_derived_events_after_answer(options):
    answer = lore("assemble", "s.jsonl", *options).out
    ran = lore("assemble", "s.jsonl", *options, "--persist", "-v")
    assert (ran.code, ran.out) == (0, answer)
    assert "1 events appended to the log" in ran.err
    assert Path("s.jsonl").read_bytes() == session() + encode(EVENT) + b"\n"


def test_persist_without_derived_events_changes_nothing():
    os.utime("s.jsonl", ns=(1, 1))
    assert lore("assemble", "s.jsonl", "--persist").code == 0
    assert (Path("s.jsonl").read_bytes(), os.stat("s.jsonl").st_mtime_ns) == (session(), 1)


@pytest.mark.usefixtures("derived")
def test_persist_ends_torn_last_line():
    put("s.jsonl", session() + b'{"kind":')
    ran = lore("assemble", "s.jsonl", "--persist")
    assert "LORE202 s.jsonl:" in ran.err
    assert Path("s.jsonl").read_bytes() == session() + b'{"kind":\n' + encode(EVENT) + b"\n"


@pytest.mark.usefixtures("derived")
def test_failed_persist_writes_no_output_file(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for options in ([], ["--all"]):
        ran = lore("assemble", "s.jsonl", *options, "--persist", "-o", "out.json")
        assert (ran.code, "cannot write to s.jsonl: no space left" in ran.err) == (2, True)
        assert not Path("out.json").exists()
        assert Path("s.jsonl").read_bytes() == session()


def test_breakpoints_are_chosen_by_option():
    plain = Path(__file__).parents[2] / "fixtures" / "sessions" / "plain.jsonl"
    bodies = [lore("assemble", str(plain), "--breakpoints", name).out for name in ("none", "lore")]
    assert ["cache_control" in one for one in bodies] == [False, True]
