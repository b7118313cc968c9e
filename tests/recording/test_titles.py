"""Titles of sessions: names that agents write, else first prompts."""

import json
import shutil
from pathlib import Path

import pytest

from lore.recording.titles import MOST, shortened, strip_client_blocks, title_of

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
PROMPT = {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "s",
          "message": {"role": "user", "content": "Fix the login test"}}  # fmt: skip
CODEX = {"timestamp": "2026-01-01T00:00:00Z", "type": "session_meta", "payload": {"id": "t", "cwd": "/w"}}
AT = "2026-01-01T00:00:00Z"
COPILOT = {"type": "session.start", "id": "a", "timestamp": AT, "parentId": None,
           "data": {"sessionId": "s", "version": 1, "producer": "copilot-agent"}}  # fmt: skip
PI = {"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T00:00:00Z", "cwd": "/w"}
GEMINI = {"sessionId": "s", "projectHash": "h", "startTime": "2026-01-01T00:00:00Z", "kind": "main"}

QWEN = {"uuid": "q1", "parentUuid": None, "sessionId": "s", "timestamp": AT, "type": "user", "cwd": "/w",
        "message": {"role": "user", "parts": [{"text": "Fix the login test"}]}}  # fmt: skip


def log(path: Path, *records: object) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "records",
    [
        [PROMPT, {"type": "ai-title", "aiTitle": "Login", "sessionId": "s"}],
        [{"type": "custom-title", "customTitle": "Login", "sessionId": "s"}, PROMPT,
         {"type": "ai-title", "aiTitle": "A model's", "sessionId": "s"}],
        [PROMPT, {"type": "summary", "summary": "Login", "leafUuid": "u1"}],
        [CODEX, {"type": "event_msg", "payload": {"type": "thread_name_updated", "thread_name": "Login"}}],
        [COPILOT, {"type": "session.title_changed", "id": "b", "timestamp": AT, "parentId": "a",
                   "data": {"title": "Login"}}],
        [PI, {"type": "session_info", "name": "Old"}, {"type": "session_info", "name": "Login"}],
        [GEMINI, {"$set": {"summary": "Login"}}],
        [QWEN, {**QWEN, "uuid": "q2", "parentUuid": "q1", "type": "system", "subtype": "custom_title",
                "systemPayload": {"customTitle": "Login", "titleSource": "manual"}}],
        [{"kind": "session_started", "v": 1, "session_id": "s", "title": "Old"},
         {"kind": "session_changed", "title": "Login"}],
    ],
)  # fmt: skip
def test_title_is_name_in_the_log(tmp_path: Path, records: list[object]) -> None:
    assert title_of(log(tmp_path / "log.jsonl", *records)) == "Login"


def test_name_at_end_of_long_log_is_found(tmp_path: Path) -> None:
    filler = [{**PROMPT, "uuid": f"u{number}", "isMeta": True} for number in range(2, 4_000)]
    name = {"type": "ai-title", "aiTitle": "Login", "sessionId": "s"}
    assert title_of(log(tmp_path / "log.jsonl", PROMPT, *filler, name)) == "Login"


def test_title_may_follow_messages_of_document(tmp_path: Path) -> None:
    message = {"id": "m", "type": "user", "timestamp": AT, "content": "Fix the login test"}
    assert title_of(log(tmp_path / "session.json", {**GEMINI, "messages": [message], "summary": "Login"})) == "Login"
    assert title_of(log(tmp_path / "session.json", {**GEMINI, "messages": [message]})) == "Fix the login test"


def test_summary_of_another_session_is_not_the_title(tmp_path: Path) -> None:
    path = log(tmp_path / "log.jsonl", {"type": "summary", "summary": "Parent", "leafUuid": "u0"}, PROMPT)
    assert title_of(path) == "Fix the login test"


def test_codex_title_comes_from_its_index(tmp_path: Path) -> None:
    thread = "01997f5c-0000-7000-8000-00000000000a"
    path = log(tmp_path / "sessions" / "2026" / f"rollout-2026-01-01T00-00-00-{thread}.jsonl", CODEX)
    names = [{"id": thread, "thread_name": name} for name in ("Old", "Login")]
    log(tmp_path / "session_index.jsonl", *names, {"id": "other", "thread_name": "Other"})
    assert title_of(path) == "Login"


def test_copilot_title_comes_from_its_workspace(tmp_path: Path) -> None:
    path = log(tmp_path / "s" / "events.jsonl", COPILOT)
    (tmp_path / "s" / "workspace.yaml").write_text('id: s\nsummary: "Login"\n', encoding="utf-8")
    assert title_of(path) == "Login"


def test_gemini_document_title_is_its_summary(tmp_path: Path) -> None:
    path = tmp_path / "session.json"
    path.write_text(json.dumps({**GEMINI, "summary": "Login", "messages": []}), encoding="utf-8")
    assert title_of(str(path)) == "Login"


@pytest.mark.parametrize(("is_custom", "expected"), [(True, "Login"), (False, "what is here?")])
def test_kimi_code_title_if_the_user_gave_it(tmp_path: Path, is_custom: bool, expected: str) -> None:
    path = tmp_path / "s" / "agents" / "main" / "wire.jsonl"
    path.parent.mkdir(parents=True)
    shutil.copy(FIXTURES / "kimi-code" / "wire.jsonl", path)
    (tmp_path / "s" / "state.json").write_text(json.dumps({"title": "Login", "isCustomTitle": is_custom}), "utf-8")
    assert title_of(str(path)) == expected


@pytest.mark.parametrize("state", [{"state.json": {"custom_title": "Login"}}, {"metadata.json": {"title": "Login"}}])
def test_kimi_cli_title_comes_from_its_state(tmp_path: Path, state: dict[str, object]) -> None:
    for name, value in state.items():
        (tmp_path / name).write_text(json.dumps(value), "utf-8")
    for name in ("wire.jsonl", "context.jsonl"):
        log(tmp_path / name, {"role": "user", "content": "hello"})
    assert title_of(str(tmp_path)) == "Login"


def test_title_of_a_task_is_its_prompt(tmp_path: Path) -> None:
    """Files before that of the conversation were counted as parts of the log that were searched in vain."""
    files = {
        "task_metadata.json": {"files_in_context": []},
        "ui_messages.json": [{"ts": 1739987209703, "type": "say", "say": "task_progress", "text": "x"}],
        "api_conversation_history.json": [
            {"role": "user", "content": [{"type": "text", "text": "<task>Fix it all</task>"}]}
        ],
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value), "utf-8")
    assert title_of(str(tmp_path)) == "Fix it all"


@pytest.mark.parametrize(("title", "expected"), [("Login", "Login"), ("New session - 2026-01-01T00:00:00Z", None)])
def test_opencode_title_unless_it_is_a_placeholder(tmp_path: Path, title: str, expected: str | None) -> None:
    info = {"id": "ses_1", "slug": "s", "projectID": "p", "version": "1", "title": title, "time": {"created": 1}}
    path = tmp_path / "export.json"
    path.write_text(json.dumps({"info": info, "messages": []}), encoding="utf-8")
    assert title_of(str(path)) == expected


def test_title_is_first_prompt_without_a_name(tmp_path: Path) -> None:
    meta = {**PROMPT, "uuid": "u0", "message": {"role": "user", "content": "<command-name>/clear</command-name>"}}
    assert title_of(log(tmp_path / "log.jsonl", meta, {**PROMPT, "parentUuid": "u0"})) == "Fix the login test"
    assert title_of(log(tmp_path / "log.jsonl", meta)) == "/clear"


@pytest.mark.parametrize(("prompts", "expected"), [
    (["y", "Fix the login test"], "y · Fix the login test"),
    (["Fix the login test", "y"], "Fix the login test"),
    (["<command-name>/clear</command-name>", "<command-name>/plan</command-name><command-args>14</command-args>"],
     "/plan 14"),
    (["Implement the following plan:\n\n# Plan: Fix the login"], "Plan: Fix the login"),
])  # fmt: skip
def test_title_identifies_session_by_its_prompts(tmp_path: Path, prompts: list[str], expected: str) -> None:
    messages = [
        {**PROMPT, "uuid": f"u{number}", "parentUuid": f"u{number - 1}" if number else None,
         "message": {"role": "user", "content": prompt}}
        for number, prompt in enumerate(prompts)
    ]  # fmt: skip
    assert title_of(log(tmp_path / "log.jsonl", *messages)) == expected


@pytest.mark.parametrize("text", ["Generate a file named AGENTS.md that serves as a guide.", "/init"])
def test_title_skips_what_init_sends(tmp_path: Path, text: str) -> None:
    init = {**PROMPT, "uuid": "u0", "message": {"role": "user", "content": text}}
    assert title_of(log(tmp_path / "log.jsonl", init, {**PROMPT, "parentUuid": "u0"})) == "Fix the login test"
    assert title_of(log(tmp_path / "log.jsonl", init)) == "/init"


def test_title_of_requests_is_their_first_prompt(tmp_path: Path) -> None:
    body = {"model": "claude-opus-4", "max_tokens": 9, "messages": [{"role": "user", "content": "Fix the login test"}]}
    assert title_of(log(tmp_path / "bodies.jsonl", body)) == "Fix the login test"


def test_missing_or_unrecognised_file_has_no_title(tmp_path: Path) -> None:
    assert title_of(str(tmp_path / "none.jsonl")) is None
    assert title_of(log(tmp_path / "other.jsonl", {"a": 1})) is None


@pytest.mark.parametrize(("text", "expected"), [
    ("<environment_context><cwd>/w</cwd></environment_context>\nfix it", "fix it"),
    ("<task>\nfix it\n</task>\n<environment_details>now</environment_details>", "fix it"),
    ("fix it <system_reminder>tables</system_reminder>", "fix it"),
    ("<system-reminder>cut", ""),
    ("<command-name>/plan</command-name>\n<command-args>fix the login</command-args>", "fix the login"),
    ("<command-name>/plan</command-name><command-args>14</command-args>", ""),
    ("# AGENTS.md instructions for /w", ""),
    ("<task-notification><status>failed</status></task-notification>\nFull transcript at: /tmp/a", ""),
])  # fmt: skip
def test_blocks_of_clients_are_not_a_prompt(text: str, expected: str) -> None:
    assert strip_client_blocks(text) == expected


def test_title_is_one_short_masked_line() -> None:
    token = "sk-ant-api03-" + "aB3dE5gH7j" * 9
    title = shortened(f"use\n{token} " + "and more " * 50)
    assert len(title) <= MOST
    assert title.startswith("use sk-a*")
    assert title.endswith("…")
