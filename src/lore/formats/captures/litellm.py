"""Read payloads of LiteLLM's loggers, and files with one completion each, as agents built on it write them.

Records are `StandardLoggingPayload` (JSON or JSON Lines) or `{messages, response, args, kwargs, timestamp, cost}`. A
payload may hold several bodies. The one nearest to the wire is read: the provider's (`raw_request_body`, if LiteLLM
logs it: `wire` as text), the body that its proxy received (`parsed`), else the messages as LiteLLM normalised them
(`structural`), which have OpenAI's shape for every provider. Source: LiteLLM's payload reference, payloads of 2024 to
2026.
"""

from __future__ import annotations

from typing import ClassVar

from msgspec.structs import replace

from lore.formats.bills import decode_usage
from lore.formats.captures.layouts import LITELLM, Record, call_in
from lore.formats.contents import build_body, object_of, recorded_body, unescape
from lore.formats.folders import PackMember, PackReader
from lore.formats.http import Judged, calls_without_content, exchanges_of
from lore.formats.lines import Line, RecordReader, first_records
from lore.model.canonical import decode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Usage
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.turn import Fidelity

PAYLOAD = ("model_parameters", "proxy_server_request", "standard_logging_object", "litellm_params", "hidden_params")
_LOGGED = ("call_type", "startTime", "litellm_call_id", "response_cost", "model_map_information", "api_base")
ANSWERED = ("args", "kwargs", "cost")
_OTHER = ("embedding", "image_generation", "transcription", "speech", "moderation", "rerank", "search", "ocr")
_SENT = tuple(  # paths of the body that LiteLLM sent to the provider
    side + name
    for side in ("", "additional_args.", "hidden_params.", "metadata.")
    for name in ("raw_request_body", "complete_input_dict")
)
_SUMS = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cache_creation_input_tokens",
         "cache_read_input_tokens")  # fmt: skip


class LiteLLM(RecordReader):
    """Reader of LiteLLM's payloads and of completion files."""

    name: ClassVar[str] = "litellm"

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        for record in first_records(head):
            members = raw_members(record) or {}
            is_payload = not members.keys().isdisjoint(PAYLOAD) and not members.keys().isdisjoint(_LOGGED)
            if is_payload or "standard_logging_object" in members or is_completion(members):
                return True
        return False

    def _values(self, members: dict[str, bytes], line: Line) -> list[Judged]:
        return _read_payload(raw_members(members.get("standard_logging_object", b"null")) or members)


class Completions(PackReader):
    """Reader of a folder of completion files: one conversation, in the order of the times in the files."""

    name: ClassVar[str] = "completions"

    def _read_member(self, member: PackMember) -> list[Judged]:
        record = raw_members(member.data.strip())
        if record is None or not is_completion(record):
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{member.header.name}: not a completion of LiteLLM")]
        return _read_payload(record)


def is_completion(record: dict[str, bytes]) -> bool:
    """Return whether a record has `messages` (a list), `response` (an object), `timestamp` and one of `ANSWERED`."""
    has_bodies = record.get("messages", b"")[:1] == b"[" and record.get("response", b"")[:1] == b"{"
    return has_bodies and "timestamp" in record and not record.keys().isdisjoint(ANSWERED)


def _read_payload(members: dict[str, bytes]) -> list[Judged]:
    """Return the call of a payload or a completion; nothing for a call without messages, as of embeddings."""
    if text_of(members.get("call_type", b'""')).removeprefix("a").startswith(_OTHER):
        return []
    record = Record(members)
    sent = (recorded_body(record.at(path)) for path in _SENT)
    proxied = recorded_body(record.at("proxy_server_request.body"))
    body = next(filter(None, sent), None) or (proxied and (proxied[0], "parsed")) or _body_of_params(record)
    sent_body = body or build_body(record.first(("model", "response.model")), [])
    call = replace(call_in(record, LITELLM, sent_body), usage=_usage(record), usage_label="LiteLLM's usage_object")
    if body is None:
        return calls_without_content(call, "a payload without the messages that were sent")
    return exchanges_of(call)


def _body_of_params(record: Record) -> tuple[bytes, Fidelity] | None:
    """Return a body made of the messages and parameters that LiteLLM was called with."""
    messages = record.at("messages")
    if messages[:1] == b'"':  # another text than an array says that content is not logged
        messages = unescape(messages).strip()
        messages = messages if is_json(messages) else b""
    listed = array(messages) if messages[:1] == b"[" else []
    if not any(message[:1] == b"{" for message in listed):
        return None
    called = raw_members(record.at("model_parameters")) or raw_members(record.at("kwargs")) or {}
    params = {key: value for key, value in called.items() if key not in ("messages", "api_key", "tools", "model")}
    model = called.get("model", b"null")
    model = record.members.get("model", model if model != b"null" else record.at("response.model"))
    return build_body(model, listed, called.get("tools", b""), params)


def _usage(record: Record) -> Usage | None:
    """Return LiteLLM's own usage, else the sums of the payload if the response has no usage either."""
    tier = record.at("response.service_tier")
    paths = ("metadata.usage_object", "usage")
    own_usage = next((usage for path in paths if (usage := decode_usage(record.at(path), tier)) is not None), None)
    if own_usage is not None or record.at("response.usage")[:1] == b"{":
        return own_usage
    sums = {key: record.members[key] for key in _SUMS if key in record.members}
    return None if decode(sums.get("prompt_tokens", b"0")) in (0, None) else decode_usage(object_of(sums))
