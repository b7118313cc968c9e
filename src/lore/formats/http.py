"""Turn one recorded HTTP call into an exchange.

A call that asked a model gives an exchange, or a problem if its body is not recorded; any other call gives nothing. A
response that cannot be read is a problem, and its request is still judged. A body is recognised by the fields of a
request to a model; less is required of one that was sent to a model's endpoint, because exports, logs and test cases
hold similar objects.

Headers and body also show sender, conversation and purpose. Recorders replace secrets by placeholders: these identify
no one. A key becomes a digest; keys that live for an hour change in the middle of a session and are ignored. Sources:
headers and bodies of Claude Code 2.1, Codex 0.142 and OpenCode 1.16.
"""

from __future__ import annotations

import re
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from lore.formats.answers import (
    LONGEST_NAME,
    NOTHING,
    ParsedAnswer,
    answer_of,
    answer_of_events,
    answer_of_stream,
    is_stream,
)
from lore.formats.bills import input_of, reconcile, with_cost
from lore.formats.contents import NO_CONTENT, Content, ContentError, events_in, framed_events, is_framed, open_content
from lore.formats.documents import end_of_value
from lore.formats.lines import TOO_DEEP, is_crowded, too_many
from lore.formats.values import text_in
from lore.model.canonical import text_of
from lore.model.codes import Code, Problem
from lore.model.deferred import pattern, sha256
from lore.model.events import Usage
from lore.model.jsonslice import Sliced, array, first_element, is_deep, raw_members, sliced_members
from lore.model.limits import BODY_BYTES
from lore.model.mask import cut_masked, mask
from lore.model.providers import ENGINES, GATEWAYS, model_in, provider_by_id, provider_of
from lore.model.times import parse_http_date
from lore.model.turn import Call, Exchange, Fidelity, StreamedOutput

Judged: TypeAlias = Exchange | Problem
Headers: TypeAlias = dict[str, str]  # names in lower case

_ASKING = ("POST", "WEBSOCKET", "")
# Ends of the paths at which models answer, of all providers and gateways; and of paths that no model answers.
ENDPOINT = pattern(
    r"/(?:messages|completions?|responses|interactions|api/(?:chat|generate)"
    r"|model/.+/(?:converse(?:-stream)?|invoke(?:-with-response-stream)?))/?$"
    r"|:(?:generateContent|streamGenerateContent|rawPredict|streamRawPredict)$"
)
_OTHER = pattern(
    r"/(?:cachedContents|embeddings|moderations|files|batches|audio/\w+|images/\w+|count_tokens|responses/input_tokens)/?$"
    r"|:countTokens$|/model/[^/]*(?:embed|rerank)[^/]*/invoke$"
    r"|/threads/"  # OpenAI's Assistants: the API adds a thread's messages to the prompt
)


# Bodies of Titan, Nova and Cohere on Bedrock: no cache, or not of a chat (AWS, model parameters, 2026-11).
_UNCACHED, _BEGINNING = pattern(rb'"(?:inputText|message|texts|taskType)\\*"'), 64
_NO_MESSAGES = Content(b'{"messages":[]}', "json")  # of a request that is not recorded, but its usage is


class Http(Struct, frozen=True):
    """One call, as it was recorded."""

    url: str = ""
    method: str = ""
    headers: Headers = {}
    request: Content = NO_CONTENT
    fidelity: Fidelity | None = None  # only of a body known to be a model request, which then needs fewer fields;
    # None: derived from `request`
    status: int | None = None
    response_headers: Headers = {}
    response: Content = NO_CONTENT
    at: float | None = None  # the times are those of an exchange
    answered: float | None = None
    ended: float | None = None
    usage: Usage | None = None  # this, and all that follow, are recorded apart from request and response
    cost: bytes = b""  # in US dollars, JSON
    usage_label: str = ""  # what messages call `usage`; if set, usage in the response takes precedence over it
    session: str = ""
    agent: str = ""
    purpose: str = ""
    response_id: str = ""
    served_by: str = ""  # the engine that answered
    account: str = ""  # the digest of a key that the recorder left out of the headers
    deployment: str = ""
    failure: str = ""  # what the client said of a call that failed
    is_export: bool = False  # not a capture: response ids and headers may be another provider's, and are ignored


def exchanges_of(http: Http) -> list[Judged]:
    """Return at most one exchange, and the problems of a call; nothing if it did not ask a model.

    A request whose body cannot be read is an exchange without messages if its usage is known.
    """
    if http.method.upper() not in _ASKING:
        return []
    endpoint = endpoint_of(http.url, http.headers)
    is_chat = "/ai/run/" in endpoint and b"messages" in http.request.raw[:_BEGINNING]  # the path names the model
    is_call = http.fidelity is not None or is_chat or ENDPOINT.search(endpoint) is not None
    if _OTHER.search(endpoint):
        return []
    if "/invoke" in endpoint and _UNCACHED.search(http.request.raw, 0, _BEGINNING) is not None:
        return []
    try:
        body, members = _open_body(http, is_call=is_call)
    except ContentError as error:
        exists = http.request.form not in ("elsewhere", "nothing") and not error.is_stored
        code = Code.CAPTURE_TOO_LARGE if error.large else Code.UNDECODABLE_REQUEST if exists else Code.REQUEST_NOT_KEPT
        text = f"the body of a request to {endpoint or 'the API'} cannot be read: {error}"
        hidden = exchanges_of(replace(http, request=_NO_MESSAGES, fidelity="structural")) if is_call else []
        billed = (value for value in hidden if isinstance(value, Exchange) and value.usage is not None)
        return [Problem(code, text), *billed] if is_call else []
    problems: list[Judged] = []
    answer = NOTHING
    try:
        if http.response is not NO_CONTENT:
            answer = _content_answer(http.response, http.response_headers.get("content-encoding", ""))
    except ContentError as error:
        problems.append(Problem(Code.UNDECODABLE_RESPONSE, f"the response of {endpoint} cannot be read: {error}"))
    began = parse_http_date(http.response_headers.get("date", "")) or answer.created  # to the second
    if http.status in (None, 200) and answer.usage is None and (status := _status_in(http.response)) is not None:
        http = replace(http, status=status)
    if http.usage_label or input_of(http.usage) < input_of(answer.usage):  # the lower count is of a part
        usage = reconcile(answer.usage, http.usage, "the response", http.usage_label or "the record's usage")
    else:
        usage = reconcile(http.usage, answer.usage, "the record's usage", "its response")
    call = _complete_call(http, call_of(http.headers, members, endpoint=endpoint, status=http.status), answer)
    requested_model = text_in(members.get("model", members.get("modelId", b""))) or model_in(endpoint)
    if answer.model and answer.model != requested_model:
        call = replace(call, model=cut_masked(answer.model, LONGEST_NAME))
    if answer.usage is None and (
        http.failure or http.status == 0 or (http.status or 0) >= _REFUSED.start
    ):  # 0: a browser's
        said = (f"HTTP {http.status}" if http.status else "no response", _quote_failure(http))
        call = replace(call, failure=": ".join(filter(None, said)))
    exchange = Exchange(
        Sliced.of(body, members), http.fidelity or http.request.fidelity, began if http.at is None else http.at,
        with_cost(usage, http.cost), answer.verdict, began if http.at is None else http.answered,
        http.response_id or answer.response_id, answer.output, call, http.ended,
    )  # fmt: skip
    failed = failure_of(http)
    return [exchange, *problems, failed] if failed else [exchange, *problems]


def calls_without_content(http: Http, message: str) -> list[Judged]:
    """Return the problem that no messages are recorded, and the call, whose request has none, if its usage is known."""
    values = [value for value in exchanges_of(http) if isinstance(value, Problem) or value.usage is not None]
    return [Problem(Code.CONTENT_NOT_RECORDED, message), *values]


def _complete_call(http: Http, call: Call, answer: ParsedAnswer) -> Call:
    """Return a call with the facts in its response and those recorded outside of request and response."""
    by, account, deployment, region, edits = answer.provider, call.account, "", "", None
    if not http.is_export:
        headers, edits = http.response_headers, answer.edits
        is_gateway = provider_of(call.endpoint, None, "") in GATEWAYS
        by = by or headers.get("x-litellm-model-api-base", "")
        if by in ENGINES and not is_gateway:
            by = ""  # a provider with many machines, whatever engine they run
        if not by and is_gateway:  # ids of responses and calls show the provider: each one's begin differently
            raw = answer.output if isinstance(answer.output, bytes) else answer.output.raw
            call_id = _CALL_ID.search(raw) if b"toolu" in raw else None
            by = provider_by_id(answer.response_id) or ("" if call_id is None else provider_by_id(call_id[1].decode()))
        account = account or account_of(headers, _ORGANISATIONS)
        deployment = cut_masked(headers.get("x-litellm-model-id", ""), LONGEST_NAME)
        region = cut_masked(headers.get("x-ms-region", ""), LONGEST_NAME)
    facts = {
        "session": http.session, "agent": http.agent, "account": http.account or account,
        "deployment": http.deployment or deployment, "answered_by": cut_masked(http.served_by or by, LONGEST_NAME),
        "purpose": cut_masked(http.purpose, LONGEST_NAME), "region": region,
    }  # fmt: skip
    return replace(call, edits=edits, **{name: text for name, text in facts.items() if text})


_CALL_ID = pattern(rb'"(?:id|toolUseId)\\*"\s*:\s*\\*"(toolu(?:se)?_\w{0,8})')
_REFUSED = range(400, 500)
_REPEATED = (408, 429)  # timeouts and rate limits: clients send these requests again, unchanged
_TRANSIENT = pattern(
    r"rate.?limit|limit reached|hit your [\w ]{0,40}limit|tim(?:e|ed).?out|overloaded|cancel|abort|generatorexit"
    r"|interrupt|connection (?:error|refused|reset|closed|lost|failed)|fetch failed|network error|socket hang up|econn",
    re.IGNORECASE,
)
_QUOTED = 300  # characters of an answer


def failure_of(http: Http) -> Problem | None:
    """Return an API's message when it refused a request, or why there was no answer.

    Nothing is returned for a failure that clients answer by sending the same request again.
    """
    endpoint, quote = endpoint_of(http.url, http.headers) or "the API", _quote_failure(http)
    if http.status is None and http.failure and not _TRANSIENT.search(http.failure[:_QUOTED]):
        return Problem(Code.CALL_FAILED, f"a request to {endpoint} failed: {quote}")
    if http.status not in _REFUSED or http.status in _REPEATED:
        return None
    return Problem(
        Code.CALL_FAILED, f"{endpoint} refused a request (HTTP {http.status})" + (f": {quote}" if quote else "")
    )


def _quote_failure(http: Http) -> str:
    """Return what the recorder or the API says about a failed call, masked and shortened."""
    text = " ".join(mask(http.failure or _error_in(_error_body(http.response))).split())
    quote = (text if len(text) <= _QUOTED else text[:_QUOTED] + "…").rstrip(".")
    return "" if quote == "{}" else quote


# The status of a failed call, which clients write into the message.
_CODE = pattern(r"(?:^|error code|status[_ ]code|http(?: status)?|error:?)\W{0,3}([45]\d\d)\b", re.IGNORECASE)


def status_in_text(text: str) -> int | None:
    """Return the HTTP status in the beginning of what a client says of a failed call; None without one."""
    code = _CODE.search(text[:_QUOTED])
    return int(code[1]) if code is not None else None


def failure_in_text(text: str) -> Problem | None:
    """Return an API's refusal, as an agent's log quotes it: as text, which may have a status and the body."""
    body = text[text.find("{") :].encode("utf-8", "backslashreplace")
    body = body[: max(0, end_of_value(memoryview(body), 0) or 0)]  # a client's advice may follow it
    said = text if raw_members(body) is None else _error_in(body)
    return failure_of(Http(status=status_in_text(text), failure=said))


_STATUS = {
    "invalid_request_error": 400, "authentication_error": 401, "permission_error": 403, "not_found_error": 404,
    "request_too_large": 413, "rate_limit_error": 429, "api_error": 500, "overloaded_error": 529,
}  # fmt: skip


def _status_in(response: Content) -> int | None:
    """Return the HTTP status that the error in a body, or in an event of a stream, stands for; None without one."""
    error = (raw_members(_error_body(response)) or {}).get("error", b"") if b"error" in response.raw else b""
    members = raw_members(error) or {}
    code = status_of(members.get("code", b"")) or status_of(members.get("status", b""))
    return code if code in range(400, 600) else _STATUS.get(text_in(members.get("type", b"")))


def _error_body(response: Content) -> bytes:
    """Return a body, of a stream the event that is an error; empty if it cannot be opened."""
    try:
        body = open_content(response)
    except ContentError:
        return b""
    if response.form == "events":
        events, body = events_in(body)
        return next((event for event in reversed(events) if b'"error"' in event), body)
    match = _ERROR_EVENT.search(body) if is_stream(body) else None
    return match[1] if match is not None else first_element(body) if body[:1] == b"[" else body


_ERROR_EVENT = pattern(rb'(?:^|\n)data:[ ]*(\{[^\n]*"error"[^\n]*)')


_ERRORS = ("error", "errors", "message", "Message", "detail", "msg")  # members with an API's message


def _error_in(body: bytes) -> str:
    """Return the message in the body of a refusal; the body itself if it is of an unknown shape."""
    for _ in range(3):
        members = raw_members(first_element(body) if body[:1] == b"[" else body) or {}
        error = next((members[key] for key in _ERRORS if key in members), b"")
        if error[:1] == b'"':
            provider = text_in((raw_members(members.get("metadata", b"")) or {}).get("raw", b""))  # OpenRouter
            return f"{text_of(error)}: {provider}" if provider else text_of(error)
        if error[:1] not in (b"{", b"["):
            break
        body = error
    return body[: 8 * _QUOTED].decode("utf-8", "replace")


def _open_body(http: Http, *, is_call: bool) -> tuple[bytes, dict[str, bytes]]:
    """Return the request body of a call, and its members; raises ContentError if it is not one that can be judged."""
    body = open_content(http.request, http.headers.get("content-encoding", ""))
    if is_crowded(body):
        raise ContentError(too_many(), large=True)
    if http.request.form != "json" and is_deep(body):  # a parsed body is part of a record, whose depth was checked
        raise ContentError(f"it is {TOO_DEEP}")
    members = http.request.members or sliced_members(body)
    if is_call and members.get("prompt", b"")[:1] == b"{":  # of OpenAI: its text may name variables
        raise ContentError("the provider stores its prompt", is_stored=True)
    if not is_body(members, is_call=is_call):
        raise ContentError("it is not a request" if body else "it was not recorded")
    return body, members


def _content_answer(content: Content, encoding: str = "") -> ParsedAnswer:
    """Parse a response in any form; raises ContentError. A stream is kept as it was recorded."""
    if content.form == "events":
        events, text = events_in(content.raw)
        answer, encoding = answer_of_events(events) if events else answer_of_stream(text), ""
    else:
        plain = content.form == "json" and len(content.raw) <= BODY_BYTES  # nothing to decode
        body = content.raw if plain else open_content(content, encoding, binary=is_framed)
        if not plain and is_framed(body):
            answer = answer_of_events(framed_events(body))
        elif not plain and is_stream(body):
            answer = answer_of_stream(body)
        else:
            answer = answer_of(body)
            if isinstance(answer.output, bytes):
                return answer
    return replace(answer, output=StreamedOutput(content.raw, content.form, encoding))


def headers_of(raw: bytes) -> Headers:
    """Return headers that are an object, pairs, or objects with `name` and `value`; of several values the first."""
    pairs = list((raw_members(raw) or {}).items())
    for element in array(raw) if raw[:1] == b"[" else ():
        header = raw_members(element) or {}
        pair = array(element) if element[:1] == b"[" else [header.get("name", b""), header.get("value", b"")]
        pairs += [(text_of(pair[0]), pair[1])] if len(pair) == 2 and pair[0][:1] == b'"' else []
    headers: Headers = {}
    for name, value in pairs:
        first = next(iter(array(value)), b"") if value[:1] == b"[" else value
        if first[:1] == b'"' and (text := text_of(first)):
            headers[name.lower()] = text
    return headers


def status_of(raw: bytes) -> int | None:
    """Return a status that is a number, text (`200 OK`), or VCR's `{"code": …}`."""
    if not raw:
        return None
    if raw[:1] == b"{":
        raw = (raw_members(raw) or {}).get("code", b"")
    text = text_of(raw)[:64].partition(" ")[0] if raw[:1] == b'"' else raw[:64].decode("ascii", "replace")
    return int(text) if text.isascii() and text.isdigit() and 0 < len(text) < 4 else None


_SESSIONS = ("x-claude-code-session-id", "session_id", "session-id", "x-session-affinity", "x-session-id")
# They select the server (docs.x.ai, maximizing cache hits; LangChain's reference of its Fireworks package)
_ROUTES = ("x-grok-conv-id", "x-session-affinity")
_KEYS = ("x-api-key", "api-key", "x-goog-api-key", "chatgpt-account-id", "authorization")
_SENT_BY_ALL = {*_KEYS, "anthropic-version", "anthropic-beta"}  # without any, a recorder kept only some headers
_ORGANISATIONS = ("anthropic-organization-id", "openai-organization")  # of responses, if the key is not recorded
_HIDDEN = pattern(
    r"redact|filter|hidden|mask|scrub|sanit|placeholder|dummy|fake|\*\*|[<\[{…]|^(.)\1{2,}$|^[0-]{8,}$", re.IGNORECASE
)
_SHORT_LIVED = pattern(r"ey[A-Za-z0-9_-]+\.|sk-ant-oat|ya29\.")  # signed tokens that carry their own end
_SIGNED = pattern(r"Credential=([^/,\s]+)")  # AWS signs each request; the name of the key is the same
_IN_USER = pattern(r"_session_([0-9A-Za-z-]{8,})$")
_LINK = pattern(r"\b(cc_prompt_id|cc_prev_req)=([^;\s]+)")
_LOCAL = pattern(r"(?:localhost|127\.[0-9.]+|\[::1\]|0\.0\.0\.0)(?::\d+)?$")


def call_of(headers: Headers, body: dict[str, bytes], *, endpoint: str = "", status: int | None = None) -> Call:
    """Return the facts about a call in its headers and body."""
    session = _first_header(headers, _SESSIONS) or session_in(body)
    thread = _first_header(headers, ("x-claude-code-agent-id", "x-openai-subagent", "thread-id"))
    purpose = _first_header(headers, ("x-claude-code-request-class",))
    if not purpose and visible_value(headers.get("x-claude-code-compaction", "")) not in ("", "0", "false"):
        purpose = "compaction"
    betas, masked, start = list[str](), mask(header := headers.get("anthropic-beta", "")), 0
    for beta in header.split(","):  # masked whole, since a credential may contain a comma
        betas.append(masked[start : start + len(beta)].strip())
        start += len(beta) + 1
    routes = (f"{name}: {value}" for name in _ROUTES if (value := visible_value(headers.get(name, ""))))
    return Call(
        endpoint, session, thread if thread != session else "", purpose, _visible_text(body, "previous_response_id"),
        tuple(filter(None, betas)) if _SENT_BY_ALL & headers.keys() else None, account_of(headers), status,
        route=next(routes, ""),
    )  # fmt: skip


def endpoint_of(url: str, headers: Headers) -> str:
    """Return host and path without the query; no host for a local recorder, which passed the request on."""
    address = url.partition("?")[0].partition("#")[0]
    scheme, separator, address = address.rpartition("://")
    if not separator and address.startswith("/"):
        host, path = headers.get("host", ""), address
    else:
        host, slash, path = address.partition("/")
        path = slash + path
        host = host.rpartition("@")[2].removesuffix({"https": ":443", "http": ":80"}.get(scheme, ":443"))
    return ("" if _LOCAL.match(host) else host.lower()) + path


def visible_value(value: str) -> str:
    """Return a value; empty if it is a placeholder of a recorder that hides secrets."""
    return value.strip() if value and not _HIDDEN.search(value) else ""


def _first_header(headers: Headers, names: tuple[str, ...]) -> str:
    return next((value for name in names if (value := visible_value(headers.get(name, "")))), "") if headers else ""


def account_of(headers: Headers, names: tuple[str, ...] = _KEYS) -> str:
    """Return a digest of the key that a request was sent with, from the headers `names`; empty if none is recorded."""
    for name in names if headers else ():
        value = visible_value(headers.get(name, ""))
        if name == "authorization":
            signed = _SIGNED.search(value)
            value = signed[1] if signed else value.rpartition(" ")[2]
        if len(value) >= 8 and not _SHORT_LIVED.match(value) and visible_value(value):
            return sha256(value.encode("utf-8", "backslashreplace"))[:12]
    return ""


def session_in(body: dict[str, bytes]) -> str:
    """Return the conversation that a body names, else its key for the cache."""
    metadata = raw_members(body.get("metadata", b"")) or {}
    user = text_in(metadata.get("user_id", b""))
    naming = raw_members(user.encode("utf-8", "backslashreplace")) if user.startswith("{") else None
    match = _IN_USER.search(user)
    client = raw_members(body.get("client_metadata", b"")) or {}
    names = (_visible_text(naming or {}, "session_id"), match[1] if match else "", _visible_text(client, "session_id"),
             _visible_text(client, "thread_id"), _visible_text(body, "prompt_cache_key"))  # fmt: skip
    return next(filter(None, names), "")


def prompt_links(body: dict[str, bytes]) -> dict[str, str]:
    """Return `cc_prompt_id` and `cc_prev_req`, which Claude Code writes into the first system block."""
    system = body.get("system", b"")
    first = first_element(system) if system[:1] == b"[" else system
    text = first if first[:1] == b'"' else (raw_members(first) or {}).get("text", b"")
    return dict(_LINK.findall(text_of(text))) if b"cc_pr" in text else {}


def _visible_text(members: dict[str, bytes], key: str) -> str:
    return visible_value(text_in(members.get(key, b"")))


_CONVERSE = ("modelId", "inferenceConfig", "toolConfig")
_SIGNS = ("model", "system", "tools", "max_tokens", "max_completion_tokens", "temperature", "stream", *_CONVERSE)
# Fields that only requests to the Responses API have; and fields that exports, logs and test cases add.
ASKED = ("instructions", "previous_response_id", "max_output_tokens", "store", "prompt_cache_key", "truncation")
KEPT = ("output", "outputs", "response", "candidates", "event", "ideal", "target", "expected", "id", "sessionId",
         "title")  # fmt: skip
_ITEMS = (b'"message"', b'"reasoning"', b'"function_call"', b'"function_call_output"', b'"item_reference"')

# Fields of requests to complete a text: of OpenAI's old API, which names a model, and of llama.cpp's `/completion`.
_COMPLETES, _LLAMA = (
    ("max_tokens", "temperature", "logprobs", "suffix", "stop", "stream"),
    ("n_predict", "cache_prompt"),
)

# One of them is a field of an answer; the last one is llama.cpp's.
ANSWERS = frozenset((
    "usage", "usageMetadata", "usage_metadata", "choices", "candidates", "stop_reason", "tokens_evaluated",
))  # fmt: skip
# Fields of plain requests: an object with only these is a request, not a record of one.
FIELDS = frozenset((
    *_SIGNS, *ASKED, "messages", "input", "contents", "systemInstruction", "system_instruction", "generationConfig",
    "safetySettings", "cachedContent", "metadata", "thinking", "tool_choice", "parallel_tool_calls", "top_p", "top_k",
    "n", "stop", "stop_sequences", "stream_options", "context_management", "output_config", "service_tier", "speed",
    "reasoning", "reasoning_effort", "text", "include", "user", "seed", "response_format", "verbosity", "betas",
    "anthropic_beta", "anthropic_version", "cache_control", "mcp_servers", "prompt_cache_options",
    "prompt_cache_retention", "additionalModelRequestFields", "frequency_penalty", "presence_penalty",
    "client_metadata",
))  # fmt: skip
_NO_CONTENT = pattern(rb'\[\s*\{\s*"role"\s*:\s*"\w+"\s*\}')  # of messages in a span without their contents


def is_body(members: dict[str, bytes], *, is_call: bool = False) -> bool:
    """Return whether an object is a request body; `is_call`: it went to a model's endpoint.

    Its messages have roles (Gemini's have parts, items of the Responses API have types).
    """
    if "messages" in members:
        is_sent = is_call or (any(sign in members for sign in _SIGNS) and not _NO_CONTENT.match(members["messages"]))
        return is_sent and _begins_with(members["messages"], ("role",))
    if not is_call and any(key in members for key in KEPT):
        return False
    if "contents" in members:
        first = first_element(members["contents"])
        return (raw_members(first) or {}).get("parts", b"")[:1] == b"["
    if is_call and "input" in members:
        return members["input"][:1] in (b'"', b"[")
    if "prompt" in members and "input" not in members:
        is_asked = any(key in members for key in (*_LLAMA, *(_COMPLETES if "model" in members else ())))
        return members["prompt"][:1] in (b'"', b"[") and (is_call or is_asked)
    if "model" not in members or "input" not in members:
        return False
    if any(key in members for key in ASKED):
        return members["input"][:1] == b'"' or _begins_with(members["input"], ("role", "type"))
    first = raw_members(first_element(members["input"])) or {}  # not of a request for embeddings or speech
    return first.get("role", b"")[:1] == b'"' or first.get("type") in _ITEMS


def _begins_with(raw: bytes, keys: tuple[str, ...]) -> bool:
    """Return whether an array may hold messages: its first element has text at one of `keys`, or is no object."""
    if raw[:1] != b"[":
        return False
    first = first_element(raw)
    members = sliced_members(first) if first[:1] == b"{" else None
    return members is None or any(members.get(key, b"")[:1] == b'"' for key in keys)
