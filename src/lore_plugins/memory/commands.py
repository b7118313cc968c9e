"""`lore memory users|show|delete|wipe|export|audit|extract|dream|page`: the memory across sessions."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec
import typer

from lore.commands import common, flags, use_store
from lore.config import Settings
from lore.errors import LoreError, install_hint
from lore.run import open_listener
from lore.store import now
from lore_plugins.memory import actions, report
from lore_plugins.memory.results import MemoryShown

app = common.branch(
    "Look at and change what is remembered across sessions.\n\n"
    'A store keeps it by user and agent; [memory] system = "structured" in lore.toml switches it on.'
)

User: TypeAlias = Annotated[str | None, "The user; default: the user of sessions that name none."]
Agent: TypeAlias = Annotated[str | None, "Only this agent's memory, '*': the shared one; default: all."]
Names: TypeAlias = Annotated[list[str] | None, "NAME", "Topics, or ids of texts; default: all."]
OneAgent: TypeAlias = Annotated[str | None, "The agent whose memory it is; default: the session's, else main."]


def _note(text: str) -> None:
    common.tell(f"note: {text}")


def _read(store: str, user: str | None, agent: str | None) -> MemoryShown:
    with use_store(store) as memories:
        return actions.read_memory(memories, user, agent, now=now(), tell=_note)


def _settings(config: str | None) -> Settings:
    """Return the settings in force; raises LoreError if the summariser was not approved."""
    loaded = common.settings_to_run(config)
    common.refuse_unapproved_policy(loaded, loaded.settings.compaction, sources=False)
    return loaded.settings


@app.command("users")
def users(store: flags.Url, as_json: flags.AsJson = False, color: flags.Colour = None) -> int:
    """List the users with memory."""
    with use_store(store) as memories:
        return common.answer(actions.list_users(memories), report.write_users, as_json=as_json, color=color)


@app.command("show")
def show(
    store: flags.Url, names: Names = None, user: User = None, agent: Agent = None, as_json: flags.AsJson = False,
    color: flags.Colour = None,
) -> int:  # fmt: skip
    """Show topics and texts in full, and the last time that something could not be remembered."""
    memory = _read(store, user, agent)
    shown = actions.select_names(memory, names) if names else memory
    return common.answer(shown, report.write_memory, as_json=as_json, color=color)


@app.command("delete")
def delete(
    names: Annotated[list[str], "NAME", "Topics, or ids of texts, from `show`."],
    store: flags.Url, user: User = None, agent: Agent = None, as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Delete topics and texts, all named or none.

    They are removed from the store's log too.
    A topic made from a deleted text contains it until the topic is deleted or the next dream; such topics are named.
    The sessions remain: `lore memory extract --again` may learn it again.
    """
    with use_store(store) as memories:
        result = actions.delete_names(memories, names, user, agent, now=now(), tell=_note)
    return common.answer(result, report.write_deleted, as_json=as_json, color=color)


@app.command("wipe")
def wipe(
    store: flags.Url, user: User = None, agent: Agent = None,
    yes: Annotated[bool, "--yes", "-y", "Do not ask; required without a terminal."] = False,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Delete all memory of a user, or of one agent.

    A question before it, and the result after it, name the number of entries and sessions. Without a terminal --yes is
    required, or nothing is done (exit 2).
    The sessions remain: `lore memory extract` learns from one again, and so does a watch when a person continues it;
    a watch does not learn again from silent ones. The audit log remains, without names of topics.
    """
    if not yes and not common.can_ask():
        message = "nothing was wiped: there is no terminal to ask whether to"
        raise LoreError(message, hint="--yes wipes without a question")
    with use_store(store) as memories:
        if not yes:
            preview = actions.preview_wipe(memories, user, agent)
            if preview.entries and not common.ask_confirmation(report.wipe_question(preview)):
                raise LoreError("nothing was wiped: it was not confirmed", hint="answer y, or give --yes")
        result = actions.wipe_memory(memories, user, agent, now=now(), tell=_note)
    return common.answer(result, report.write_wiped, as_json=as_json, color=color)


@app.command("export")
def export(
    store: flags.Url, user: User = None, agent: Agent = None, output: flags.Output = None, force: flags.Force = False
) -> int:
    """Write all memory of a user as a JSON object.

    Texts are written as they were remembered: credentials are not masked.
    """
    memory = _read(store, user, agent)
    with common.destination(output, force=force, inputs=(store.partition(":")[2],)) as file:
        file.write(msgspec.json.encode(memory) + b"\n")
    return 0


@app.command("audit")
def audit(
    store: flags.Url, user: User = None, agent: Agent = None, as_json: flags.AsJson = False, color: flags.Colour = None
) -> int:  # fmt: skip
    """List the changes of memory: when, by which agent, how many entries.

    With the session that was learned from, and whether it was deleted since.
    """
    with use_store(store) as memories:
        result = actions.read_audit(memories, user, agent)
    return common.answer(result, report.write_audit, as_json=as_json, color=color)


@app.command("extract")
def extract(
    session_id: flags.SessionId, store: flags.Url, user: User = None, agent: OneAgent = None,
    again: Annotated[bool, "Learn from the whole session, not its new part."] = False,
    config: flags.Config = None, as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Learn from the new part of a stored session.

    Facts, preferences, decisions, tasks, open items.
    With --again from the whole session: items that were closed, deleted or wiped since may come back.
    Only for an agent that is opted in: [memory] system = "structured". Exit 3 if the summariser's answer could not be
    used; memory then remains as it was.
    """
    loaded = _settings(config)
    with use_store(store) as memories:
        result = actions.extract_session(
            memories, session_id, user, agent, loaded.memory, loaded.compaction, tell=_note, again=again
        )
    common.answer(result, report.write_extracted, as_json=as_json, color=color)
    return 0 if result.failure is None else 3


@app.command("dream")
def dream(
    store: flags.Url, user: User = None, agent: OneAgent = None, config: flags.Config = None,
    as_json: flags.AsJson = False, color: flags.Colour = None,
) -> int:  # fmt: skip
    """Make topics of the known texts; sessions get the topics.

    Skipped if nothing is new, or while another pass runs. Only for an agent that is opted in, as `extract`.
    Exit 3 if the summariser's answer could not be used, and one topic was made of all texts.
    """
    loaded = _settings(config)
    with use_store(store) as memories:
        result = actions.dream(memories, user, agent, loaded.memory, loaded.compaction, tell=_note)
    common.answer(result, report.write_dreamt, as_json=as_json, color=color)
    return 0 if result.failure is None else 3


@app.command("page")
def page(
    store: flags.Url, port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: one that is free.")] = 0,
    config: flags.Config = None,
) -> int:  # fmt: skip
    """Show memory in a browser: users, topics, texts with their sessions, export, wipe, the audit log, the switch.

    Served only to this computer, at a printed address with a token: anyone who has the address can read and wipe. It
    ends with Ctrl-C, and the address with it. Pages load nothing from elsewhere. Needs the extra memory-page.
    """
    try:
        from lore_plugins.memory.page import MemoryPage, serve
        from lore_plugins.memory.switch import settings_file
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("lore"):
            raise
        raise LoreError("pages for a browser need Starlette and uvicorn", hint=install_hint("memory-page")) from None
    with use_store(store) as memories:  # an error of the store is reported here, not on every page
        url = memories.url
    with open_listener(port) as listener:
        file = settings_file(common.settings_to_run(config), config, common.own_settings_folder())
        pages = MemoryPage(lambda: use_store(store), url, listener.getsockname()[1], common.tell, settings=file)
        print(pages.url, flush=True)
        common.tell("Open it in a browser on this computer. Ctrl-C ends it.")
        serve(pages.application(), listener)
    return 0
