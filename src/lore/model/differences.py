"""Evidence from bytes: how two successive prompts differ, and facts that one request shows by itself.

`sentence()` returns a fact in words: `words` with the fields filled in, and the texts before and after if both are
quoted. `fix_word` selects the fix. `lore.prefix` finds the differences, `lore lint` and `lore check` the facts about
one request. Excerpts are masked before they are cut. Names of members and fields have the type `Own` if lore knows
them, else `Content`. `lore.model.fact` has the rules for fields and words.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from lore.model.fact import Content, EvidenceFact, JsonPath, Model, Name, Own, join_names, list_changes

BlockKind: TypeAlias = Literal["text", "result", "call", "image", "thinking", "envelope", "other"]
# The part of a text that varies, or its subject; empty: unknown.
Varies: TypeAlias = Literal[
    "", "date", "directory", "token-count", "id", "temporary-path", "process-id", "counter", "repository", "memory",
    "order", "white-space", "history",
]  # fmt: skip
# The way in which equal content differs in bytes. A server that decodes JSON sees no difference in the first four.
Spelling: TypeAlias = Literal[
    "shape", "member-order", "json", "number",
    "entities", "newlines", "unicode", "white-space", "inner-order", "inner-json",
]  # fmt: skip
ModelFamily: TypeAlias = Literal["claude", "openai", "xai", "mistral", ""]
# The first part of the prompt that is not read from the cache after the field changed.
CostsFrom: TypeAlias = Literal["all", "system", "messages", "nothing", "unknown"]
Setting: TypeAlias = Literal["generation", "tool-choice", "features", "output-schema"]

VARIES: dict[Varies, str] = {
    "": "", "date": "a date or time", "directory": "a working directory", "token-count": "a token count", "id": "an id",
    "temporary-path": "a temporary path", "process-id": "a process id", "counter": "a counter",
    "repository": "the state of a repository or directory", "memory": "recalled memory or context",
    "order": "the order of the same words", "history": "the agent's history",
    "white-space": "white space alone",
}  # fmt: skip
_BLOCKS: dict[BlockKind, str] = {
    "text": "text", "result": "tool result", "call": "tool call", "image": "image", "thinking": "thinking",
    "envelope": "message", "other": "block",
}  # fmt: skip
_MOVES = {
    "gone": "was removed", "added": "was inserted before content that was already sent",
    "moved": "is at another place", "changed": "changed or was removed",
    "signature": "has another signature, or none",
}  # fmt: skip
_SPELLINGS: dict[Spelling, str] = {
    "shape": "is a plain text in one request and a text block in the other",
    "member-order": "has the same members in another order",
    "json": "is the same content in another JSON spelling, which a server decodes",
    "number": "has the same number in another spelling (1.0 or 1)",
    "entities": "has HTML entities in one request only (&lt; or <): the decoded text differs",
    "newlines": "has other newlines (CRLF or LF): the decoded text differs",
    "unicode": "has another Unicode form (NFC or NFD): the decoded text differs",
    "white-space": "has other white space at the ends of lines: the decoded text differs",
    "inner-order": "contains JSON text with its members in another order",
    "inner-json": "contains JSON text in another spelling: a server sees another text",
}
_OTHER_TEXT = frozenset(("entities", "newlines", "unicode", "white-space", "inner-order", "inner-json"))
_MISSES: dict[CostsFrom, str] = {
    "all": "the whole prompt has to be cached again",
    "system": "the tools are still read from the cache, system prompt and messages are not",
    "messages": "tools and system prompt are still read from the cache, the messages are not",
    "nothing": "nothing is lost",
    "unknown": "the documentation does not say which part is lost",
}
_ELSEWHERE: dict[Setting, str] = {
    "generation": "on Claude the messages are lost, on OpenAI's models the whole prompt",
    "tool-choice": "on Claude the messages are lost, on OpenAI's models nothing",
    "features": "Anthropic's diagnostics call it unavailable",
    "output-schema": "on OpenAI's models and on Claude everything except the tools is lost",
}
_FAMILIES: dict[ModelFamily, str] = {
    "claude": "Claude", "openai": "OpenAI's models", "xai": "xAI's models", "mistral": "Mistral's models",
    "": "this provider",
}  # fmt: skip


def _misses(family: ModelFamily, level: CostsFrom, setting: Setting) -> str:
    """Return which part of the prompt has to be cached again after a change, as a part of a sentence."""
    misses = _MISSES[level]
    if level == "messages" and setting == "generation":
        # Anthropic's guide to thinking: tools and system prompt may miss as well, as models differ in its position.
        misses = "the messages are not read from the cache, and with some models nothing is"
    is_told = level in ("nothing", "unknown") and (setting != "features" or family == "claude")
    elsewhere = f" ({_ELSEWHERE[setting]})" if is_told else ""
    return f"with {_FAMILIES[family]} {misses}{elsewhere}"


class PartialPrompt(EvidenceFact, frozen=True):
    """The prompt continues a response that is not recorded whole."""

    words = "it continues a response that is not recorded whole, so the two prompts may be equal there"


class BehindBreakpoint(EvidenceFact, frozen=True):
    """The change is after the last breakpoint."""

    words = "the change is after the last cache breakpoint"


class TailWithoutBreakpoint(EvidenceFact, frozen=True):
    """The last message was rewritten, and nothing before it has a breakpoint, in a cache that reads only at these."""

    words = "the last message was rewritten and no cache breakpoint precedes it, so nothing can be read"


class PromptParted(EvidenceFact, frozen=True):
    """The prompt differs from a place on, for an unknown reason, or ends before the previous one does."""

    words = (
        "{missing_segments:=0?the prompt differs from here on|the prompt ends where {missing_segments:count segment} "
        "followed in the previous one}"
    )
    missing_segments: int = 0  # segments that the previous prompt has after this one's end; 0: it differs


class HeaderChanged(EvidenceFact, frozen=True):
    """Claude Code's billing header changed, was added or was removed."""

    words = (
        "the billing header {change:=changed?changed}{change:=added?was added}{change:=gone?was removed}"
        "{dropped:?; the provider removes it from the prompt, so nothing is lost|, and this provider treats it as "
        "content}"
    )
    dropped: bool = False  # the provider removes it from the prompt
    change: Literal["changed", "added", "gone"] = "changed"  # gone: removed


class ToolsChanged(EvidenceFact, frozen=True):
    """Changes of the tool list. One cause has one kind of change; only `added` and `removed` are filled together."""

    is_quoted = True
    fix_word = "{shuffled:?order}"
    added: tuple[Name, ...] = ()  # tools that the previous list does not have
    removed: tuple[Name, ...] = ()  # tools that the current list does not have
    changed: tuple[Name, ...] = ()  # tools of the same name with another definition
    loaded: tuple[Name, ...] = ()  # tools that a tool search found, added to the list or removed from it
    put_off: tuple[Name, ...] = ()  # tools in both lists that became deferred, or are no longer deferred
    reordered: int = 0  # how many tools both lists have, if their order differs
    servers: tuple[Name, ...] = ()  # MCP servers that the tools belong to
    unnamed: int = 0  # tools of all groups above that are counted, not named
    shuffled: bool = False  # the definitions that changed have the same words in another order
    before: Content | None = None  # the first definition that changed, around the change; None: none did
    after: Content | None = None  # as `before`, of the current list

    def headline(self) -> str:
        changes = list_changes(
            ("added", self.added), ("removed", self.removed), ("changed", self.changed),
            ("deferred tools were loaded into the list:", self.loaded), ("loaded or deferred again:", self.put_off),
            more=self.unnamed,
        )  # fmt: skip
        order = f"the same {self.reordered:,} tools in another order" if self.reordered else ""
        servers = f" (MCP server{'s' * (len(self.servers) > 1)} {join_names(self.servers)})" if self.servers else ""
        words = ": the same words in another order" if self.shuffled else ""
        return "; ".join(filter(None, (changes + words, order))) + servers


class HashesMoved(EvidenceFact, frozen=True):
    """The hashes that a client logs of its prompts differ from those of an earlier request. Texts are not logged."""

    section: Own  # tools, system or messages
    turns: int  # how many requests earlier that request was; 1: the previous one
    added: tuple[Name, ...] = ()  # tools or segments that the earlier request does not have
    removed: tuple[Name, ...] = ()  # tools or segments that this request does not have
    changed: tuple[Name, ...] = ()  # tools or segments of the same name with another hash
    reordered: int = 0  # how many tools or segments both have, if their order differs
    message: int = 0  # the number of the first message that differs, for `messages`; else 0

    def sentence(self) -> str:
        earlier = "the previous request" if self.turns == 1 else f"the request {self.turns:,} turns earlier"
        if self.section == "messages":
            return f"the client's hashes of the messages differ from message {self.message} on from those of {earlier}"
        what = "the tools" if self.section == "tools" else "the segments of the system prompt"
        changes = list_changes(("added", self.added), ("removed", self.removed), ("changed", self.changed))
        order = f"the same {self.reordered:,} in another order" if self.reordered else ""
        changes = "; ".join(filter(None, (changes, order)))
        return f"the client's hashes of {what} differ from those of {earlier}: {changes}"


class TextChanged(EvidenceFact, frozen=True):
    """A text changed."""

    is_quoted = True
    fix_word = "{what:=order?order}{what:=history?history}"
    path: JsonPath  # of the text
    what: Varies  # the kind of the changed words
    before: Content  # the earlier text around the change
    after: Content  # the later text around the change

    def headline(self) -> str:
        return f"{VARIES[self.what]} in {self.path} changed" if self.what else f"{self.path} differs"


class BlockChanged(EvidenceFact, frozen=True):
    """A block, or the envelope of a message, changed."""

    is_quoted = True
    path: JsonPath  # of the block
    before: Content  # the earlier block around the change
    after: Content  # the later block around the change
    members: tuple[Own, ...] = ()  # the members that differ
    unknown_members: tuple[Content, ...] = ()  # those that lore does not know

    def fix_detail(self) -> str:
        return "citations" if "citations" in self.members else ""

    def headline(self) -> str:
        members = (*self.members, *self.unknown_members)
        return f"{self.path} differs in {join_names(members)}" if members else f"{self.path} differs"


class BlockMoved(EvidenceFact, frozen=True):
    """A block, text or message was removed, was inserted before content that was sent, or moved."""

    fix_word = "{topic:=white-space?white-space}"
    path: JsonPath  # of the block, in the previous request; if it was inserted, in the current one
    block: BlockKind  # the kind of the block
    # gone: removed; added: inserted before content that was sent; moved: at another place
    change: Literal["gone", "added", "moved"]
    excerpt: Content  # the beginning of the block
    topic: Varies = ""  # the subject of its text

    def sentence(self) -> str:
        topic = f" ({VARIES[self.topic]})" if self.topic else ""
        return f"{self.path}: {_BLOCKS[self.block]}{topic} {_MOVES[self.change]}: …{self.excerpt}…"


class WrapperGone(EvidenceFact, frozen=True):
    """The text that a program had put around a user's text was removed."""

    words = (
        "{path}: the text around the user's words{holds:? ({holds:names})} was removed, the words remain: {excerpt}…"
    )
    path: JsonPath  # of the block with the text
    excerpt: Content  # the beginning of the removed text
    holds: tuple[Own, ...] = ()  # labels of the kinds of text in it


class MessagesGone(EvidenceFact, frozen=True):
    """Successive messages were removed."""

    words = "{count:,} messages were removed, {first} to {last}: …{excerpt}…"
    fix_word = "cut"
    count: int  # removed messages
    first: JsonPath  # of the first removed message, in the previous request
    last: JsonPath  # of the last removed message, in the previous request
    excerpt: Content  # of the first removed message


class Respelled(EvidenceFact, frozen=True):
    """The same content is written in other bytes."""

    is_quoted = True
    path: JsonPath  # of the content
    spelling: Spelling  # the kind of difference
    before: Content | None = None  # the earlier spelling around the change; None: not quoted
    after: Content | None = None  # the later spelling around the change; None: not quoted

    @property
    def changes_text(self) -> bool:
        """Whether a server that decodes the JSON sees another text."""
        return self.spelling in _OTHER_TEXT

    def headline(self) -> str:
        return f"{self.path} {_SPELLINGS[self.spelling]}"


class EmptyMember(EvidenceFact, frozen=True):
    """Empty members were added or removed."""

    words = (
        "{path}: {whole:?an empty part was|empty members were} added or removed; {templated:?an API ignores them, the "
        "chat template of an open model may print them|no prompt shows it}"
    )
    path: JsonPath  # of the block or tool
    whole: bool = False  # the entire block or tool is empty
    templated: bool = False  # a chat template may print the empty members


class IdChanged(EvidenceFact, frozen=True):
    """Only the id of a call or an item differs."""

    fix_word = "call"
    path: JsonPath  # of the block
    of: Literal["call", "item"]  # whose id it is: a tool call's, or an item's of the Responses API
    members: tuple[Own, ...]  # the members that hold the id

    def sentence(self) -> str:
        verb = "differ" if len(self.members) > 1 else "differs"
        return f"{self.path}: {join_names(self.members)} of the {self.of} {verb}, everything else is equal"


class ThinkingChanged(EvidenceFact, frozen=True):
    """Thinking that was sent changed, was removed, was inserted or moved."""

    fix_word = "{templated:?template|{change:=added?place}{change:=moved?place}}"
    path: JsonPath  # of the block or message
    # signature: only the signature differs; gone: removed; added: inserted before content that was sent
    change: Literal["changed", "signature", "gone", "added", "moved"]
    members: tuple[Own, ...] = ()  # the members of the message that differ
    unknown_members: tuple[Content, ...] = ()  # those that lore does not know
    templated: bool = False  # it precedes the user's new prompt: templates of most open models omit it there

    def sentence(self) -> str:
        members = (*self.members, *self.unknown_members)
        what = f"{join_names(members)} of the model's message" if members else "thinking"
        omitted = "; the chat templates of most open models omit the reasoning before a new prompt themselves"
        return f"{self.path}: {what} {_MOVES[self.change]}{omitted if self.templated else ''}"


class ImageChanged(EvidenceFact, frozen=True):
    """An image changed, was replaced, removed or inserted."""

    words = (
        "{path}: {change:=bytes?the bytes of an image changed}{change:=replaced?an image was replaced by something else"
        "}{change:=gone?an image was removed}{change:=added?an image was inserted}"
        "{change:=in-result?an image in a tool result changed, or became text}"
    )
    is_quoted = True
    fix_word = "{apart:?apart}"
    path: JsonPath  # of the block with the image
    # bytes: it is another image; gone: removed; in-result: it is in a tool result
    change: Literal["bytes", "replaced", "gone", "added", "in-result"]
    before: Content | None = None  # the earlier block around the change; None: one of the two blocks is absent
    after: Content | None = None  # the later block around the change; None as `before` is
    apart: bool = False  # two images, as the model had not answered the first


class ResultRewritten(EvidenceFact, frozen=True):
    """A tool result has other content than before."""

    words = "{cleared:?{cleared}, {path} among them|{path} was sent before with other content}"
    path: JsonPath  # of the result
    before: Content  # the earlier content around the change
    after: Content  # the later content around the change
    cleared: Content | None = None  # the note of a session that cleared results; then before and after are not quoted

    def quoted_change(self) -> tuple[str, str] | None:
        return (self.before, self.after) if self.cleared is None else None


class ResultSentEarly(EvidenceFact, frozen=True):
    """A call was sent before it had its result."""

    words = "{path} was sent before its call had a result"
    path: JsonPath  # of the place that the result has now


class ParameterChanged(EvidenceFact, frozen=True):
    """A field of the request outside tools, system and messages has another value."""

    field: Own  # its name in the request
    before: Content | None  # None: it was absent
    after: Content | None  # None: it is absent now
    setting: Setting  # what kind of setting it is
    family: ModelFamily  # the models whose rule `level` states; empty: unknown provider
    level: CostsFrom  # the first part that is not read from the cache after the change
    member: Content | None = None  # the member of the field that changed, if lore does not know it

    def sentence(self) -> str:
        field = self.field if self.member is None else f"{self.field}.{self.member}"
        before, after = ("nothing" if value is None else value for value in (self.before, self.after))
        return f"{field} changed from {before} to {after}; {_misses(self.family, self.level, self.setting)}"


class BetasChanged(EvidenceFact, frozen=True):
    """A header asks for other beta features."""

    added: tuple[Name, ...]  # features that only this request asks for
    removed: tuple[Name, ...]  # features that only the previous request asked for
    family: ModelFamily  # the models whose rule `level` states; empty: unknown provider
    level: CostsFrom  # the first part that is not read from the cache after the change

    def sentence(self) -> str:
        changes = list_changes(("added", self.added), ("removed", self.removed))
        return f"beta headers changed ({changes}); {_misses(self.family, self.level, 'features')}"


Difference: TypeAlias = (
    PartialPrompt | BehindBreakpoint | TailWithoutBreakpoint | PromptParted | HeaderChanged | ToolsChanged | HashesMoved
    | TextChanged | BlockChanged | BlockMoved | WrapperGone | MessagesGone | Respelled | EmptyMember | IdChanged
    | ThinkingChanged | ImageChanged | ResultRewritten | ResultSentEarly | ParameterChanged | BetasChanged
)  # fmt: skip


# Facts that one request shows by itself, without earlier requests and usage

# Why a breakpoint has no effect: its place, the lifetime it asks for, or a cache without breakpoints.
Unmarkable: TypeAlias = Literal[
    "empty-text", "thinking", "deferred-tool", "message", "not-input", "lifetime", "automatic-cache", "section",
    "model", "other-api", "inside-result", "called-by-code",
    "automatic-lifetime", "type",
]  # fmt: skip
# Text that programs write into prompts and that often differs in the next request, session or project.
VaryingKind: TypeAlias = Literal[
    "date", "clock", "directory", "id", "temporary-path", "process-id", "token-count", "repository"
]
RequestSetting: TypeAlias = Literal[
    "key-too-long", "retention-shorter", "retention-replaced", "reasoning-not-returned", "truncation",
    "cached-content-beside",
]  # fmt: skip

_NO_EFFECT: dict[Unmarkable, str] = {
    "empty-text": "a cache breakpoint is set on an empty text",
    "thinking": "a cache breakpoint is set on a thinking block",
    "deferred-tool": "a cache breakpoint is set on a deferred tool",
    "message": "a cache breakpoint is set on a message instead of its content",
    "not-input": "a cache breakpoint is set on output of the model",
    "lifetime": "a cache breakpoint asks for a lifetime that does not exist",
    "type": "a cache breakpoint has a type other than ephemeral",
    "automatic-cache": "this model's cache is automatic and ignores breakpoints",
    "section": "this model accepts no cache breakpoint in this section",
    "model": "this model accepts no cache breakpoints",
    "other-api": "this member is a cache breakpoint of another API",
    "inside-result": "a cache breakpoint is inside the content of a tool result instead of after it",
    "called-by-code": "a cache breakpoint is set on a call that code execution made, or on its result",
    "automatic-lifetime": "the last block's breakpoint asks for another lifetime than the request's own cache_control",
}
_VARYING: dict[VaryingKind, str] = {
    "date": "a date", "clock": "a time of day", "directory": "a path of this machine or project", "id": "an id",
    "temporary-path": "a temporary path", "process-id": "a process id", "token-count": "a token count",
    "repository": "the state of a repository",
}  # fmt: skip
_SETTINGS: dict[RequestSetting, str] = {
    "key-too-long": "prompt_cache_key has {value} characters; at most {limit} are allowed",
    "retention-shorter": "prompt_cache_retention asks for {value}, though this model keeps 24 hours by default",
    "retention-replaced": "prompt_cache_retention ({value}) has no effect on a model with cache breakpoints",
    "reasoning-not-returned": (
        "the input has tool calls without the model's reasoning before them, and names no stored response that has it"
    ),
    "truncation": "truncation is auto: if the server drops items from the middle, everything after them moves",
    "cached-content-beside": (
        "the request names a cached content, and also has fields that only the cached content may hold"
    ),
}


class BreakpointNotTaken(EvidenceFact, frozen=True):
    """A breakpoint has no effect."""

    reason: Unmarkable  # the reason for that
    value: Content = ""  # the lifetime, section, model or member that is the reason

    def sentence(self) -> str:
        return _NO_EFFECT[self.reason] + (f": {self.value}" if self.value else "")


class LifetimesOutOfOrder(EvidenceFact, frozen=True):
    """A breakpoint asks for a longer lifetime than one before it."""

    words = (
        "a cache breakpoint for {seconds:duration} follows one for {seconds_before:duration} ({before}); the longer "
        "lifetime has to come first"
    )
    seconds: float  # of the later breakpoint
    seconds_before: float  # of the earlier breakpoint
    before: JsonPath  # the place of the earlier breakpoint


class BreakpointsApart(EvidenceFact, frozen=True):
    """More positions are between two breakpoints than the cache looks back."""

    words = (
        "{step:?the latest step appended {positions:,} positions without a breakpoint|{positions:,} positions are "
        "between the last two breakpoints}; the cache looks back {allowed}"
    )
    positions: int  # between the breakpoints, or after the last one
    allowed: int  # positions that the cache looks back
    step: bool  # the latest step appended them; else they are between the request's last two breakpoints


class VaryingText(EvidenceFact, frozen=True):
    """Text before the history is of a kind that often varies."""

    kind: VaryingKind  # the kind of the varying words
    excerpt: Content = ""  # the beginning of the varying words; empty: not quoted

    def sentence(self) -> str:
        return f"{_VARYING[self.kind]} precedes the history" + (f": {self.excerpt}" if self.excerpt else "")


class ToolsUnsorted(EvidenceFact, frozen=True):
    """Tools are not in the order of their names."""

    words = "the tools are not sorted by name: {name} follows {before}"
    tools: int  # how many tools the request has
    before: Name  # the tool that precedes `name` and should follow it
    name: Name  # the first tool that is out of order


class ImageBeforeText(EvidenceFact, frozen=True):
    """Images in the first message precede text."""

    words = "{images:=1?an image precedes|{images} images precede} about {tokens:,} tokens of text in the first message"
    images: int  # how many images precede the text
    tokens: int  # of this text, estimated


class CacheKeyMissing(EvidenceFact, frozen=True):
    """The request has no key that selects the machine."""

    words = (
        "no {key}: requests that begin alike may reach different machines{per_minute:?; one machine takes "
        "at most {per_minute} a minute of them}"
    )
    per_minute: int | None  # requests a minute with one beginning that one machine accepts; None: unknown
    key: Own = "prompt_cache_key"  # the member or header that is missing


class CacheSetting(EvidenceFact, frozen=True):
    """A field of the request works against its cache."""

    setting: RequestSetting  # the field and its fault
    value: Content = ""  # of the field; of a key that is too long its length; empty: not shown
    limit: int | None = None  # the most that is allowed

    def sentence(self) -> str:
        return _SETTINGS[self.setting].format(value=self.value, limit=self.limit)


class BreakpointsCount(EvidenceFact, frozen=True):
    """One request has more breakpoints than the provider accepts."""

    words = "{breakpoints} cache breakpoints in one request; at most {most} are allowed"
    breakpoints: int  # in the request
    most: int  # that the provider accepts


class BreakpointsMissing(EvidenceFact, frozen=True):
    """A prompt has no breakpoint after its text, or only an early one."""

    fix_word = "{is_first:?first}"
    words = (
        "{behind:?the last breakpoint is after about {behind:,} of|no cache breakpoint in a prompt of}"
        "{counted:?| about} {tokens:,} tokens; this model caches from {minimum:,} tokens on"
    )
    tokens: int  # of the prompt
    minimum: int  # tokens from which on the model caches
    behind: int | None = None  # tokens before the last breakpoint; None: the prompt has no breakpoint
    is_first: bool = False  # no answer of the model is in it, so no request before it can be repeated
    counted: bool = False  # `tokens` come from usage; else they are estimated from bytes


class BelowMinimum(EvidenceFact, frozen=True):
    """The prompt, or its part up to the last breakpoint, is shorter than the model caches."""

    tokens: int  # of the prompt, or of its part up to the last breakpoint
    minimum: int  # tokens from which on the model caches
    model: Model | None  # that the request names; None: it names none
    counted: bool  # `tokens` come from usage; else they are estimated from bytes
    turns: int = 1  # requests of the chain that are so short; 0: one request was examined by itself
    marked: bool = True  # the prompt has a breakpoint, and `tokens` precede it unless they are counted

    def sentence(self) -> str:
        if self.counted or not self.marked:
            size = f"the prompt has {'' if self.counted else 'about '}{self.tokens:,} tokens"
        else:
            size = f"about {self.tokens:,} tokens precede the last breakpoint"
        whose = f"all {self.turns} requests with breakpoints of this chain" if self.turns > 1 else "requests like this"
        often = f" ({whose})" if self.turns else ""
        return f"{size}; {self.model or 'the model'} caches at least {self.minimum:,}{often}"


class VolatileText(EvidenceFact, frozen=True):
    """Text that differs in every request precedes the history, or has a breakpoint on it."""

    words = "{on_breakpoint:?a breakpoint is set on|volatile text precedes the history:} {what}{excerpt:?: {excerpt}}"
    what: Own  # the kind of text, in words
    excerpt: Content = ""  # the beginning of the text; empty: not quoted
    on_breakpoint: bool = False  # a breakpoint is set on it; else it precedes the history


class ProgramText(EvidenceFact, frozen=True):
    """A user-role message after a tool result that no user wrote."""

    words = "a user-role message that no user wrote follows a tool result: {excerpt}"
    excerpt: Content  # the beginning of the message


class OrphanPair(EvidenceFact, frozen=True):
    """A call without its result, or a result without its call."""

    fix_word = "{call:?name}"
    words = (
        "{part:=call?a call without its result|a result without its call}: {name}"
        "{call:?, the result's name, is not that of the call before it ({call})}"
    )
    part: Literal["call", "result"]  # the one that the request has
    name: Name  # the id that both share, or the tool's name if calls have no id; empty: unknown
    call: Name = ""  # the call that a misnamed result follows; empty: none, or calls have ids


RequestFact: TypeAlias = (
    BreakpointNotTaken | LifetimesOutOfOrder | BreakpointsApart | VaryingText | ToolsUnsorted | ImageBeforeText
    | CacheKeyMissing | CacheSetting | BreakpointsCount | BreakpointsMissing | BelowMinimum | VolatileText
    | ProgramText | OrphanPair
)  # fmt: skip
