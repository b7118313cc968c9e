"""The table of readers, in the order in which they are asked whether a file is theirs."""

from __future__ import annotations

from lore.formats.base import Reader
from lore.formats.bodies import Bodies, BodyPairs
from lore.formats.captures import Cassette, ClaudeTap, Har, Proxy, ProxyList
from lore.formats.claude_code import ClaudeCode
from lore.formats.inspect_log import InspectArchive, InspectLog
from lore.formats.lines import SPACE, each, is_crowded
from lore.formats.litellm import Completions, LiteLLM
from lore.formats.lore_log import Assembled, LoreLog
from lore.formats.recognition import is_plain_request, may_be_recording
from lore.formats.telemetry import ClaudeEvents, GenAI
from lore.formats.vcr import Vcr
from lore.model.jsonslice import Sliced, table

READERS: dict[str, type[Reader]] = {
    "lore": LoreLog,
    "claude-code": ClaudeCode,
    "assembled": Assembled,
    "har": Har,
    "vcr": Vcr,
    "claude-tap": ClaudeTap,
    "cassette": Cassette,
    "proxy": Proxy,
    "proxy-list": ProxyList,
    "body-pairs": BodyPairs,
    "completions": Completions,
    "inspect-archive": InspectArchive,
    "inspect": InspectLog,
    "claude-events": ClaudeEvents,
    "otel-genai": GenAI,
    "litellm": LiteLLM,
    "bodies": Bodies,
}
BUILT_IN = frozenset(READERS)
# What lore's own files say in their first record: where that is not there, their readers need not slice it again.
_OPENINGS = {"lore": frozenset(("kind",)), "assembled": frozenset(("turn", "chain"))}


def recognise(head: bytes) -> type[Reader] | None:
    """Return lore's own reader of a file that begins like this; None where it is no recording."""
    reader = reader_of(head)
    return None if reader is None else type(reader)


def reader_of(head: bytes) -> Reader | None:
    """Make lore's own reader of a file that begins like this; what was sliced to recognise it is not sliced again."""
    if not may_be_recording(head) or is_crowded(head):
        return None
    line = next(each(head), b"").strip(SPACE)
    opening = table(line) or {}
    if len(line) == len(head.strip(SPACE)) and is_plain_request(opening):
        return Bodies(Sliced.of(line, opening))  # by far the most in folders of bodies: the others need not look
    for name, kind in READERS.items():
        if name in BUILT_IN and opening.keys() >= _OPENINGS.get(name, frozenset()) and kind.recognises(head):
            return kind()
    return None
