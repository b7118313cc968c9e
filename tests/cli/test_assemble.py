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


@pytest.mark.parametrize(("options", "said"), [
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


def test_breakpoints_are_chosen_in_the_settings():
    plain, bodies = Path(__file__).parents[2] / "fixtures" / "sessions" / "plain.jsonl", list[str]()
    for name in ("none", "lore"):
        Path("lore.toml").write_text(f'[assemble]\nbreakpoints = "{name}"\n', "utf-8")
        bodies.append(lore("assemble", str(plain)).out)
    assert ["cache_control" in one for one in bodies] == [False, True]


# A parameter whose name was half a surrogate pair ended `--all` as a bug in lore.
def test_parameter_names_and_numbers_keep_their_spelling():
    start = record("session_started", v=1, session_id="s", params={"half": 1.0, "max_tokens": 9})
    lines = log(start, record("append", item=user("u", "x")), record("turn_started", turn=1))
    put("s.jsonl", lines.replace(b"half", b"\\ud800"))
    ran = lore("assemble", "s.jsonl", "--all")
    assert ran.code == 0
    assert '"params":{"\\ud800":1.0,"max_tokens":9}' in ran.out
    put("all.jsonl", ran.out.encode())
    told = lore("diff-prefix", "all.jsonl#1", "s.jsonl#1", "--json", "--no-tokens").json
    assert (told["relation"], told["problems"]) == ("identical", [])


# The prompt of a log without turns may be one that providers refuse.
@pytest.mark.parametrize("options", [[], ["--explain"]])
def test_log_without_turns_is_assembled_with_note(options):
    put("none.jsonl", log(header()))
    put("one.jsonl", log(header(), record("append", item=user("u", "x"))))
    none, one = (lore("assemble", name, *options) for name in ("none.jsonl", "one.jsonl"))
    for ran in (none, one):
        assert (ran.code, "no turn yet: its prompt so far is assembled" in ran.err) == (0, True)
    assert "the prompt holds no message: providers refuse such a request" in none.err
    assert "holds no message" not in one.err


@pytest.mark.parametrize("dialect", ["anthropic", "bedrock", "gemini", "openai-chat", "openai-responses", "template"])
def test_turn_without_message_is_noted(dialect):
    put("none.jsonl", log(header(), record("turn_started", turn=1)))
    for options in ([], ["--all"]):
        ran = lore("assemble", "none.jsonl", "--dialect", dialect, *options)
        assert ("holds no message" in ran.err) == (dialect != "template")
        assert "so far" not in ran.err


# The help named the dialects in one order, the error for an unknown one in another.
@pytest.mark.parametrize("command", ["assemble", "diff-prefix"])
def test_help_and_error_list_dialects_alike(command):
    put("s.jsonl", log(header(), record("turn_started", turn=1)))
    named = ", ".join(dialect_names())
    shown = "".join(line.strip() + " " for line in lore(command, "--help").out.splitlines()).replace("- ", "-")
    assert f"Request shape: {named}." in shown
    words = ["s.jsonl#1", "s.jsonl#1"] if command == "diff-prefix" else ["s.jsonl"]
    assert f"dialects: {named}\n" in lore(command, *words, "--dialect", "morse").err


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
    """A durable delta was a user message before the user's own, which the template refused."""
    bodies = [lore("assemble", KNOWS, "--template", template, "--tail", tail, "--turn", str(n)) for n in range(1, 5)]
    assert [ran.code for ran in bodies] == [0] * 4, bodies
    assert ["[knowledge update" in ran.out.partition("<end_of_turn>")[2] for ran in bodies] == [
        False,
        False,
        True,
        True,
    ]
    update = bodies[2].out.rpartition("<start_of_turn>user\n")[2].partition("<end_of_turn>")[0]
    assert "\n\nThen drop the workaround for 3.9 in ini.py." in update


@pytest.mark.parametrize("tail", ["system", "user", "persist"])
def test_alternating_template_extends_the_previous_turn(template, tail, tmp_path):
    made = lore("assemble", KNOWS, "--template", template, "--tail", tail, "--all")
    turns = tmp_path / "turns.jsonl"
    turns.write_text(made.out)
    found = lore("diff-prefix", str(turns), "--fail-under", "1.0", "--json")
    assert (made.code, found.code) == (0, 0), (made.err, found.out, found.err)
    stable = 0
    for one in made.lines:
        assert one["keep_bytes"] == stable
        stable += sum(len(part["data"].encode()) for part in one["append"]) - one["tail_bytes"]


def test_only_the_requested_turn_is_rendered(tmp_path):
    """Every turn up to it was rendered, each with all of its history: 300 turns took half a minute, one takes one."""
    path = tmp_path / "late.jinja"
    path.write_text("{% if messages|length < 4 %}{{ raise_exception('too early') }}{% endif %}{{ messages|length }}")
    codes = [lore("assemble", KNOWS, "--template", str(path), "--turn", str(turn)).code for turn in (1, 4)]
    every = lore("assemble", KNOWS, "--template", str(path), "--all")
    assert (codes, every.code) == ([2, 0], 2)
    assert "too early" in every.err
