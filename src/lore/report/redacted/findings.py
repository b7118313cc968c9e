"""Texts, findings and errors without content (whole results: `results.py`).

What a recording says is content, and so are the names in it (of tools, keys, agents, ids): a text is replaced by its
length and the beginning of its SHA-256, so that equal texts remain recognisable. Codes, places of files, names of
public models, dialects and numbers stay, and of a path inside a body the members that request shapes have themselves.
Any other text is content.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec.structs import replace

from lore.errors import LoreError, Where
from lore.formats.unrecognised import FOREIGN_FILES
from lore.judge.base import lasting_chain
from lore.judge.messages import in_words
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern, sha256
from lore.model.results import Finding

# Members of request bodies in the known dialects. The members of a tool's schema are a writer's own: only these stay.
_MEMBERS = frozenset(
    ("messages", "input", "contents", "content", "parts", "text", "type", "role", "system",
     "system_instruction", "systemInstruction", "instructions", "tools", "tool_calls", "toolSpec", "toolUse",
     "toolResult", "functionDeclarations", "functionCall", "functionResponse", "function_call",
     "function_response", "function", "name", "id", "call_id", "arguments", "output", "description",
     "parameters", "input_schema", "inputSchema", "json", "properties", "required", "items", "enum",
     "source", "data", "media_type", "image_url", "url", "thinking", "signature", "reasoning", "summary",
     "tool_use_id", "tool_call_id", "cache_control", "cachePoint", "status", "is_error", "check", "exempt", "findings",
     "toolConfig", "prompt_cache_key", "prompt_cache_retention", "store", "truncation")
)  # fmt: skip
_PIECES = pattern(r"(\[\d*\]|\.)")
# The words in names of public models and of their servers. A name with another word (the organisation of a fine-tuned
# model, a private deployment) is content.
_MODEL_WORDS = """
    claude opus sonnet haiku fable mythos instant gpt oss codex chatgpt gemini gemma deepseek grok kimi
    moonshot qwen glm mistral mixtral mistralai codestral devstral magistral ministral llama maverick scout
    nova premier command minimax mini nano micro small medium large pro plus max flash lite turbo fast air
    high low luna sol terra astra argon preview latest exp experimental beta next free thinking reasoner
    reasoning instruct chat coder code coding for unknown auto anthropic openai google meta amazon ai org zai
    xai moonshotai bedrock vertex openrouter azure fireworks together groq us eu apac jp au global models
"""
_PUBLIC = frozenset(_MODEL_WORDS.split())
_MODEL_NUMBER = pattern(
    r"(?:(?:qwen|llama|gemma|glm)?[a-z]?\d{1,3}[a-z]?|[a-z]|\d{1,3}x\d{1,3}b|20\d\d(?:\d{4})?|0[1-9]\d\d|1[0-2]\d\d)?"
)
_LONGEST_MODEL = 100  # characters of a name that may be a public model's
_MODEL_PARTS = pattern(r"[-./:@_\[\]]")
_SECTIONS = frozenset(("tools", "system", "messages"))


def digest(text: str) -> str:
    """Return the length of a text and 8 digits of its SHA-256; "" for an empty one."""
    if not text:
        return ""
    size, spelled = len(text), text.encode("utf-8", "surrogatepass")
    return f"[{size} character{'' if size == 1 else 's'}, sha256 {sha256(spelled)[:8]}]"


def redacted_path(path: str) -> str:
    """Return a path inside a body, with hashes for the members that no request shape has."""
    pieces = [piece for piece in _PIECES.split(path) if piece]
    return "".join([piece if piece in _MEMBERS or _PIECES.fullmatch(piece) else short_hash(piece) for piece in pieces])


def short_hash(text: str) -> str:
    """Return 8 digits of the SHA-256 of an id or a name."""
    return "#" + sha256(text.encode("utf-8", "surrogatepass"))[:8]


def redacted_chain(chain: str) -> str:
    """Return a chain's name if lore made it, else its hash."""
    return chain if lasting_chain(chain) is None else short_hash(chain)


def section_word(section: str) -> str:
    """Return the name of a section of prompts; any other name as its digest."""
    return section if section in _SECTIONS else digest(section)


def redacted_model(name: str) -> str:
    """Return a model's name if all its words are those of public models, else its digest."""
    known = all(part in _PUBLIC or _MODEL_NUMBER.fullmatch(part) for part in _MODEL_PARTS.split(name.lower()))
    return name if known and name.isascii() and len(name) <= _LONGEST_MODEL else digest(name)


# The function for each kind of text in evidence (`lore.model.fact`); lore's own words stay.
REDACTED: dict[str, Callable[[str], str]] = {
    "content": digest,
    "name": digest,
    "path": redacted_path,
    "model": redacted_model,
}


def redacted_finding(finding: Finding) -> Finding:
    """Return a finding without content. Its fingerprint has none and stays."""
    kept = replace(
        finding, chain=finding.chain and redacted_chain(finding.chain),
        section=finding.section and section_word(finding.section),
        json_path=finding.json_path and redacted_path(finding.json_path),
    )  # fmt: skip
    return in_words(kept, REDACTED)


def redacted_problem(problem: Problem) -> Problem:
    """Return a problem without content. The message about mixed logs only counts lines."""
    message = problem.message if problem.code == Code.ENGINES_MIXED else digest(problem.message)
    return replace(problem, message=message)


# lore's own messages about files: they quote nothing but names of files, chains and turns.
_FOREIGN = tuple(f" is {kind.what}: {kind.why}" for kind in FOREIGN_FILES)
_OWN = pattern(
    r"(?:cannot (?:read|open) |no recordings? in |nothing matches |there is no |cannot write ).*"
    r"|not counted: --all reads it"
    r"|.* (?:is not a file|is empty|holds no request body that lore knows"
    r"|is OpenCode's database of [\d,]+ sessions.*"
    r"|has no turn \d+.*|holds \d+ turns? and no pair to compare|is not a session log)",
    re.DOTALL,
)
_UNKNOWN = pattern(r"(.*: unrecognised format)(?: \(.*)?", re.DOTALL)  # what follows names its members


def is_own(message: str) -> bool:
    """Return whether a message is in lore's own words and quotes nothing of a recording."""
    return _OWN.fullmatch(message) is not None or message.endswith(_FOREIGN)


def redacted_error(error: LoreError) -> LoreError:
    """Return an error of reading a recording without the text that it may quote; its place stays."""
    unknown = _UNKNOWN.fullmatch(error.message)
    if unknown is not None:
        error.message = unknown[1]
    if unknown is not None or is_own(error.message):
        error.choices = ()  # titles of sessions
        return error
    place = error.where.file if error.where is not None else None
    message = f"{place + ': ' if place else ''}an input could not be judged: {digest(error.message)}"
    made = LoreError(message, hint="leave --redact out to read the message", where=error.where or Where())
    made.exit_code = error.exit_code
    return made
