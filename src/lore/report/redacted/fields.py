"""Which text of a result holds what of a recording, and what `--redact` makes of it: the one place that says so.

Rules: every text of every result that can be redacted has its row here (a test looks at the types), a row that is not
kept hides whatever stands in the field (a test fills them), and the guide's table (`lore guide reports`) is `SHOWN` (a
test compares them). A field is called by its name; by its struct's as well where structs differ in it.
"""

from __future__ import annotations

from typing import NamedTuple


class FieldTreatment(NamedTuple):
    """What is treated alike, how it is shown, and the fields that hold it; `kept`: as it is."""

    what: str
    shown: str
    fields: tuple[str, ...]
    kept: bool = False


SHOWN = {
    "content": FieldTreatment(
        "text of messages, system prompts, tools and results; reasons and errors of providers, sources; projects; "
        "hosts of gateways",
        "length and 8 digits of the SHA-256",
        ("message", "left", "right", "reason", "source", "project", "gateway", "server", "section", "failed",
         "Comparison.notes", "says", "tokens", "GroupResult.name", "ReliabilityResult.name"),
    ),
    "name": FieldTreatment(
        "names of tools, servers, hooks, skills, commands and files; members of bodies and schemas that are a "
        "writer's own",
        "the same",
        ("names", "client", "clients", "json_path", "DivergenceResult.path", "CauseResult.path", "cached_to",
         "LintBreakpoint.path"),
    ),
    "id": FieldTreatment(
        "ids of sessions and responses; chains and agents with names of their own",
        "8 digits of the SHA-256",
        ("chain", "session", "session_id", "id", "response", "response_id", "pruned"),
    ),
    "model": FieldTreatment(
        "a model's name",
        "as it is where all its words are those of public models (`us.anthropic.claude-opus-5-v1:0`); any other "
        "(`ft:gpt-4o:acme:…`) as length and digits",
        ("model", "models"),
    ),
    "own": FieldTreatment(
        "members of request shapes (`messages[3].content`), formats, dialects, codes, counts, times, tokens, prices",
        "as they are",
        ("code", "codes", "name", "kind", "fix", "plain", "actor", "strength", "qualifiers", "fidelity", "confidence",
         "fingerprint", "format", "dialect", "lacks", "sealed", "what", "agent", "title", "engine", "version", "unit",
         "cache", "reads_most", "provider", "platform", "as_of", "by", "by_price", "currency", "change", "trigger",
         "when", "answer", "notes", "stopped", "left_out", "skipped", "same_as", "tail", "best", "next",
         "computes_least", "unsent", "tokenizer", "relation", "bytes", "billed", "verdict", "dispute", "ruled_out",
         "started_at", "ended_at", "written_at", "UnreadLogs.message", "PredictedResult.reason", "OutcomeResult.reason",
         "ComparedCause.says"),
        kept=True,
    ),
    "file": FieldTreatment(
        "the file or folder that you named, and line and byte in it",
        "as they are: call it otherwise where its name says too much",
        ("path", "file", "looked", "command", "recording", "capture", "DryRun.session", "Side.name",
         "ComparedSide.name", "MeasuredLog.name", "SpendingSession.path", "Replayed.server"),
        kept=True,
    ),
}  # fmt: skip
OF_FIELDS = {field: kind for kind, row in SHOWN.items() for field in row.fields}
