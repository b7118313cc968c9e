"""The keyword arguments that SDKs take: of a request body, of a chain's requests, and parameters as a body has them.

A body as a dialect writes it becomes keyword arguments, plain Python values, of
    anthropic          client.messages.create
    openai-chat        client.chat.completions.create
    openai-responses   client.responses.create
    gemini             client.models.generate_content       (google-genai)
    bedrock            client.converse                      (boto3)
For the first three and Bedrock the arguments are the body's members in its order, so that encoding them again gives the
body; google-genai has everything except model and contents in `config`; if an SDK wants bytes (boto3, google-genai),
base64 in the body is decoded. Source: the references of these SDKs, of 2026-11.
"""

from __future__ import annotations

import base64
import binascii
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice
from typing import Any, TypeAlias, cast

from msgspec.structs import replace

from lore.errors import LoreError, MisuseError, kind_of, nearest_name
from lore.model.canonical import decode
from lore.model.lenient import camel
from lore.model.turn import Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import Dialect
from lore.prompt.dialects.messages import Body, group_messages
from lore.sdk.objects import GIVEN, is_model, plain

_Place: TypeAlias = tuple[str | None, str]  # a member that holds bytes, after the one that contains it (None: any)
_MAX_TOKENS = 8192  # the default limit of an answer: every model of Claude 3.5 and later allows it
_TOP = frozenset(
    ("generationConfig", "toolConfig", "safetySettings", "cachedContent", "labels", "serviceTier", "store")
)
_OTHER_ARGUMENTS = {
    **dict.fromkeys(("model", "modelId"), "give it as `model`"),
    **dict.fromkeys(("system", "systemInstruction", "instructions"), "give it as `system`"),
    **dict.fromkeys(("messages", "contents", "input"), "use `user`, `assistant`, `result`"),
    "tools": "give them as `tools`",
}
# How each API names the limit of an answer; the first is the one to use.
_LIMITS = {
    "anthropic": ("max_tokens",), "openai-chat": ("max_completion_tokens", "max_tokens"),
    "openai-responses": ("max_output_tokens",), "gemini": ("max_output_tokens", "maxOutputTokens"),
    "bedrock": ('inferenceConfig={"maxTokens": …}',),
}  # fmt: skip
# Parameters of any API; a name that is nearly one of these is misspelled. Others may be a provider's own.
_PARAMETERS = (
    "max_tokens", "max_completion_tokens", "max_output_tokens", "max_tool_calls", "temperature", "top_p", "top_k",
    "min_p", "stop", "stop_sequences", "seed", "speed", "stream", "stream_options", "store", "metadata", "user",
    "thinking", "thinking_config", "reasoning", "reasoning_effort", "reasoning_format", "verbosity", "tool_choice",
    "tool_config", "parallel_tool_calls", "presence_penalty", "frequency_penalty", "repetition_penalty", "logprobs",
    "top_logprobs", "logit_bias", "response_format", "response_mime_type", "response_schema", "response_json_schema",
    "service_tier", "safety_settings", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention",
    "cache_control", "cached_content", "context_management", "output_config", "inference_config", "extra_body",
    "extra_headers", "extra_query", "betas",
)  # fmt: skip
_NOT_GIVEN = ("NotGiven", "Omit", "Unset")  # values by which SDKs say that an argument was not given
_ALL_LIMITS = frozenset(("max_tokens", "maxTokens", *(name for names in _LIMITS.values() for name in names)))


def arguments_of(body: bytes, dialect: str) -> dict[str, Any]:
    """Return the keyword arguments for an SDK. Costs O(the body)."""
    members = cast("dict[str, Any]", decode(body))
    if dialect == "bedrock":
        return {**members, "messages": _decode_bytes(members["messages"], _BEDROCK_BYTES)}
    if dialect != "gemini":
        return members
    contents = _decode_bytes(members.pop("contents"), _GEMINI_BYTES)
    model = {"model": members.pop("model")} if "model" in members else {}
    config = {**members.pop("generationConfig", {}), **members}
    return {**model, "contents": contents, **({"config": config} if config else {})}


def params_of(params: object, dialect: str) -> dict[str, Any]:
    """Return parameters as a body has them, with those that its API requires, and Gemini's in their places.

    google-genai has one `config` for `generationConfig` and other members, which may be its own object. Raises
    MisuseError for a member that the session itself writes into the body, for another API's limit of an answer, and for
    a misspelled name.
    """
    if is_model(params):
        params = plain(params, GIVEN)
    if not isinstance(params, Mapping):
        message = f"params is {kind_of(params)}, expected a mapping or an object of an SDK"
        raise MisuseError(message, hint='params={"max_tokens": 4000}')
    given = cast("Mapping[str, Any]", params).items()
    parameters = {name: value for name, value in given if type(value).__name__ not in _NOT_GIVEN}
    for name in parameters:
        if camel(name) in _OTHER_ARGUMENTS:
            raise MisuseError(f"{name!r} is not a parameter: the session writes it", hint=_OTHER_ARGUMENTS[camel(name)])
        limits = _LIMITS.get(dialect, (name,))
        if name in _ALL_LIMITS and name not in limits:
            raise MisuseError(f"{name!r} is not a parameter of {dialect}", hint=f"use {limits[0]}")
        near = nearest_name(name, [known for known in _PARAMETERS if known not in parameters], 0.85)
        if near is not None and camel(name) not in map(camel, _PARAMETERS):
            raise MisuseError(f"{name!r} is not a parameter", hint=f"did you mean {near!r}?")
    if dialect == "anthropic":
        return {"max_tokens": _MAX_TOKENS, **parameters}
    if dialect != "gemini":
        return parameters
    camel_params = {camel(key): value for key, value in parameters.items()}
    top = {key: value for key, value in camel_params.items() if key in _TOP}
    others = {key: value for key, value in camel_params.items() if key not in _TOP}
    config = {**top.pop("generationConfig", {}), **others}
    return {**top, "generationConfig": config} if config else top


_GEMINI_BYTES: set[_Place] = {
    ("inlineData", "data"), ("inline_data", "data"), (None, "thoughtSignature"), (None, "thought_signature"),
}  # fmt: skip
_BEDROCK_BYTES: set[_Place] = {("source", "bytes"), ("reasoningContent", "redactedContent")}
_WORDS = frozenset(("input", "args", "response", "json"))  # whose members are a tool's own


def _decode_bytes(value: Any, places: set[_Place], inside: str | None = None) -> Any:
    """Return a value in which the base64 at these places is decoded; another text stays."""
    if isinstance(value, list):
        return [_decode_bytes(inner, places, inside) for inner in cast("list[Any]", value)]
    if not isinstance(value, dict) or inside in _WORDS:
        return cast("Any", value)
    members = cast("dict[str, Any]", value)
    return {
        key: _decode_base64(inner)
        if isinstance(inner, str) and ((inside, key) in places or (None, key) in places)
        else _decode_bytes(inner, places, key)
        for key, inner in members.items()
    }


def _decode_base64(text: str) -> bytes | str:
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/") + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return text


class RequestArguments:
    """The arguments of one chain's requests, in any order; cheapest in the order in which they are sent.

    Finished messages (all except the last) are decoded once and are the same objects in later requests. Messages
    with a breakpoint, and the last one, are made for each request. Not safe between threads.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.dialect = dialect
        self._segments: Vector[Segment] = Vector()
        self._messages: list[Any] = []  # finished ones
        self._ends: list[int] = []  # for each of them the index of the segment after it

    def make(self, prompt: Prompt) -> dict[str, Any]:
        """Return the arguments for a prompt. Costs O(head, new messages and tail); raises LoreError for text."""
        if not isinstance(self.dialect, Body):
            return self._arguments(prompt)
        self._update(prompt.messages)
        head, start = len(prompt.head), self._ends[-1] if self._ends else 0
        marks = list(zip(prompt.breakpoints, prompt.breakpoint_values, strict=True))
        later_marks = [(at if at < head else at - start, value) for at, value in marks if not head <= at < head + start]
        positions, values = tuple([at for at, _ in later_marks]), tuple([value for _, value in later_marks])
        arguments = self._arguments(replace(
            prompt, messages=Vector(prompt.messages.since(start)), breakpoints=positions, breakpoint_values=values
        ))  # fmt: skip
        messages = self._messages.copy()
        marked: defaultdict[int, list[tuple[int, bytes]]] = defaultdict(list)  # breakpoints of finished messages
        for at, value in marks:
            if head <= at < head + start:
                marked[bisect_right(self._ends, at - head)].append((at - head, value))
        for number, message_marks in marked.items():
            begin = self._ends[number - 1] if number else 0
            segments = list(islice(prompt.messages.since(begin), self._ends[number] - begin))
            messages[number] = self._decode(segments, [(at - begin, value) for at, value in message_marks])[0]
        first = self.dialect.first(prompt.head).messages
        arguments[self.dialect.root][first:first] = messages
        return arguments

    def _update(self, messages: Vector[Segment]) -> None:
        """Drop messages that changed or may be continued; decode those that are finished now."""
        same_count = self._segments.common(messages)
        while self._ends and self._ends[-1] >= same_count:
            self._ends.pop()
            self._messages.pop()
        self._segments = messages
        end = self._ends[-1] if self._ends else 0
        finished = group_messages(messages.since(end))[:-1]
        if finished:
            self._messages += self._decode([segment for message in finished for segment in message])
        for message in finished:
            end += len(message)
            self._ends.append(end)

    def _decode(self, segments: list[Segment], marks: list[tuple[int, bytes]] | None = None) -> list[Any]:
        positions, values = tuple([at for at, _ in marks or ()]), tuple([value for _, value in marks or ()])
        prompt = Prompt(
            self.dialect.name, "reconstructed", messages=Vector(segments),
            breakpoints=positions, breakpoint_values=values,
        )  # fmt: skip
        assert isinstance(self.dialect, Body)
        return self._arguments(prompt)[self.dialect.root]

    def _arguments(self, prompt: Prompt) -> dict[str, Any]:
        body = self.dialect.write(prompt)
        if body[:1] != b"{":
            message = f"the dialect {self.dialect.name} is text, which no SDK takes"
            raise LoreError(message, hint="use begin_turn, write")
        return arguments_of(body, self.dialect.name)
