"""Rare formats: the rows that `pyproject.toml` publishes; readers are imported when they are used."""

from __future__ import annotations

from lore.formats import Format

_HERE = "lore_plugins.formats"

CODEX_EXEC = Format(
    f"{_HERE}.codex_exec:CodexExec", "what `codex exec --json` prints", "reconstructed", "yes", "some", "no", "no",
    "no", signs=(b'"thread.started"', b'"item.completed"', b'"item.started"'), before="managed-agents-list",
)  # fmt: skip
FLUE = Format(
    f"{_HERE}.flue:Flue", "sessions of flue", "reconstructed", "yes", "yes", "no", "no", "yes",
    signs=(b'"parentId"', b'"leafId"', b'"newEntries"', b'"removedEntryIds"'), before="cline",
)  # fmt: skip
KIMI_CLI = Format(
    f"{_HERE}.kimi_cli:KimiCli", "one file of such a session", "reconstructed", "yes", "some", "some", "no", "some",
    signs=(b'"protocol_version"', b'"payload"', b'"_system_prompt"', b'"_checkpoint"', b'"_usage"'), before="kimi-code",
)  # fmt: skip
KIMI_CLI_SESSION = Format(
    f"{_HERE}.kimi_cli:KimiCliSession", "sessions of Kimi CLI, a folder each", "structural", "yes", "yes", "some", "no",
    "yes", packed=True, before="kimi-code",
)  # fmt: skip
MINI_SWE_AGENT = Format(
    f"{_HERE}.swe_agent:MiniSweAgent", "mini-swe-agent's trajectories", "structural", "yes", "yes", "yes", "no", "no",
    signs=(b'"mini_version"', b'"mini-swe-agent'), document=True, before="cline",
)  # fmt: skip
OPENFANG = Format(
    f"{_HERE}.openfang:OpenFang", "openfang's sessions as message lines", "reconstructed", "yes", "no", "some", "no",
    "no", members=frozenset(("role", "content")), before="cline",
)  # fmt: skip
OPENHANDS = Format(
    f"{_HERE}.openhands:OpenHands", "OpenHands' conversations (V1), a folder each", "structural", "yes", "yes", "yes",
    "some", "yes", packed=True, before="cline",
)  # fmt: skip
SIDECODE = Format(
    f"{_HERE}.sidecode:Sidecode", "sidecode's event deltas", "reconstructed", "yes", "some", "no", "no", "yes",
    members=frozenset(("kind",)), before="lore",  # whose own reader takes any event
)  # fmt: skip
SWE_AGENT = Format(
    f"{_HERE}.swe_agent:SweAgent", "SWE-agent's trajectories", "structural", "yes", "no", "some", "no", "no",
    signs=(b'"trajectory"',), document=True, before="cline",
)  # fmt: skip
