"""Which models take system messages after the first one, at the start and in mid-conversation: dated rows.

Settings come first, unless the dialect has no place for such a message or the chat template in use does otherwise; then
what chat templates are known to do; then the rows of providers; otherwise the answer is no. A row says that the model
follows the message, not only that the API takes it: claude-sonnet-5 answers 200 and ignores it, so it has no row.
Sources of the rows: Anthropic's documentation and tests of August 2026 (older Claude models answer 400); the references
of OpenAI, Mistral and Cohere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Literal, NamedTuple, TypeAlias

from lore.model.patterns import matches_shell
from lore.model.results.assemble import PlacementResult, TemplateResult
from lore.prompt.base import IN_CONVERSATION, SEVERAL_LEADING, Dialect, Rules, expresses

# What a chat template does with a later system message: fail, join it to the first, leave it out, write it.
Does: TypeAlias = Literal["refuses", "merges", "ignores", "renders"]


class SystemMessages(NamedTuple):
    """Models of a provider's API that follow system messages in mid-conversation."""

    dialect: str  # of the API
    models: tuple[str, ...]  # shell patterns
    since: str  # the month from which it holds, `YYYY-MM`
    source: str  # where it was published


_ANYWHERE = "reference: system and developer messages at any place"
ROWS = (
    SystemMessages(
        "anthropic", ("claude-fable-5*", "claude-mythos-5*", "claude-opus-4-8*", "claude-opus-5*"), "2026-08",
        "Anthropic API, mid-conversation system messages",
    ),
    SystemMessages(
        "openai-chat", ("gpt-*", "o[0-9]*", "mistral-*", "command-*"), "2026-08", f"Chat Completions {_ANYWHERE}"
    ),
    SystemMessages("openai-responses", ("gpt-*", "o[0-9]*"), "2026-08", f"Responses {_ANYWHERE}"),
)  # fmt: skip
TEMPLATES = (
    TemplateResult(
        ("qwen3.5*", "qwen3.6*", "qwen3.8*"), "refuses", "2026-09", "vLLM issue 41114, QwenLM/Qwen3.8 issue 244"
    ),
    TemplateResult(("qwen3-[0-9]*", "qwen2.5-[0-9]*"), "renders", "2025-04", "chat template of Qwen/Qwen3-8B"),
    TemplateResult(
        ("gemma-[23]-*", "gemma[23]:*"), "refuses", "2025-12", "vLLM 400: conversation roles must alternate"
    ),
    TemplateResult(
        ("mistral-7b-*", "mixtral-*", "ministral-*"), "refuses", "2026-01", "vLLM issue 6862, crush issue 279"
    ),
    TemplateResult(("gpt-oss*",), "ignores", "2026-08", "SGLang issue 13167, Rapid-MLX issue 1765"),
    TemplateResult(("deepseek-v3*", "deepseek-r1*"), "merges", "2024-12", "chat template of DeepSeek-V3 and R1"),
)  # fmt: skip


_TEMPLATED = ("openai-chat", "openai-responses", "template")  # dialects that servers render by a model's chat template


def placement(model: str | None, dialect: Dialect, rules: Rules) -> PlacementResult:
    """Return whether the context of a turn may be a system message at the end, also after a tool's results, and why.

    The first that decides: a dialect that cannot express it (no), its own template (no, if it does not render it), the
    setting `system_in_conversation` (yes), the model's known template (no, if it does not render it), a provider's row
    (yes). Without any of them: no, by `unknown`.
    """
    if not expresses(dialect, IN_CONVERSATION):
        return PlacementResult(accepted=False, by="dialect", since="", source="")
    late_system: Callable[[], Does | None] | None = getattr(dialect, "late_system", None)
    if late_system is not None and late_system() not in ("renders", None):
        return PlacementResult(accepted=False, by="template", since="", source="")
    if matches(model, rules.system_in_conversation):
        return PlacementResult(accepted=True, by="setting", since="", source="")
    template = template_of(model)
    if template is not None and template.does != "renders":
        return PlacementResult(accepted=False, by="template", since=template.since, source=template.source)
    name, rows = (model or "").rsplit("/", 1)[-1], (row for row in ROWS if row.dialect == dialect.name)
    row = next((row for row in rows if any(matches_shell(pattern, name) for pattern in row.models)), None)
    if row is None:
        return PlacementResult(accepted=False, by="unknown", since="", source="")
    return PlacementResult(accepted=True, by="row", since=row.since, source=row.source)


def takes_one_system_message(model: str | None, dialect: Dialect, rules: Rules) -> bool:
    """Return whether the leading system messages have to be joined: all except one would be refused or ignored.

    False for a dialect that never writes several. Else true for models of the setting `one_system_message`, and for
    known templates that refuse or ignore further ones; false for all other models.
    """
    if not expresses(dialect, SEVERAL_LEADING):
        return False
    row = template_of(model)
    return (row is not None and row.does in ("refuses", "ignores")) or matches(model, rules.one_system_message)


def template_of(model: str | None) -> TemplateResult | None:
    """Return the first row about the chat template of a model, by name; None without one."""
    return next((row for row in TEMPLATES if matches(model, row.models)), None)


def templates_for(model: str | None, dialect: Dialect, placed: PlacementResult) -> tuple[TemplateResult, ...]:
    """Return the chat templates to warn of when a prompt has a late system message: the model's, or all if not known.

    `placed` is the answer of `placement`. Empty if that rests on a provider's row, for an API that applies no chat
    template (such as Anthropic's), and for a dialect with a template of its own.
    """
    if placed.by == "row" or hasattr(dialect, "late_system") or dialect.name not in _TEMPLATED:
        return ()
    row = template_of(model)
    return TEMPLATES if row is None else (row,)


def matches(model: str | None, patterns: Iterable[str]) -> bool:
    """Return whether a model's name, or the part after its last slash, matches a pattern, in any case."""
    whole = (model or "").lower()
    names = (whole, whole.rsplit("/", 1)[-1])
    return bool(whole) and any(matches_shell(pattern.lower(), name) for pattern in patterns for name in names)
