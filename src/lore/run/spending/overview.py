"""Sum what agents spent: the work of bare `lore`, of `lore report --format json` and of its pages.

A request counts at the time when it was sent; if that is not recorded, when its file was last written. A subagent's
requests belong to its session. A request that several files hold counts once, in the first of them by `by_start`. Days,
weeks and months are those of this machine's time zone.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from msgspec.structs import replace

from lore.cache.counts import LONG_PROMPT, SUGGESTED_WINDOW
from lore.errors import lacks_plug_in
from lore.formats.registry import plug_in_of
from lore.formats.unrecognised import LATER, why_unread
from lore.judge.measures import change_of_cost
from lore.judge.sums import CauseSums, Copies, LedgerRequest, Sums, is_part, sum_of
from lore.model.events import MAIN
from lore.model.ledger import Ledger, UnloggedWork
from lore.model.results import overview as results
from lore.model.results.overview import GroupBy, Spending, SpendingCause, SpendingSession, UnreadLogs
from lore.model.state import UTILITY
from lore.recording import corpus
from lore.recording.agents.companions import is_companion, session_of
from lore.recording.agents.limits import LoggedLimit, limits_in, plan_notes
from lore.recording.agents.logs import AGENTS, Agent, LogPlace, Surroundings, files_of
from lore.recording.agents.sessions import AgentLog, agent_logs
from lore.recording.inputs import Input, drop_copies, inputs, written_at
from lore.recording.opening import Options
from lore.recording.titles import title_of
from lore.report.commands import compaction_command, in_shell
from lore.report.plain import day_of, last_part, local_time
from lore.report.sentences import cause_in_words
from lore.run.spending.ledgers import Ledgers, Progress

WEEK = 7 * 86_400.0
_SUMMARY_DOLLARS = 0.2  # about the most that a model's summary of a long prompt costs
_TRIED = 5  # costliest sessions in which compacting earlier is tried: 0.2 to 0.4 s each the first time
_LITTLE = 0.01  # of all: the saving of a cheaper session is not worth the time of a trial
WORTH = 0.1  # of a session's cost: a smaller saving is not proposed
_LOGS_WITH_LIMITS = 10  # newest logs of an agent in which its limits are looked for
_LOGS_WITH_NEWEST = 100  # newest logs in which the newest request is looked for if the span has none


class OverviewRequest(NamedTuple):
    """Which requests to sum; times are in seconds since the epoch."""

    since: float | None  # None: from the first one on
    until: float
    paths: tuple[str, ...] = ()  # where recordings are; empty: where agents keep them
    agent: Agent | None = None
    project: str = ""  # a folder, or the end of its path
    by: GroupBy | None = None
    by_day: bool = False  # also sum by day, which `SpendingSums.period` then has
    compared: bool = False  # also sum the same length of time before `since`
    limits: bool = False  # also look for limits of subscription plans

    @property
    def begin(self) -> float | None:
        """The time from which requests are read."""
        return self.since if self.since is None or not self.compared else 2 * self.since - self.until

    def takes(self, entry: LedgerRequest) -> bool:
        """Return whether a request is summed: by its time and project."""
        is_of_project = not self.project or is_in_project(entry.project, self.project)
        return is_of_project and (entry.at is None or (self.since or 0.0) <= entry.at < self.until)


class GatheredLogs(NamedTuple):
    """The logs to sum."""

    logs: list[AgentLog]  # in the order in which they were written
    unread: list[UnreadLogs]  # those that lore does not read
    looked: list[str]  # places that were searched
    failed: list[str]  # places that could not be listed, with the reason


def gather_logs(surroundings: Surroundings, paths: Sequence[str], agent: Agent | None) -> GatheredLogs:
    """List the recordings at paths, or those of agents here (None: all agents)."""
    if paths:
        logs = [AgentLog(None, file, written_at(file)) for file in drop_copies(inputs(list(paths)), Options())]
        gathered_logs = GatheredLogs(logs, [], list(paths), [])
    else:
        groups, places, failed = agent_logs(surroundings, agent)
        all_logs = [log for group in groups for log in group]
        kept = {file.path for file in drop_copies([log.file for log in all_logs], Options())}
        logs = [log for log in all_logs if log.file.path in kept]
        gathered_logs = GatheredLogs(logs, unread_logs(places, failed), searched_places(places), failed)
    logs.sort(key=lambda log: (log.written or 0.0, log.file.path))
    return gathered_logs


def searched_places(places: list[LogPlace]) -> list[str]:
    """Return the places of logs that lore reads."""
    return list(dict.fromkeys(corpus.show(place.path) for place in places if place.agent.is_read))


def unread_logs(places: list[LogPlace], failed: list[str]) -> list[UnreadLogs]:
    """Return the logs that lore does not read."""
    unread: list[UnreadLogs] = []
    for place in places:
        agent = place.agent
        if agent.is_read or not (files := sum(1 for _ in files_of(place, lambda _, e: failed.append(e.message)))):
            continue
        plug_in = next((plug_in_of(name) for name in agent.formats if plug_in_of(name)), "")
        reason = LATER if agent.formats else why_unread(agent.name)
        reason = lacks_plug_in(plug_in, "its reader").message if plug_in else reason
        unread.append(UnreadLogs(agent.name, agent.title, corpus.show(place.path), files, reason))
    return unread


class SpendingSums(NamedTuple):
    """An overview, with its sums of days and sessions, and the files that were summed."""

    result: results.Overview
    period: Period
    files: list[Input]


def sum_spending(
    surroundings: Surroundings, request: OverviewRequest, ledgers: Ledgers, progress: Progress | None = None
) -> SpendingSums:
    """Sum what recordings cost, in all, by day and by session."""
    sources = gather_logs(surroundings, request.paths, request.agent)
    failed, since, begin = sources.failed, request.since, request.begin
    span_logs = [log for log in sources.logs if begin is None or (log.written or request.until) >= begin]
    logs, copies = {log.file.path: log for log in span_logs}, Copies()
    groups = (request.by, "day") if request.by_day else (request.by,)
    period, previous, limits = Period(*groups), Period(), _PlanLimits(span_logs if request.limits else (), request)
    files, problems, shown_logs = 0, 0, list[tuple[str, str]]()
    newest: float | None = None
    all_paths = [log.file.path for log in sources.logs]
    logged, inherited = logged_work(all_paths), _Inherited(all_paths)
    for file, ledger in ledgers.read([log.file for log in span_logs], progress):
        files += 1
        is_shown = False  # a request of this recording is summed
        is_read = not ledger.rows or any(map(request.takes, every_request(ledger, logs[file.path])))  # also copies
        if ledger.message is not None:
            failed.append(f"{ledger.path}: {ledger.message}")
        inherited.add(ledger, every_request(ledger, logs[file.path]), request)
        for entry in requests_of(ledger, logs[file.path], copies, logged):
            if request.project and not is_in_project(entry.project, request.project):
                continue
            if entry.at is not None and (newest is None or entry.at > newest):
                newest = entry.at
            if request.takes(entry):
                period.add(entry)
                limits.add(entry)
                is_shown = True
            elif request.compared and entry.at is not None and (begin or 0.0) <= entry.at < (since or 0.0):
                previous.add(entry)
        problems += ledger.problems if is_read else 0
        shown_logs += [(ledger.format, file.path)] if is_shown else []
    total, costliest = period.total("all"), period.costliest(_TRIED)
    least = _LITTLE * (total.dollars or 0.0)
    costliest = costliest[:1] + [pair for pair in costliest[1:] if (pair[0].dollars or 0.0) >= least]
    tried = [
        _with_saving(session, main, ledgers, logs.get(session.path), surroundings.home) for session, main in costliest
    ]
    savings = [session.saving for session in tried if session.saving]
    if period.is_empty and not request.project:
        newest = _find_newest([log for log in sources.logs if log.file.path not in logs], newest, ledgers)
    result = results.Overview(
        since=since, until=request.until, total=total, agents=period.by("agent"),
        causes=period.causes(unsure=False), unexplained=period.causes(unsure=True),
        biggest=tried[0] if tried else None, by=request.by,
        groups=period.by(request.by), before=previous.total("before") if request.compared else None,
        change=period.change_since(previous) if request.compared else None,
        before_causes=previous.causes(unsure=False) if request.compared else [], files=files, kept=ledgers.taken,
        copied=copies.count, problems=problems, failed=failed, unread=sources.unread, looked=sources.looked,
        notes=plan_notes(shown_logs), limits=limits.rows(), missed=period.missed(),
        newest=newest if period.is_empty else None,
        inherited=inherited.result(), compacted_sessions=len(savings), compaction_saving=sum_of(savings),
    )  # fmt: skip
    return SpendingSums(result, period, [log.file for log in span_logs])


def _find_newest(logs: list[AgentLog], newest: float | None, ledgers: Ledgers) -> float | None:
    """Return when the newest request was sent, in these logs or at `newest`; None: unknown.

    No log records a later time than that of its file, which is later if it was copied.
    """
    by_file_time = sorted(logs, key=lambda log: log.written or 0.0, reverse=True)
    for log in by_file_time[:_LOGS_WITH_NEWEST]:
        if newest is not None and (log.written or 0.0) <= newest:
            break
        times = [row.at for _, ledger in ledgers.read([log.file]) for row in ledger.rows if row.at is not None]
        newest = max(filter(None, (newest, *times)), default=None)
    return newest


class _Inherited:
    """Sums inherited requests of sessions without a log; each counts once, whatever number of forks holds it."""

    def __init__(self, paths: Sequence[str]) -> None:
        self._names = [os.path.basename(path) for path in paths]
        self._ids = set[str]()  # of sessions that were read
        self._requests: dict[str, dict[object, LedgerRequest]] = {}  # by session that sent them

    def add(self, ledger: Ledger, entries: Iterator[LedgerRequest], request: OverviewRequest) -> None:
        self._ids.add(ledger.session)
        for entry in entries if ledger.origin else ():
            row = entry.row
            if row.is_inherited and request.takes(entry):
                key = row.response_id or (row.chain, row.number)
                self._requests.setdefault(ledger.origin, {})[key] = entry

    def result(self) -> results.InheritedRequests | None:
        sums, sessions = Sums(), 0
        for origin, requests in self._requests.items():
            stem = last_part(origin).removesuffix(".jsonl")
            if not any(stem in name for name in self._names) and not any(name and name in stem for name in self._ids):
                sessions += 1
                for entry in requests.values():
                    sums.add(entry)
        if not sessions:
            return None
        total = sums.result("")
        return results.InheritedRequests(
            requests=total.requests, sessions=sessions, dollars=total.dollars, recorded_dollars=total.recorded_dollars
        )


def logged_work(paths: Iterable[str]) -> set[str]:
    """Return the ids of subagents that have a log, and the paths of sessions whose requests for summaries have one."""
    names = set[str]()
    for path in paths:
        if is_companion(os.path.basename(path)):
            name = os.path.basename(path).removesuffix(".jsonl").removeprefix("agent-")
            names.add(name)
            if name.startswith("acompact"):
                names.add(corpus.show(session_of(path) or path))
    return names


def requests_of(ledger: Ledger, log: AgentLog, copies: Copies, logged: set[str]) -> Iterator[LedgerRequest]:
    """Yield the requests of a recording, skipping those already seen in an earlier recording.

    `logged` is what `logged_work` returns. Other work that the requests mention is added to it, so as to count once.
    """
    for request in every_request(ledger, log):
        if not copies.has(request.row, log.file.path):
            yield drop_logged(request, logged) if request.row.unlogged else request


def drop_logged(request: LedgerRequest, logged: set[str]) -> LedgerRequest:
    """Return a request without the work that has a log, or that was counted before."""
    works = absent_work(request.row.unlogged, request.session, logged)
    logged.update(work.name for work in works)
    return request._replace(row=replace(request.row, unlogged=tuple(works)))


def absent_work(works: Iterable[UnloggedWork], session: str, logged: AbstractSet[str]) -> list[UnloggedWork]:
    """Return the work of a session that no log holds; `logged` is what `logged_work` returns."""
    is_summary_logged = session in logged
    return [work for work in works if work.name not in logged and not (work.kind == "compaction" and is_summary_logged)]


def sum_absent(works: Iterable[UnloggedWork]) -> dict[str, int]:
    """Return the fields of `Spending` about work that no log holds."""
    sums = Counter[str]()
    for work in works:
        sums.update({f"absent_{work.kind}s": 1, f"absent_{work.kind}_tokens": work.tokens})
    return sums


def every_request(ledger: Ledger, log: AgentLog) -> Iterator[LedgerRequest]:
    """Yield the requests of a recording."""
    path = log.file.path
    session_path = session_of(path) or path
    name, session = agent_of(ledger, log), corpus.show(session_path)
    for row in ledger.rows:
        is_subagent = session_path != path or (row.chain != MAIN and not row.chain.startswith(UTILITY))
        at = row.at if row.at is not None else ledger.written
        yield LedgerRequest(row, session, name, ledger.project or "", is_subagent, at)


def agent_of(ledger: Ledger, log: AgentLog) -> str:
    """Return the agent that wrote a recording: by its folder, else by its format."""
    if log.agent is not None:
        return log.agent.title
    return next((agent.title for agent in AGENTS if ledger.format in agent.formats), ledger.format or "unknown")


def is_in_project(project: str, name: str) -> bool:
    """Return whether a project's folder has this name: its path, or the end of its path."""
    parts = [part for part in project.replace("\\", "/").split("/") if part]
    name_parts = [part for part in name.replace("\\", "/").split("/") if part]
    return parts[-len(name_parts) :] == name_parts if name_parts else not parts


_KEYS: dict[GroupBy, Callable[[LedgerRequest], str]] = {
    "day": lambda request: day_of(request.at),
    "week": lambda request: local_time(request.at, "%G-W%V") or "unknown",
    "month": lambda request: local_time(request.at, "%Y-%m") or "unknown",
    # the model, and why its prices are not those of the list, such as `gpt-5.5 (fast mode)`
    "model": lambda request: (
        (request.row.model or "unknown") + ("" if request.row.surcharge is None else f" ({request.row.surcharge[0]})")
    ),
    "project": lambda request: request.project or "unknown",
}


class Period:
    """The requests of a time: their sums in all and by group, and their causes."""

    def __init__(self, *groups: GroupBy | None) -> None:
        """Prepare sums by agent and session, and by these groups."""
        self._sums: dict[tuple[str, str], Sums] = {}  # by agent and session: each request is summed once
        self._latest = Sums()  # those of the session that is read
        self._groups: dict[GroupBy, defaultdict[str, Sums]] = {
            name: defaultdict(Sums) for name in groups if name in _KEYS
        }
        self.first: dict[str, LedgerRequest] = {}  # of each session
        self._latest_at: dict[str, float] = {}  # when the latest request of each session was sent
        self.cause_sums = CauseSums()
        self._models = defaultdict[str, Sums](Sums)
        self.session_causes = defaultdict[str, CauseSums](CauseSums)

    @property
    def is_empty(self) -> bool:
        return not self._sums

    def add(self, request: LedgerRequest) -> None:
        key = request.agent, request.session
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = Sums()
            self.first.setdefault(request.session, request)
        if sums is not self._latest:
            self._latest.sum_added()
            self._latest = sums
        if request.at is not None:
            self._latest_at[request.session] = max(request.at, self._latest_at.get(request.session, request.at))
        sums.add(request)
        self.cause_sums.add(request)
        self._models[request.row.model or ""].add(request)
        for name, groups in self._groups.items():
            groups[_KEYS[name](request)].add(request)
        self.session_causes[request.session].add(request)

    def _by(self, key: Callable[[str, str], str]) -> dict[str, Sums]:
        """Return the sums of each group of sessions; `key` names the group of an agent's session."""
        groups = defaultdict[str, list[Sums]](list)
        for (agent, session), sums in self._sums.items():
            groups[key(agent, session)].append(sums)
        return {name: Sums.joined(parts) for name, parts in groups.items()}

    def total(self, name: str) -> Spending:
        """Return the sums of all requests under this name."""
        return self._by(lambda _, __: "").get("", Sums()).result(name)

    def change_since(self, earlier: Period) -> results.CostChange | None:
        """Return why these requests cost more or less than earlier ones; None if a cost is unknown."""
        return change_of_cost(*({name: sums.result(name) for name, sums in period._models.items()}
                                for period in (earlier, self)))  # fmt: skip

    def by(self, name: GroupBy | None) -> list[Spending]:
        """Return the sums of each group: times in their order, other groups by cost, the costliest first.

        Raises KeyError for a group that was not prepared; agents and sessions always are.
        """
        if name is None:
            return []
        if name in ("agent", "session"):
            groups = self._by(lambda agent, session: agent if name == "agent" else session)
        else:
            groups = self._groups[name]
        rows = [sums.result(key, title_of(key) if name == "session" else None) for key, sums in groups.items()]
        if name in ("day", "week", "month"):
            return sorted(rows, key=lambda row: row.name)
        return sorted(rows, key=lambda row: (-(row.dollars or 0.0), -row.requests, row.name))

    def causes(self, *, unsure: bool) -> list[SpendingCause]:
        return self.cause_sums.results("user", unsure=unsure, worded=cause_in_words)

    def missed(self) -> list[SpendingCause]:
        """Return why tokens that were not re-billed could have been read from a cache and were not."""
        return [cause_in_words(cause) for cause in self.cause_sums.missed("user")]

    def costliest(self, most: int) -> list[tuple[SpendingSession, float]]:
        """Return the sessions that cost most, each with the dollars of its main chain, the costliest first."""
        sessions = self._by(lambda _, session: session)
        names = sorted(sessions, key=lambda name: (sessions[name].dollars or 0.0, name), reverse=True)[:most]
        rows: list[tuple[SpendingSession, float]] = []
        for name in names:
            first, sums = self.first[name], sessions[name].result(name)
            row = SpendingSession(
                path=name, agent=first.agent, project=first.project or None, at=first.at, requests=sums.requests,
                dollars=sums.dollars, largest_prompt_tokens=sums.largest_prompt_tokens, paid_again=sums.paid_again,
                command="", title=title_of(name), at_least=is_part(sums), latest_at=self._latest_at.get(name),
            )  # fmt: skip
            rows.append((row, (sums.dollars or 0.0) - (sums.subagent_dollars or 0.0)))
        return rows


class _PlanLimits:
    """The windows of subscription plans that have not reset yet, with the requests that were sent in them."""

    def __init__(self, logs: Sequence[AgentLog], request: OverviewRequest) -> None:
        self._since, self._sums = request.since, dict[LoggedLimit, Sums]()
        newest: defaultdict[Agent, list[str]] = defaultdict(list)
        for log in reversed(logs):
            if log.agent is not None and len(newest[log.agent]) < _LOGS_WITH_LIMITS:
                newest[log.agent].append(log.file.path)
        for paths in newest.values():
            open_limits = [limit for path in paths for limit in limits_in(path) if limit.resets_at > request.until]
            latest = {limit.minutes: limit for limit in sorted(open_limits, key=lambda limit: limit.resets_at)}
            self._sums |= {limit: Sums() for limit in latest.values()}

    def add(self, request: LedgerRequest) -> None:
        for limit, sums in self._sums.items():
            if limit.agent == request.agent and request.at is not None and request.at >= limit.began_at:
                sums.add(request)

    def rows(self) -> list[results.PlanLimit]:
        rows: list[results.PlanLimit] = []
        for limit, sums in self._sums.items():
            is_covered = self._since is None or self._since <= limit.began_at
            total = sums.result("")
            tokens = total.uncached_tokens + total.read_tokens + total.write_tokens + total.output_tokens
            row = results.PlanLimit(
                agent=limit.agent, minutes=limit.minutes, used_percent=limit.used_percent, resets_at=limit.resets_at,
                requests=total.requests if is_covered else None, tokens=tokens if is_covered else None,
                dollars=total.dollars if is_covered else None,
            )  # fmt: skip
            rows.append(row)
        return rows


def _with_saving(
    biggest: SpendingSession, main_dollars: float, ledgers: Ledgers, log: AgentLog | None, home: str
) -> SpendingSession:
    """Add the next command, and the saving of earlier compactions if it is a tenth of the session's cost.

    The trial takes the whole log. Of its saving the session has the share that its main chain (`main_dollars`) has of
    the log's cost: the rest is that of copied requests, which another session counts, and of other times.
    """
    quoted_path, dollars = in_shell(biggest.path, home), biggest.dollars or 0.0
    if dollars and (biggest.largest_prompt_tokens or 0) > LONG_PROMPT:
        trial = ledgers.try_compactions(biggest.path, None if log is None else log.file)
        if trial.saved_dollars is not None:
            fired, whole = trial.compactions, trial.cost_dollars
            saved = sum_of([trial.saved_dollars * min(1.0, main_dollars / whole)]) if whole > 0 else 0.0
            if saved - fired * _SUMMARY_DOLLARS >= dollars * WORTH:
                command = compaction_command(quoted_path)
                return replace(biggest, command=command, saving=saved, compactions=fired, window=SUGGESTED_WINDOW)
    return replace(biggest, command=f"lore simulate {quoted_path}" if quoted_path else "")
