"""What `lore store` and `lore trust` answer, for a person."""

from __future__ import annotations

from lore.model.results import store as results
from lore.model.results.trust import TrustResult
from lore.report.console import Console, line
from lore.report.plain import counted
from lore.report.timeline import write_problems

_STYLES = {"created": "green", "extended": "cyan", "conflict": "red", "failed": "red"}
_TRUSTED = {
    "approved": "", "changed": " (changed since: it has to be approved again)", "missing": " (it is gone)",
}  # fmt: skip
_DONE = {"delete": "deleted", "move": "moved", "bind": "bound"}


def write_list(result: results.StoreList, out: Console) -> None:
    """Write one line a session, and how many there are."""
    width = max((len(session.session_id) for session in result.sessions), default=0)
    for session in result.sessions:
        parts = [f", {what} {value}" for what, value in _owners(session).items() if value is not None]
        out.print(line((f"{session.session_id:<{width}}", "bold"), f"  {_size(session)}", *parts))
    events, size = (sum(getattr(session, name) for session in result.sessions) for name in ("events", "bytes"))
    sums = f"{counted(len(result.sessions), 'session')}, {counted(events, 'event')}, {counted(size, 'byte')}"
    out.print(line(f"{sums} in {result.store}"))


def _size(session: results.SessionRow) -> str:
    turns = "" if session.turns is None else f"{counted(session.turns, 'turn')}, "
    return f"{turns}{counted(session.events, 'event')}, {counted(session.bytes, 'byte')}"


def _owners(session: results.SessionRow) -> dict[str, str | None]:
    return {
        "user": session.user_id, "agent": session.agent_id, "project": session.project_id,
        "forked from": session.parent_session_id, "last used": session.used_at,
    }  # fmt: skip


def write_shown(result: results.StoreShown, out: Console) -> None:
    """Write what is known of a session, one thing a line."""
    session = result.session
    known = {
        "session": session.session_id,
        "log": _size(session),
        "head": f"event {session.head.number}, digest {session.head.digest}",
        **_owners(session),
        "forks": ", ".join(result.forks) or None,
        "leaf": session.leaf_id,
        "created": session.created_at,
        "updated": session.updated_at,
        "deltas": f"{result.prompt_deltas:,}" if result.prompt_deltas else None,
        "metadata": counted(len(bytes(result.metadata)), "byte") if bytes(result.metadata) != b"{}" else None,
    }
    for what, value in known.items():
        if value is not None:
            out.print(line((f"{what:<12}", "bold"), value))


def write_imported(result: results.StoreImported, out: Console) -> None:
    """Write one line an input, and the sums."""
    for session in result.sessions:
        came = counted(session.events or 0, "event")
        if session.message is not None:
            came = session.message
        elif session.state == "extended":
            came = f"{counted(session.new_events or 0, 'new event')} of {session.events:,}"
        state = (f"{session.state:<9}", _STYLES.get(session.state, ""))
        out.print(line(state, f" {session.session_id or '-'}: {came}  {session.path}"))
    new = sum(session.new_events or 0 for session in result.sessions)
    sums = f"{counted(len(result.sessions), 'session')}, {counted(new, 'new event')} in {result.store}"
    rest = (
        (result.joined, "subagent file", "read with their sessions"),
        (result.requests, "file", "of prompts passed over"),
        (result.skipped, "file", "skipped: not recordings"),
    )
    out.print(line(sums, *(f", {counted(number, what)} {done}" for number, what, done in rest if number)))
    write_problems(result.problems, out)


def write_written(result: results.StoreWritten, out: Console) -> None:
    """Write which sessions it was done to."""
    done = "would delete" if result.dry_run else _DONE[result.op]
    target = f" to project {result.project_id}" if result.project_id is not None else ""
    client = f" client {result.client_key} to" if result.client_key is not None else ""
    for session_id in result.session_ids:
        out.print(line((f"{done}{client} ", "bold"), f"{session_id}{target}"))


def write_verified(result: results.StoreVerified, out: Console) -> None:
    """Write what is damaged, and what can be recovered of it."""
    for damage in result.damage:
        number = "" if damage.number is None else f", event {damage.number}"
        who = "the store" if damage.session_id is None else f"session {damage.session_id}{number}"
        out.print(line(("damaged ", "bold red"), f"{who}: {damage.message} ({damage.place})"))
        out.print(line(f"        can be recovered: {damage.recoverable}"))
    for note in result.notes:
        out.print(line((f"note: {note}", "yellow")))
    looked = f"{counted(result.sessions, 'session')}, {counted(result.events, 'event')}"
    found = f"{counted(len(result.damage), 'thing')} damaged" if result.damage else "nothing is damaged"
    out.print(line(f"{looked} looked at in {result.store}: {found}"))


def write_trusted(result: TrustResult, out: Console) -> None:
    """Write each file with its commands, endpoints and keys."""
    verb = "" if result.action == "listed" else f"{result.action} "
    for file in result.files:
        out.print(line(verb, (file.path, "bold"), _TRUSTED[file.state] if result.action == "listed" else ""))
        for setting in file.settings:
            out.print(line(f"  {setting}"))
        if result.action == "approved" and not file.settings:
            out.print(line("  it names no command, endpoint or key"))
    if result.action == "listed" and not result.files:
        out.print(line("No folder is approved."))
