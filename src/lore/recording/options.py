"""How recordings are read: what the command line says, passed along."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from lore.prompt.base import Memo
from lore.prompt.settings import Policy, Rules
from lore.recording import corpus
from lore.recording.base import Recording
from lore.recording.events import Template
from lore.recording.opening import open_recording
from lore.recording.overrides import Completion
from lore.recording.problems import Problems
from lore.tokens.base import TokenCounter


def silent(_: str) -> None:
    """Say nothing."""


@dataclass(frozen=True, slots=True)
class Options:
    """Format and dialect override recognition; `counter` is None where no tokens are asked for.

    `rules` say how prompts are assembled, `policy` where their tail goes; `completion` is what the caller adds
    to prompts that are not recorded whole, `template` a chat template to render them with; `log` is
    told what was read and decided.
    """

    format: str | None = None
    dialect: str | None = None
    policy: Policy | None = None
    rules: Rules = Rules()
    counter: TokenCounter | None = None
    completion: Completion | None = None
    template: Template | None = None
    log: Callable[[str], None] = silent

    @property
    def ruled(self) -> Rules:
        """How prompts are assembled; a policy that was asked for holds before the settings."""
        return self.rules if self.policy is None else msgspec.structs.replace(self.rules, tail=self.policy)

    def open(
        self, path: str, problems: Problems | None = None, *, subagents: bool = False,
        opened: corpus.Opened | None = None, memos: dict[str, Memo] | None = None,
    ) -> Recording:  # fmt: skip
        """Open a recording, or take one that is open; raises LoreError where it cannot be read or recognised.

        With `subagents`, the files that hold the session's other chains are read with it. Recordings that are
        compared share `memos`, so that what both hold is sliced once.
        """
        recording = open_recording(
            path, format=self.format, dialect=self.dialect, rules=self.ruled, problems=problems, opened=opened,
            companions=corpus.companions(path) if subagents else (), completion=self.completion,
            template=self.template, memos=memos,
        )  # fmt: skip
        self.log(f"{recording.shown}: read as {recording.reader.name}")
        for companion in recording.companions:
            self.log(f"{corpus.show(companion)}: a subagent's file of this session, read with it")
        return recording
