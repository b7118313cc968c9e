"""The spending of all agents of this machine: what bare `lore` answers.

A request counts at the time when it was sent; if that is not recorded, when its file was last written. A subagent's
requests belong to its session. A request that several files hold counts once, in the file that was written first.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

from msgspec.structs import replace

from lore.compaction.settings import WINDOWS
from lore.judge.sums import CauseSums, Copies, LedgerRequest, Sums
from lore.model.events import MAIN
from lore.model.ledger import Ledger
from lore.model.results.found import UnreadLogs
from lore.model.results.overview import GroupBy, Overview, Spending, SpendingCause, SpendingSession
from lore.model.state import UTILITY
from lore.recording import corpus
from lore.recording.agents.companions import session_of
from lore.recording.agents.logs import AGENTS, Agent, Surroundings
from lore.recording.agents.sessions import AgentLog, agent_logs
from lore.recording.inputs import Input, inputs, written_at
from lore.recording.titles import title_of
from lore.report.commands import in_shell
from lore.report.plain import day_of
from lore.report.sentences.spending import cause_in_words
from lore.run.spending.ledgers import Ledgers, Progress
from lore.run.spending.sessions import looked_places, unread_logs

WEEK = 7 * 86_400.0


class OverviewRequest(NamedTuple):
    """What to sum: recordings at `paths` (none: those of agents here), of one agent, of projects whose folder ends so.

    `since` and `until` are in seconds since the epoch (None: without end); with `compared` the same length of time
    before is summed as well; `jobs` recordings are read at a time.
    """

    since: float | None
    until: float
    paths: tuple[str, ...] = ()
    agent: Agent | None = None
    project: str = ""
    by: GroupBy | None = None
    compared: bool = False
    jobs: int = 1

    @property
    def begin(self) -> float | None:
        """The time from which requests are wanted, those to compare with included."""
        return self.since if self.since is None or not self.compared else 2 * self.since - self.until


class Gathered(NamedTuple):
    """Logs in the order in which they were written; those that lore does not read, and what could not be listed."""

    logs: list[AgentLog]
    unread: list[UnreadLogs]
    looked: list[str]
    failed: list[str]


def gathered(here: Surroundings, paths: Sequence[str], agent: Agent | None) -> Gathered:
    """List the recordings at paths, or those of agents here (None: all agents)."""
    if paths:
        logs = [AgentLog(None, file, written_at(file)) for file in inputs(list(paths))]
        found = Gathered(logs, [], list(paths), [])
    else:
        groups, there, failed = agent_logs(here, agent)
        logs = [log for group in groups for log in group]
        found = Gathered(logs, unread_logs(there, failed), looked_places(there), failed)
    found.logs.sort(key=lambda log: (log.written or 0.0, log.file.path))
    return found


class Summed(NamedTuple):
    """An overview, with its sums of days and sessions, and the files that were summed."""

    result: Overview
    period: Period
    files: list[Input]


def summed(here: Surroundings, request: OverviewRequest, ledgers: Ledgers, progress: Progress | None = None) -> Summed:
    """Sum what recordings cost, in all, by day and by session."""
    found = gathered(here, request.paths, request.agent)
    failed = found.failed
    wanted = [log for log in found.logs if request.begin is None or (log.written or request.until) >= request.begin]
    logs = {log.file.path: log for log in wanted}
    copies, files, problems = Copies(), 0, 0
    now, before = Period(request.by), Period(None)
    for file, ledger in ledgers.each([log.file for log in wanted], progress, request.jobs):
        files += 1
        problems += ledger.problems
        if ledger.message is not None:
            failed.append(f"{ledger.path}: {ledger.message}")
        for each in requests_of(ledger, logs[file.path], copies):
            if request.project and not is_of(each.project, request.project):
                continue
            if request.since is None or each.at is None or each.at >= request.since:
                now.add(each)
            elif request.compared and request.begin is not None and each.at >= request.begin:
                before.add(each)
    result = Overview(
        since=request.since, until=request.until, total=now.total.result("all"), agents=now.by_agent(),
        causes=now.causes(unsure=False), unexplained=now.causes(unsure=True),
        biggest=_tried(now.biggest(), ledgers, here.home), by=request.by,
        groups=now.groups(), before=before.total.result("before") if request.compared else None,
        before_causes=before.causes(unsure=False) if request.compared else [], files=files, kept=ledgers.taken,
        copied=copies.count, problems=problems, failed=failed, unread=found.unread, looked=found.looked, notes=[],
    )  # fmt: skip
    return Summed(result, now, [log.file for log in wanted])


def requests_of(ledger: Ledger, log: AgentLog, copies: Copies) -> Iterator[LedgerRequest]:
    """Yield the requests of a recording that no earlier one had."""
    return (request for request in every_request(ledger, log) if not copies.has(request.row, log.file.path))


def every_request(ledger: Ledger, log: AgentLog) -> Iterator[LedgerRequest]:
    """Yield the requests of a recording."""
    path = log.file.path
    own = session_of(path) or path
    name = agent_of(ledger, log)
    for row in ledger.rows:
        beside = own != path or (row.chain != MAIN and not row.chain.startswith(UTILITY))
        at = row.at if row.at is not None else ledger.written
        yield LedgerRequest(row, corpus.show(own), name, ledger.project or "", beside, at)


def agent_of(ledger: Ledger, log: AgentLog) -> str:
    """Return the agent that wrote a recording: by its folder, else by its format."""
    if log.agent is not None:
        return log.agent.title
    return next((agent.title for agent in AGENTS if ledger.format in agent.formats), ledger.format or "unknown")


def is_of(project: str, wanted: str) -> bool:
    """Return whether a project's folder is the wanted one, by its path or the end of it."""
    parts = [part for part in project.replace("\\", "/").split("/") if part]
    asked = [part for part in wanted.replace("\\", "/").split("/") if part]
    return parts[-len(asked) :] == asked if asked else not parts


_KEYS: dict[GroupBy, Callable[[LedgerRequest], str]] = {
    "day": lambda request: day_of(request.at),
    "session": lambda request: request.session,
    "model": lambda request: request.row.model or "unknown",
    "project": lambda request: request.project or "unknown",
    "agent": lambda request: request.agent,
}


class Period:
    """The requests of a time: all of them, by agent, by session, as they are grouped, and their causes."""

    def __init__(self, by: GroupBy | None) -> None:
        self.total = Sums()
        self._by: GroupBy | None = by
        self._agents, self._sessions, self._days, self._groups = (defaultdict[str, Sums](Sums) for _ in range(4))
        self._first: dict[str, LedgerRequest] = {}
        self._causes = CauseSums()

    def add(self, request: LedgerRequest) -> None:
        self.total.add(request)
        self._agents[request.agent].add(request)
        self._sessions[request.session].add(request)
        self._days[day_of(request.at)].add(request)
        self._first.setdefault(request.session, request)
        self._causes.add(request)
        if self._by is not None:
            self._groups[_KEYS[self._by](request)].add(request)

    def by_agent(self) -> list[Spending]:
        return _ordered(self._agents)

    def by(self, name: Literal["day", "session"]) -> list[Spending]:
        """Return the sums of each day, in time, or of each session, those that cost most first."""
        return _ordered(self._days, in_time=True) if name == "day" else _ordered(self._sessions, titled=True)

    def groups(self) -> list[Spending]:
        return _ordered(self._groups, in_time=self._by == "day", titled=self._by == "session")

    def causes(self, *, unsure: bool) -> list[SpendingCause]:
        return [cause_in_words(cause) for cause in self._causes.results("user", unsure=unsure)]

    def biggest(self) -> SpendingSession | None:
        """Return the session that cost most; None if no request has a price."""
        best = max(self._sessions, key=lambda name: (self._sessions[name].dollars or 0.0, name), default=None)
        if best is None:
            return None
        sums, first = self._sessions[best].result(best), self._first[best]
        return SpendingSession(
            path=best, agent=first.agent, project=first.project or None, at=first.at, requests=sums.requests,
            dollars=sums.dollars, largest_prompt_tokens=sums.largest_prompt_tokens, paid_again=sums.paid_again,
            command="", title=title_of(best),
        )  # fmt: skip


def _tried(biggest: SpendingSession | None, ledgers: Ledgers, home: str) -> SpendingSession | None:
    """Add the savings of earlier compactions, if a session is large; reads it once."""
    if biggest is None:
        return None
    found = None
    if biggest.dollars and (biggest.largest_prompt_tokens or 0) >= min(WINDOWS):
        from lore.run.compaction import earlier_compaction  # noqa: PLC0415 - slow to import, and few sessions are so large

        found = earlier_compaction(
            biggest.path, biggest.dollars, biggest.largest_prompt_tokens, ledgers.options, ledgers.rules
        )
    shown = in_shell(biggest.path, home)
    if not shown:
        return biggest if found is None else replace(biggest, saving=found.saved, compactions=found.compactions)
    if found is None:
        return replace(biggest, command=f"lore simulate {shown}")
    command = f"lore compact {shown} --dry-run --window {found.window}"
    return replace(biggest, command=command, saving=found.saved, compactions=found.compactions)


def _ordered(groups: dict[str, Sums], *, in_time: bool = False, titled: bool = False) -> list[Spending]:
    found = [sums.result(name, title_of(name) if titled else None) for name, sums in groups.items()]
    if in_time:
        return sorted(found, key=lambda group: group.name)
    return sorted(found, key=lambda group: (-(group.dollars or 0.0), -group.requests, group.name))
