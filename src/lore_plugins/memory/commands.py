"""`lore memory users|list|show|delete|wipe|export|audit|extract|dream|page`: what is remembered across sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from lore.cli import (
    AsJson,
    Colour,
    Config,
    Force,
    Output,
    SessionId,
    Url,
    answer,
    branch,
    can_ask,
    confirmed,
    destination,
    opened,
    quiet_pipe,
    refuse_unapproved,
    settings_to_run,
    tell,
)

if TYPE_CHECKING:
    from lore.config import Settings

app = branch(
    "Look at and change what is remembered across sessions.\n\n"
    'Kept by user and agent, in a store; [memory] system = "structured" in lore.toml switches it on.'
)

User: TypeAlias = Annotated[
    str | None, typer.Option("--user", help="Of whom; default: the user of sessions that name none.")
]
Agent: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="What this agent remembers alone, '*': what agents share; default: all.")
]
Names: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[NAME]...", help="Topics, or ids of texts; default: all.")
]
OneAgent: TypeAlias = Annotated[
    str | None, typer.Option("--agent", help="The agent that remembers; default: the session's, else main.")
]


def _note(text: str) -> None:
    tell(f"note: {text}")


def _settings(config: str | None) -> Settings:
    """Return the settings in force; raises LoreError if the summariser was not approved."""
    loaded = settings_to_run(config)
    refuse_unapproved(loaded, loaded.settings.compaction, sources=False)
    return loaded.settings


@app.command("users")
@quiet_pipe
def users(store: Url, as_json: AsJson = False, color: Colour = None) -> int:
    """List the users of whom something is remembered."""
    from lore_plugins.memory import actions
    from lore_plugins.memory.report import write_users

    with opened(store) as memories:
        return answer(actions.users(memories), write_users, as_json=as_json, color=color)


@app.command("list")
@quiet_pipe
def list_(
    store: Url, user: User = None, agent: Agent = None, as_json: AsJson = False, color: Colour = None
) -> int:  # fmt: skip
    """List what is remembered, and how much of it.

    With the topics, and the last time that something could not be remembered.
    """
    from lore.store import now
    from lore_plugins.memory import actions
    from lore_plugins.memory.report import write_list

    with opened(store) as memories:
        found = actions.listed(actions.everything(memories, user, agent, now=now(), tell=_note))
    return answer(found, write_list, as_json=as_json, color=color)


@app.command("show")
@quiet_pipe
def show(
    store: Url, names: Names = None, user: User = None, agent: Agent = None, as_json: AsJson = False,
    color: Colour = None,
) -> int:  # fmt: skip
    """Show what is remembered, word for word."""
    from lore.store import now
    from lore_plugins.memory import actions
    from lore_plugins.memory.report import write_shown

    with opened(store) as memories:
        found = actions.everything(memories, user, agent, now=now(), tell=_note)
    return answer(actions.named(found, names) if names else found, write_shown, as_json=as_json, color=color)


@app.command("delete")
@quiet_pipe
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Topics, or ids of texts, as `show` has them.")],
    store: Url, user: User = None, agent: Agent = None, as_json: AsJson = False, color: Colour = None,
) -> int:  # fmt: skip
    """Take away topics and texts, all named or none.

    Nothing of them stays in the store's log.
    A topic that was dreamt from a text holds it until it is deleted, or dreamt anew: it is named. The sessions stay:
    `lore memory extract --again` may learn it again.
    """
    from lore.store import now
    from lore_plugins.memory.actions import deleted
    from lore_plugins.memory.report import write_deleted

    with opened(store) as memories:
        found = deleted(memories, names, user, agent, now=now(), tell=_note)
    return answer(found, write_deleted, as_json=as_json, color=color)


@app.command("wipe")
@quiet_pipe
def wipe(
    store: Url, user: User = None, agent: Agent = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing; needed where nobody can be asked.")] = False,
    as_json: AsJson = False, color: Colour = None,
) -> int:  # fmt: skip
    """Take away all of a user's, or by one agent, at once.

    How many entries of how many sessions go is said before, with a question, and after; where no terminal can be asked
    --yes is needed, or nothing is done (exit 2).
    The sessions themselves stay: extracting from one by hand learns it again, and so does a watch where somebody goes
    on with it; those in which nobody speaks any more it leaves alone. The audit log stays, too: of what was remembered
    it holds the names of topics that dreams dropped, nothing else.
    """
    from lore.errors import LoreError
    from lore.store import now
    from lore_plugins.memory.actions import wiped, wiping
    from lore_plugins.memory.report import wipe_question, write_wiped

    if not yes and not can_ask():
        raise LoreError(
            "nothing was wiped: there is no terminal to ask whether to", hint="--yes wipes without a question"
        )
    with opened(store) as memories:
        if not yes:
            going = wiping(memories, user, agent)
            if going.entries and not confirmed(wipe_question(going)):
                raise LoreError("nothing was wiped: it was not confirmed", hint="answer y, or give --yes")
        found = wiped(memories, user, agent, now=now(), tell=_note)
    return answer(found, write_wiped, as_json=as_json, color=color)


@app.command("export")
@quiet_pipe
def export(store: Url, user: User = None, agent: Agent = None, output: Output = None, force: Force = False) -> int:
    """Write all that is remembered as a JSON object.

    It is written as it was remembered: what looks like a credential is not masked.
    """
    import msgspec

    from lore.store import now
    from lore_plugins.memory import actions

    with opened(store) as memories:
        found = actions.everything(memories, user, agent, now=now(), tell=_note)
    with destination(output, force=force, inputs=(store.partition(":")[2],)) as file:
        file.write(msgspec.json.encode(found) + b"\n")
    return 0


@app.command("audit")
@quiet_pipe
def audit(
    store: Url, user: User = None, agent: Agent = None, as_json: AsJson = False, color: Colour = None
) -> int:  # fmt: skip
    """List who changed what is remembered, and when.

    With the session that it came from, and whether that was deleted since.
    """
    from lore_plugins.memory import actions
    from lore_plugins.memory.report import write_audit

    with opened(store) as memories:
        return answer(actions.audited(memories, user, agent), write_audit, as_json=as_json, color=color)


@app.command("extract")
@quiet_pipe
def extract(
    session_id: SessionId, store: Url, user: User = None, agent: OneAgent = None,
    again: Annotated[bool, typer.Option("--again", help="Learn from all of it, not only from what is new.")] = False,
    config: Config = None, as_json: AsJson = False, color: Colour = None,
) -> int:  # fmt: skip
    """Learn from what is new in a stored session.

    Facts, preferences, decisions, tasks, open items.
    With --again from all of it: what was closed, deleted or wiped since may come back.
    Only for an agent that is opted in: [memory] system = "structured". Exit 3 where the summariser's answer could not
    be used; what was known then stays.
    """
    from lore_plugins.memory.actions import extracted
    from lore_plugins.memory.report import write_extracted

    loaded = _settings(config)
    with opened(store) as memories:
        found = extracted(memories, session_id, user, agent, loaded.memory, loaded.compaction, tell=_note, again=again)
    answer(found, write_extracted, as_json=as_json, color=color)
    return 0 if found.failure is None else 3


@app.command("dream")
@quiet_pipe
def dream(
    store: Url, user: User = None, agent: OneAgent = None, config: Config = None,
    as_json: AsJson = False, color: Colour = None,
) -> int:  # fmt: skip
    """Make topics of what is known: what sessions are told.

    Skipped where nothing is new, or another pass is at it. Only for an agent that is opted in, as `extract`.
    Exit 3 where the summariser's answer could not be used, and one topic was made of all.
    """
    from lore_plugins.memory.actions import consolidated
    from lore_plugins.memory.report import write_dreamt

    loaded = _settings(config)
    with opened(store) as memories:
        found = consolidated(memories, user, agent, loaded.memory, loaded.compaction, tell=_note)
    answer(found, write_dreamt, as_json=as_json, color=color)
    return 0 if found.failure is None else 3


@app.command("page")
@quiet_pipe
def page(
    store: Url, port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: one that is free.")] = 0
) -> int:  # fmt: skip
    """Show it in a browser: users, where each text comes from, export, delete, wipe, the audit log.

    Served to this computer alone, at an address with a token that is printed: whoever has it may read and wipe. It ends
    with Ctrl-C, and the address with it. Nothing is loaded from elsewhere. Needs the extra
    memory-page.
    """
    import secrets

    from lore.run import listening
    from lore_plugins.memory.html import policy
    from lore_plugins.memory.page import MemoryPage, getting, posting
    from lore_plugins.memory.server import application, serve, site_of

    with opened(store) as memories:  # what cannot be opened is said here, and not by every page
        pages = MemoryPage(lambda: opened(store), secrets.token_bytes(32), memories.url)
    with listening(port) as listener:
        site = site_of(listener.getsockname()[1], policy())
        made = application(pages, getting, posting, site, tell)
        print(site.url, flush=True)
        tell("Open it in a browser of this computer. Ctrl-C ends it.")
        serve(made, listener)
    return 0
