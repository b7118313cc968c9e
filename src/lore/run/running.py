"""Judge a running session, for `lore watch` and `lore statusline`: the whole log, each time that it changed.

The log is judged like any other recording, so that these commands and `lore check` agree, also after a rotation. A last
line that is still being written is a problem of the recording, and changes nothing. Cost: O(bytes of the log), 30 MB a
second.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from lore.judge.running import RunningSums
from lore.model.cause import Place
from lore.model.jsonslice import is_json
from lore.model.ledger import LedgerRow
from lore.model.running import LastBreak, RunningTotals
from lore.recording import corpus
from lore.recording.agents.logs import Surroundings
from lore.recording.agents.sessions import newest_of_agents, newest_of_project
from lore.recording.base import Problems, collected_seldom, load_plugins
from lore.recording.opening import Options
from lore.report.sentences import worded_break
from lore.run.checking.verdicts import verdicts
from lore.run.rules import Dated


class RunningLog(NamedTuple):
    """A log that was judged."""

    running: RunningTotals
    rows: tuple[LedgerRow, ...] = ()
    breaks: Mapping[int, LastBreak] = MappingProxyType({})  # cache breaks, by the place of their row


def judge_running(path: str, options: Options, dated: Dated) -> RunningLog:
    """Judge the whole log; without a complete line the totals are empty. Raises LoreError for an unreadable one."""
    load_plugins()
    with collected_seldom():
        opened = corpus.open_head(path)
        head = opened.head
        if not head.strip() or (b"\n" not in head and head.startswith(b"{") and not is_json(head)):  # part of a line
            return RunningLog(RunningTotals(""))
        recording = options.open(path, Problems(), opened=opened)
        sums = RunningSums(dated.rules, worded_break)
        steps = verdicts(recording, dated.judge(quick=True), Place(recording.shown, audience="user"))
        rows = tuple([sums.take(verdict, "user") for verdict, _ in steps if verdict is not None])
        return RunningLog(sums.result(recording.reader.name, recording.state.id or ""), rows, sums.breaks)


def newest_session(surroundings: Surroundings, *, machine: bool) -> str | None:
    """Return the newest session of the current project, else (`machine`) of all; None without sessions."""
    log = newest_of_project(surroundings) or (newest_of_agents(surroundings) if machine else None)
    return None if log is None else log.file.path
