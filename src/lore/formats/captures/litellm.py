"""Read payloads of LiteLLM's loggers, and files with one completion each, as agents built on it write them.

Records are `StandardLoggingPayload` (JSON or JSON Lines) or `{messages, response, args, kwargs, timestamp, cost}`. A
payload may hold several bodies. The one nearest to the wire is read: the provider's (`raw_request_body`, if LiteLLM
logs it: `wire` as text), the body that its proxy received (`parsed`), else the messages as LiteLLM normalised them
(`structural`), which have OpenAI's shape for every provider. Source: LiteLLM's payload reference, payloads of 2024 to
2026.
"""

from __future__ import annotations

from typing import ClassVar

from lore.formats.answers import answer_in, complete_call
from lore.formats.bills import billed_of, reconcile
from lore.formats.contents import Content, RecordedBody, body_of, object_of, recorded_body, unescape
from lore.formats.folders import PackMember, PackReader
from lore.formats.http import refusal, status_of
from lore.formats.lines import Line, RecordReader, first_records
from lore.model.canonical import decode, text_of
from lore.model.codes import Code, Problem
from lore.model.events import Usage
from lore.model.jsonslice import array, is_json, raw_members
from lore.model.times import decode_time
from lore.model.turn import Call, Exchange

PAYLOAD = ("model_parameters", "proxy_server_request", "standard_logging_object", "litellm_params", "hidden_params")
_LOGGED = ("call_type", "startTime", "litellm_call_id", "response_cost", "model_map_information", "api_base")
ANSWERED = ("args", "kwargs", "cost")
_OTHER = ("embedding", "image_generation", "transcription", "speech", "moderation", "rerank", "search", "ocr")


class LiteLLM(RecordReader):
    """Reader of LiteLLM's payloads and of completion files."""

    name: ClassVar[str] = "litellm"
    largest: ClassVar[int] = 10 * 1024 * 1024  # a body that is written from it is held several times

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return any(is_logged(raw_members(record) or {}) for record in first_records(head))

    def _values(self, data: bytes, line: Line) -> list[Exchange | Problem]:
        record = raw_members(data) or {}
        record = raw_members(record.get("standard_logging_object", b"null")) or record
        found = exchange_of(record)
        if not isinstance(found, Exchange) or found.call.status is None:
            return [] if found is None else [found]
        errors = (raw_members(side.get("error_information", b"null")) or {} for side in _sides(record))
        said = next((error["error_message"] for error in errors if "error_message" in error), b"")
        failed = refusal(found.call.endpoint, found.call.status, Content(said, "text"))
        return [found] if failed is None else [found, failed]


class Completions(PackReader):
    """Reader of a folder of completion files: one conversation, in the order of the times in the files."""

    name: ClassVar[str] = "completions"

    def _member(self, member: PackMember) -> list[Exchange | Problem]:
        record = raw_members(member.data.strip())
        if record is None or not is_completion(record):
            return [Problem(Code.REQUEST_NOT_JUDGED, f"{member.header.name}: not a completion of LiteLLM")]
        found = exchange_of(record)
        return [] if found is None else [found]


def is_logged(record: dict[str, bytes]) -> bool:
    """Return whether a record is a payload or a completion."""
    if "standard_logging_object" in record:
        return True
    payload = any(key in record for key in PAYLOAD) and any(key in record for key in _LOGGED)
    return payload or is_completion(record)


def is_completion(record: dict[str, bytes]) -> bool:
    """Return whether a record is one completion as agents write it, with the arguments of the call."""
    given = record.get("messages", b"")[:1] == b"[" and record.get("response", b"")[:1] == b"{"
    return given and "timestamp" in record and any(key in record for key in ANSWERED)


def exchange_of(record: dict[str, bytes]) -> Exchange | Problem | None:
    """Return the call of a payload or a completion; None for a call without messages, as of embeddings."""
    if any(text_of(record.get("call_type", b'""')).removeprefix("a").startswith(kind) for kind in _OTHER):
        return None
    sent = _sent(record)
    if sent is None:
        return Problem(Code.CONTENT_NOT_RECORDED, "a payload without the messages that were sent")
    response = raw_members(record.get("response", b"null")) or {}
    metadata = raw_members(record.get("metadata", b"null")) or {}
    at = decode_time(record.get("startTime", record.get("timestamp", b"null")))
    began = decode_time(record.get("completionStartTime", b"null"))
    answer = answer_in(response)
    return Exchange(
        sent.body, sent.fidelity, at, _usage(record, response, metadata), answered=began,
        response_id=answer.response_id, output=answer.output,
        call=complete_call(_call(record), answer), ended=decode_time(record.get("endTime", b"null")),
    )  # fmt: skip


_BODIES = ("raw_request_body", "complete_input_dict")


def _sent(record: dict[str, bytes]) -> RecordedBody | None:
    nested = [raw_members(record.get(key, b"null")) or {} for key in ("additional_args", "hidden_params", "metadata")]
    raws = [members[key] for members in (record, *nested) for key in _BODIES if key in members]
    request = raw_members(record.get("proxy_server_request", b"null")) or {}
    own = next((found for raw in raws if (found := recorded_body(raw)) is not None), None)
    proxied = recorded_body(request.get("body", b"null"))
    return own or (proxied and proxied._replace(fidelity="parsed")) or _normalised(record)


def _normalised(record: dict[str, bytes]) -> RecordedBody | None:
    """Return a body made of the messages and parameters that LiteLLM was called with."""
    messages = record.get("messages", b"")
    if messages[:1] == b'"':  # a text instead of messages says that content is not logged
        messages = unescape(messages).strip()
        messages = messages if is_json(messages) else b""
    listed = array(messages) if messages[:1] == b"[" else []
    if not listed or not any(message[:1] == b"{" for message in listed):
        return None
    params = dict(
        raw_members(record.get("model_parameters", b"null")) or raw_members(record.get("kwargs", b"null")) or {}
    )
    tools, model = params.pop("tools", b""), params.pop("model", b"null")
    response = raw_members(record.get("response", b"null")) or {}
    model = record.get("model", model if model != b"null" else response.get("model", b"null"))
    for key in ("messages", "api_key"):
        params.pop(key, None)
    return RecordedBody(body_of(model, listed, tools, params), "structural")


def _usage(record: dict[str, bytes], response: dict[str, bytes], metadata: dict[str, bytes]) -> Usage | None:
    """Return the response's usage, else LiteLLM's own, else the sums of the payload."""
    tier = response.get("service_tier", b"")
    raws = (metadata.get("usage_object", b"null"), record.get("usage", b"null"))
    own = next((found for raw in raws if (found := billed_of(raw, tier)) is not None), None)
    stated = billed_of(response.get("usage", b"null"), tier)
    if (found := reconcile(stated, own, "the response", "LiteLLM's usage_object")) is not None:
        return found
    sums = {key: record[key] for key in _SUMS if key in record}
    return None if decode(sums.get("prompt_tokens", b"0")) in (0, None) else billed_of(object_of(sums))


_SUMS = ("prompt_tokens", "completion_tokens", "prompt_tokens_details", "cache_creation_input_tokens",
         "cache_read_input_tokens")  # fmt: skip


def _sides(record: dict[str, bytes]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Return a payload and its metadata: either may hold session and error."""
    return record, raw_members(record.get("metadata", b"null")) or {}


def _call(record: dict[str, bytes]) -> Call:
    """Return session, endpoint and deployment of a call, and the status of one that failed."""
    sides = _sides(record)
    session = next((text_of(side[key]) for side in sides for key in _SESSION if side.get(key, b"")[:1] == b'"'), "")
    base = record.get("api_base", b"")
    endpoint = text_of(base).rpartition("://")[2].partition("?")[0].rstrip("/") if base[:1] == b'"' else ""
    errors = [raw_members(side.get("error_information", b"null")) or {} for side in sides]
    codes = (status_of(error.get("error_code", b"")) for error in errors)
    failed = record.get("status") == b'"failure"'
    status = next((code for code in codes if code is not None), None) if failed else None
    hidden = raw_members(record.get("hidden_params", b"null")) or {}
    names = (side.get("model_id", b"") for side in (record, hidden))
    deployment = next((text_of(name) for name in names if name[:1] == b'"'), "")
    return Call(endpoint, session, status=status, deployment=deployment)


_SESSION = ("session_id", "litellm_session_id", "conversation_id")
