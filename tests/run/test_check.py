"""`lore check` counts files that it skips, and names what could not be judged."""

from pathlib import Path

import pytest

from cli.running import lore, put, session
from judge import captures
from judge.captures import asks, call, text
from lore.errors import LoreError
from lore.recording import corpus
from lore.run.checking.check import check

ROOT = Path(__file__).resolve().parents[2]
FIXTURES = [str(ROOT / "fixtures" / name) for name in ("recordings", "claude-code", "causes/*/positive*")]


def test_pass_over_skips_named_unrecognised_file(desk):
    put("rows.jsonl", b'{"a":1}\n')
    put("run.jsonl", session())
    result = lore("check", "--pass-over", "rows.jsonl", "run.jsonl", "--json")
    assert (result.code, result.json["summary"]["skipped"], result.json["summary"]["files"]) == (0, 1, 1)


@pytest.mark.parametrize("command", ["check", "simulate", "lint"])
@pytest.mark.parametrize(("name", "why"), [
    ("rows.jsonl", "unrecognised format (a JSON object with the members a)"),
    ("empty.jsonl", "is empty"),
    ("gone.jsonl", "no such file or directory"),
    ("none/*.jsonl", "nothing matches none/*.jsonl"),
])  # fmt: skip
def test_unreadable_input_exits_3_only_if_another_was_judged(desk, command, name, why):
    put("rows.jsonl", b'{"a":1}\n')
    put("empty.jsonl", b"")
    put("run.jsonl", STABLE)
    alone = lore(command, name)
    assert (alone.code, alone.err.startswith("error: "), why in alone.err) == (2, True, True)
    among = lore(command, name, "run.jsonl")
    assert (among.code, among.err) == (3, f"not judged: {name}: {why}\n")
    assert among.out
    assert lore(command, name, "empty.jsonl").code == 2  # nothing was judged


def test_error_finding_exits_1_beside_unreadable_input(desk):
    put("waste.jsonl", (ROOT / "fixtures/recordings/clock_in_system.jsonl").read_bytes())
    put("refused.yaml", REFUSED + READABLE)
    for name in ("waste.jsonl", "refused.yaml"):
        assert lore("check", name, "gone.jsonl").code == 1


BOTH = (ROOT / "fixtures/causes/LORE221/positive.yaml").read_bytes()
REFUSED, READABLE = (BOTH[: BOTH.rindex(b"- request")], BOTH[BOTH.rindex(b"- request") : BOTH.rindex(b"version")])


@pytest.mark.parametrize("command", ["check", "lint"])
@pytest.mark.parametrize("data", [REFUSED, REFUSED[: REFUSED.index(b"!!")] + b"'Why does", b'{"nope"}\n' * 3])
def test_recording_without_a_readable_request_is_unjudged(desk, command, data):
    """Its damage is no error: no verdict is wrong by it."""
    put("run.jsonl", STABLE)
    assert lore(command, put("a.yaml", data)).code == 2
    result = lore(command, "a.yaml", "run.jsonl", "--report", "junit")
    assert (result.code, "not judged: a.yaml" in result.err, 'failures="0" errors="1"' in result.out) == (3, True, True)


@pytest.mark.parametrize("command", ["check", "lint"])
def test_cassette_cut_off_at_its_end_is_no_error(desk, command):
    whole = b"interactions:\n" + READABLE + READABLE
    for end in (b"empty line", b"content: W", b"role: u"):
        put("a.yaml", whole[: whole.rindex(end)])
        assert lore(command, "a.yaml").code == 0


STABLE = (ROOT / "fixtures/recordings/stable.jsonl").read_bytes()


@pytest.mark.parametrize("bad", [b"", b'{"broken', STABLE[:20], STABLE[:60], STABLE[:60] + b"\n"])
def test_damaged_recording_in_a_folder_is_unjudged(desk, bad):
    put("z/run.jsonl", session())
    put("z/rows.jsonl", b'{"a":1}\n')
    assert lore("check", "z").code == 0
    put("z/bad.jsonl", bad)
    result = lore("check", "z")
    assert result.code == 3
    why = "unrecognised format (cut off in its first record)" if bad else "is empty"
    assert result.err.splitlines()[-1] == f"not judged: z/bad.jsonl: {why}"
    assert lore("check", "z", "--pass-over").code == 0


def test_check_says_that_nothing_was_compared(desk):
    first, second = STABLE.splitlines(keepends=True)[:2]
    message = "nothing was compared: each conversation has one request"
    assert (lore("check", put("one.jsonl", first)).code, message in lore("check", "one.jsonl").err) == (0, True)
    assert message not in lore("check", put("two.jsonl", first, second)).err


def test_check_of_failed_requests_says_nothing_was_compared(desk):
    limited = [call(n, asks(text("user", "Go.")), None, status=429, type="error") for n in range(3)]
    captures.put(desk, *limited)
    result = lore("check", "calls.jsonl")
    assert (result.code, result.err) == (0, "nothing was compared: no conversation has two answered requests\n")


LFS_POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a21\nsize 12345\n"


@pytest.mark.parametrize("command", ["check", "lint"])
@pytest.mark.parametrize(("name", "code"), [("a.jsonl", 3), ("a.yaml", 3), ("a.png", 0)])
def test_git_lfs_pointer_of_a_recording_is_unjudged(desk, command, name, code):
    put("z/run.jsonl", STABLE)
    put(f"z/{name}", LFS_POINTER)
    result = lore(command, "z")
    assert result.code == code
    why = f"not judged: z/{name}: unrecognised format (a Git LFS pointer: check out with lfs)"
    assert (why in result.err) is bool(code)


@pytest.mark.parametrize(("data", "what"), [(b"{", True), (b'{"model": "a", "mess', True), (b'{"a": 1}', False)])
def test_object_without_an_end_is_named_so(desk, data, what):
    result = lore("check", put("x.json", data))
    assert (result.code, "unrecognised format (JSON that ends early)" in result.err) == (2, what)


@pytest.mark.parametrize("command", ["check", "lint", "simulate"])
def test_document_without_requests_in_a_folder_is_passed_over(desk, command):
    put("z/run.jsonl", STABLE)
    event = b'{"event": "model", "model": "mock/model", "input": [], "tools": [], "output": {}}'
    put("z/events.json", b'{\n"description": "of a viewer",\n"events": [\n%b\n]\n}\n' % event)
    assert lore(command, "z").code == 0


def test_other_texts_in_a_folder_are_passed_over(desk):
    put("z/run.jsonl", STABLE)
    put("z/notes.txt", STABLE[:60])
    put("z/text.jsonl", b"hello\n")
    put("z/document.jsonl", b'{\n  "a": 1\n}\n')
    put("z/long.jsonl", b"{\n" + b'  "member": "value",\n' * 20_000 + b'  "a": 1\n}\n')
    result = lore("check", "z", "--json")
    assert (result.code, result.json["summary"]["skipped"]) == (0, 4)


def test_only_skipped_files_are_no_error(desk):
    put("rows.jsonl", b'{"a":1}\n')
    assert lore("lint", "--pass-over", "rows.jsonl").code == 0
    result = lore("check", "--pass-over", "rows.jsonl")
    assert result.code == 0
    assert "1 file skipped" in result.out


@pytest.mark.parametrize("name", ["gone.jsonl", "no/such/folder"])
def test_pass_over_rejects_unreadable_name(desk, name):
    assert lore("check", "--pass-over", name).code == 2


def test_problems_before_a_read_error_are_counted(tmp_path, monkeypatch):
    """The problems of a file that failed midway were dropped with it."""
    head = b'{"kind":"session_started","session_id":"s"}\n{"kind":"odd"}\n'

    def torn():
        yield head
        raise LoreError("cannot read it: input/output error")

    (tmp_path / "a.jsonl").write_bytes(head)
    monkeypatch.setattr(corpus, "open_head", lambda _: corpus.Opened(head, torn()))
    outcome = check([str(tmp_path)])
    result, incomplete = outcome.result, outcome.incomplete
    assert ([problem.code for problem in result.problems], incomplete) == (["LORE203", "LORE215"], True)
