"""`lore assemble`: all turns, whole or as deltas; what a prompt is made of; where the answer goes."""

import json
import os
from pathlib import Path

import pytest

from cli.running import lore, put, session
from helpers.schemas import valid
from lore.commands import assemble
from lore.model.events import CacheReset, encode
from lore.prompt.dialects import dialect_names
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
        turn = json.loads(line)
        alone = lore("assemble", "s.jsonl", "--turn", str(turn["turn"])).out.rstrip("\n")
        assert line.endswith(f'"body":{alone}}}')


def test_assemble_all_of_session_without_turns_is_empty():
    put("empty.jsonl", log(header(), record("append", item=user("u"))))
    result = lore("assemble", "empty.jsonl", "--all")
    assert (result.code, result.out) == (0, "")
    assert "the session has no turn yet" in result.err
    assert lore("assemble", "empty.jsonl").code == 0


def test_assembled_turns_are_rejected_as_session():
    put("all.jsonl", lore("assemble", "s.jsonl", "--all").out.encode())
    for words in (["fold"], ["assemble"], ["convert"], ["knowledge", "list"]):
        result = lore(*words, "all.jsonl")
        assert (result.code, "is read as assembled prompts, not as events" in result.err) == (2, True)


def test_diff_prefix_cannot_complete_assembled_turns():
    put("all.jsonl", lore("assemble", "s.jsonl", "--all").out.encode())
    put("system.txt", b"x")
    result = lore("diff-prefix", "all.jsonl#1", "all.jsonl#2", "--system", "system.txt")
    assert (result.code, "no prompt to complete" in result.err) == (2, True)
    result = lore("diff-prefix", "all.jsonl", "--system", "system.txt")
    assert (result.code, "nothing is missing" in result.err) == (2, True)


# what contradicts


@pytest.mark.parametrize(("options", "message"), [
    (["--all", "--turn", "1"], "--turn names one turn, --all means every turn"),
    (["--full"], "use it with --all"),
    (["--all", "--explain"], "--explain shows one turn"),
    (["--json"], "--json answers with --explain; a body is JSON already"),
    (["--all", "--json"], "--json answers with --explain; a body is JSON already"),
    (["--force"], "--force overwrites the file that --output names"),
    (["--turn", "9"], "s.jsonl has no turn 9"),
    (["--tail", "sideways"], "unknown tail policy 'sideways'"),
    (["--all", "--dialect", "morse"], "unknown dialect 'morse'"),
])  # fmt: skip
def test_contradicting_options_exit_2(options, message):
    result = lore("assemble", "s.jsonl", *options)
    assert (result.code, "messages" in result.out) == (2, False)
    assert message in result.err


def test_assemble_all_rejects_name_of_turn():
    result = lore("assemble", "s.jsonl#1", "--all")
    assert (result.code, "s.jsonl#1 is one turn, --all means every turn" in result.err) == (2, True)


# what a prompt is made of


def test_explain_json_follows_schema():
    result = lore("assemble", "s.jsonl", "--explain", "--json", "--turn", "1").json
    valid(result, "assemble-explain")
    assert (result["session"], result["chain"], result["turn"], result["tail"]) == ("s.jsonl", "main", 1, "system")
    assert sum(row["bytes"] for row in result["segments"] if row["stable"]) == result["stable_bytes"]
    assert sum(row["bytes"] for row in result["segments"] if not row["stable"]) == result["tail_bytes"] > 0
    assert [row["number"] for row in result["segments"]] == list(range(len(result["segments"])))
    assert result["omitted"] == []
    assert {row["feature"]: row["expressed"] for row in result["capabilities"]}["thinking"] is True


def test_explain_masks_names_of_recording():
    put("m.jsonl", session(model=f"m\x1b[31m {SECRET}"))
    result = lore("assemble", "m.jsonl", "--explain")
    assert SECRET not in result.out
    assert "\x1b" not in result.out
    assert SECRET not in lore("assemble", "m.jsonl", "--explain", "--json").out


# where the answer goes


@pytest.mark.parametrize("options", [[], ["--all"], ["--all", "--full"], ["--turn", "1"]])
def test_output_file_equals_standard_output(options):
    result = lore("assemble", "s.jsonl", *options, "-o", "out.json")
    assert (result.code, result.out) == (0, "")
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl", *options).out
    assert not [name for name in os.listdir() if name.startswith(".")]


def test_explain_with_output_writes_both():
    result = lore("assemble", "s.jsonl", "--explain", "--output", "out.json")
    assert "what anthropic can express" in result.out
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl").out


def test_output_dash_is_standard_output():
    assert lore("assemble", "s.jsonl", "-o", "-").out == lore("assemble", "s.jsonl").out


def test_output_overwrites_only_with_force():
    put("out.json", b"mine\n")
    result = lore("assemble", "s.jsonl", "-o", "out.json")
    assert (result.code, "out.json exists" in result.err) == (2, True)
    assert Path("out.json").read_bytes() == b"mine\n"
    assert lore("assemble", "s.jsonl", "-o", "out.json", "--force").code == 0
    assert Path("out.json").read_text() == lore("assemble", "s.jsonl").out


@pytest.mark.parametrize("name", ["s.jsonl", "./s.jsonl", "link"])
@pytest.mark.parametrize("options", [[], ["--all"]])
def test_output_never_overwrites_the_session(name, options):
    Path("link").symlink_to("s.jsonl")
    result = lore("assemble", "s.jsonl", *options, "-o", name, "--force")
    assert (result.code, "is an input of this command" in result.err) == (2, True)
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
    result = lore("assemble", "s.jsonl", *options, "--persist", "-v")
    assert (result.code, result.out) == (0, answer)
    assert "1 events appended to the log" in result.err
    assert Path("s.jsonl").read_bytes() == session() + encode(EVENT) + b"\n"


def test_persist_without_derived_events_changes_nothing():
    os.utime("s.jsonl", ns=(1, 1))
    assert lore("assemble", "s.jsonl", "--persist").code == 0
    assert (Path("s.jsonl").read_bytes(), os.stat("s.jsonl").st_mtime_ns) == (session(), 1)


@pytest.mark.usefixtures("derived")
def test_persist_ends_torn_last_line():
    put("s.jsonl", session() + b'{"kind":')
    result = lore("assemble", "s.jsonl", "--persist")
    assert "LORE202 s.jsonl:" in result.err
    assert Path("s.jsonl").read_bytes() == session() + b'{"kind":\n' + encode(EVENT) + b"\n"


@pytest.mark.usefixtures("derived")
def test_failed_persist_writes_no_output_file(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    for options in ([], ["--all"]):
        result = lore("assemble", "s.jsonl", *options, "--persist", "-o", "out.json")
        assert (result.code, "cannot write to s.jsonl: no space left" in result.err) == (2, True)
        assert not Path("out.json").exists()
        assert Path("s.jsonl").read_bytes() == session()


def test_breakpoints_are_chosen_in_the_settings():
    plain, bodies = Path(__file__).parents[2] / "fixtures" / "sessions" / "plain.jsonl", list[str]()
    for name in ("none", "lore"):
        Path("lore.toml").write_text(f'[assemble]\nbreakpoints = "{name}"\n', "utf-8")
        bodies.append(lore("assemble", str(plain)).out)
    assert ["cache_control" in body for body in bodies] == [False, True]


# A parameter whose name was half a surrogate pair ended `--all` as a bug in lore.
def test_parameter_names_and_numbers_keep_their_spelling():
    start = record("session_started", v=1, session_id="s", params={"half": 1.0, "max_tokens": 9})
    lines = log(start, record("append", item=user("u", "x")), record("turn_started", turn=1))
    put("s.jsonl", lines.replace(b"half", b"\\ud800"))
    result = lore("assemble", "s.jsonl", "--all")
    assert result.code == 0
    assert '"params":{"\\ud800":1.0,"max_tokens":9}' in result.out
    put("all.jsonl", result.out.encode())
    answer = lore("diff-prefix", "all.jsonl#1", "s.jsonl#1", "--json", "--no-tokens").json
    assert (answer["relation"], answer["problems"]) == ("identical", [])


# The prompt of a log without turns may be one that providers refuse.
@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_log_without_turns_is_assembled_with_note(options):
    put("none.jsonl", log(header()))
    put("one.jsonl", log(header(), record("append", item=user("u", "x"))))
    none, single = (lore("assemble", name, *options) for name in ("none.jsonl", "one.jsonl"))
    for result in (none, single):
        assert (result.code, "no turn yet: its prompt so far is assembled" in result.err) == (0, True)
    assert "the prompt holds no message: providers refuse such a request" in none.err
    assert "holds no message" not in single.err


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock", "gemini", "openai-chat", "openai-responses", "template"])
def test_turn_without_message_is_noted(dialect):
    put("none.jsonl", log(header(), record("turn_started", turn=1)))
    for options in ([], ["--all"]):
        result = lore("assemble", "none.jsonl", "--dialect", dialect, *options)
        assert ("holds no message" in result.err) == (dialect != "template")
        assert "so far" not in result.err


# The help named the dialects in one order, the error for an unknown one in another.
@pytest.mark.parametrize("command", ["assemble", "diff-prefix"])
def test_help_and_error_list_dialects_alike(command):
    put("s.jsonl", log(header(), record("turn_started", turn=1)))
    names = ", ".join(dialect_names())
    output = "".join(line.strip() + " " for line in lore(command, "--help").out.splitlines()).replace("- ", "-")
    assert f"Request shape: {names}." in output
    words = ["s.jsonl#1", "s.jsonl#1"] if command == "diff-prefix" else ["s.jsonl"]
    assert f"dialects: {names}\n" in lore(command, *words, "--dialect", "morse").err


KNOWS = str(Path(__file__).parents[2] / "fixtures" / "sessions" / "knowledge.jsonl")
ALTERNATING = (
    "{{ bos_token }}{% set system = messages[0].content if messages[0].role == 'system' else '' %}"
    "{% for m in (messages[1:] if system else messages) %}{% set asks = m.role in ['user', 'tool'] %}"
    "{% if asks != (loop.index0 % 2 == 0) %}{{ raise_exception('Roles take turns: user, then model') }}{% endif %}"
    "<start_of_turn>{{ 'user' if asks else 'model' }}\n{% if loop.first and system %}{{ system }}\n\n{% endif %}"
    "{{ m.content|trim }}{% for c in m.tool_calls or [] %}{{ c.function|tojson }}{% endfor %}<end_of_turn>\n"
    "{% endfor %}{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)


@pytest.fixture
def template(tmp_path):
    path = tmp_path / "alternating.jinja"
    path.write_text(ALTERNATING)
    return str(path)


@pytest.mark.parametrize("tail", ["system", "user", "persist"])
def test_alternating_template_renders_every_turn(template, tail):
    bodies = [lore("assemble", KNOWS, "--template", template, "--tail", tail, "--turn", str(n)) for n in range(1, 5)]
    assert [result.code for result in bodies] == [0] * 4, bodies
    assert ["[knowledge update" in result.out.partition("<end_of_turn>")[2] for result in bodies] == [
        False,
        False,
        True,
        True,
    ]
    update = bodies[2].out.rpartition("<start_of_turn>user\n")[2].partition("<end_of_turn>")[0]
    assert "\n\nThen drop the workaround for 3.9 in ini.py." in update


@pytest.mark.parametrize("tail", ["system", "user", "persist"])
def test_alternating_template_extends_the_previous_turn(template, tail, tmp_path):
    assembled = lore("assemble", KNOWS, "--template", template, "--tail", tail, "--all")
    turns = tmp_path / "turns.jsonl"
    turns.write_text(assembled.out)
    diff = lore("diff-prefix", str(turns), "--fail-under", "1.0", "--json")
    assert (assembled.code, diff.code) == (0, 0), (assembled.err, diff.out, diff.err)
    stable = 0
    for line in assembled.lines:
        assert line["keep_bytes"] == stable
        stable += sum(len(part["data"].encode()) for part in line["append"]) - line["tail_bytes"]


def test_only_the_requested_turn_is_rendered(tmp_path):
    """Every turn up to it was rendered, each with all of its history: 300 turns took half a minute, one takes one."""
    path = tmp_path / "late.jinja"
    path.write_text("{% if messages|length < 4 %}{{ raise_exception('too early') }}{% endif %}{{ messages|length }}")
    codes = [lore("assemble", KNOWS, "--template", str(path), "--turn", str(turn)).code for turn in (1, 4)]
    every = lore("assemble", KNOWS, "--template", str(path), "--all")
    assert (codes, every.code) == ([2, 0], 2)
    assert "too early" in every.err
