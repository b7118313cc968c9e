"""The server of a replay: detect its engine, send requests, retry.

Nothing is sent to another host: redirects are refused, and no proxy is used for a server on this machine. A key goes
only to this server, never into a message or file. 429, 5xx and lost connections are retried a few times, after
`Retry-After` or growing pauses; a server that was never reached is retried once. Time and size of an answer are
limited. Text from the server is untrusted and shown on one harmless line. Uses httpx (the extra `replay`).

Sources, read 2026-11-23: RFC 9110 (Retry-After); the providers' API references (headers of keys); the self-descriptions
of llama.cpp's server (`/props`), vLLM 0.32 (`/version`) and SGLang (`/get_server_info`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.request import getproxies, proxy_bypass

from lore import __version__
from lore.endpoints import (
    Endpoint,
    HttpAnswer,
    HttpRequest,
    LostConnectionError,
    NoAnswerError,
    TryAgainError,
    ask_with_retries,
    display_url,
    httpx_for,
    is_loopback_url,
    key_in,
    url_of,
)
from lore.errors import LoreError
from lore.model import LLAMA_CPP, UNKNOWN, cut_masked, decode, mask_credentials, parse_http_date, provider_of
from lore.untrusted import harmless, one_line

if TYPE_CHECKING:
    from lore_plugins.replay.sending import SentBody

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before each retry, unless the server asks for more
UNREACHED_TRIES = 2  # of a server that never accepted a connection
MOST_WAIT = 300.0  # seconds of `Retry-After`: after a longer one the run ends and can be resumed
MOST_SLOTS = 256  # of a llama.cpp server: LLAMA_MAX_SEQ
MOST_BYTES = 16 * 1024 * 1024  # of an answer; real ones have at most some hundred thousand
_PROBE_SECONDS, _PROBE_BYTES = 10.0, 4 * 1024 * 1024

# Variables of keys by provider; for an unknown provider by the dialect of the requests.
KEYS: dict[str, tuple[str, ...]] = {
    "anthropic": ("ANTHROPIC_API_KEY",),
    "openai": ("OPENAI_API_KEY",),
    "azure": ("AZURE_OPENAI_API_KEY",),
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "bedrock": ("AWS_BEARER_TOKEN_BEDROCK",),
    "deepseek": ("DEEPSEEK_API_KEY",),
    "openrouter": ("OPENROUTER_API_KEY",),
    "xai": ("XAI_API_KEY",),
    "mistral": ("MISTRAL_API_KEY",),
    "moonshot": ("MOONSHOT_API_KEY",),
    "qwen": ("DASHSCOPE_API_KEY",),
    "groq": ("GROQ_API_KEY",),
}
_BY_DIALECT = {"openai-chat": "openai", "openai-responses": "openai"}
# Response headers that a capture keeps.
_KEPT = ("content-type", "content-encoding", "date", "server", "request-id", "x-request-id", "x-amzn-requestid")


class Probed(NamedTuple):
    """A server's self-description."""

    cache: str = ""  # the cache model of its engine, "" if unknown
    version: str = ""
    models: tuple[str, ...] = ()
    slots: int | None = None  # of a llama.cpp server


class ServerRefusedError(Exception):
    """The server refused a request or did not answer; the message is one harmless line."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Key(NamedTuple):
    """A key and its environment variable, both "" if no key is sent."""

    variable: str = ""
    value: str = ""


def key_for(url: str, dialect: str, variable: str | None, environ: Mapping[str, str]) -> Key:
    """Return the key to send. Raise LoreError if the named variable, or the one of a known provider, is not set.

    Without a name, use the variable of the host's provider, else of the dialect; for a server on this machine, or
    without encryption, use no key.
    """
    if variable is not None:
        return Key(variable, key_in(environ, variable, "--api-key-env"))
    if is_loopback_url(url) or not url.startswith("https:"):
        return Key()
    provider = provider_of(url.partition("://")[2].partition("/")[0].rpartition("@")[2], None, "")
    names = KEYS.get(provider) or KEYS.get(_BY_DIALECT.get(dialect, dialect), ())
    name = next((name for name in names if environ.get(name, "").strip()), "")
    if not name and provider != UNKNOWN and names:
        raise LoreError(
            f"{names[0]} is not set: {display_url(url)} needs a key", hint="set it, or name one: --api-key-env"
        )
    return Key(name, key_in(environ, name, name))


class Server:
    """A server that gets one request at a time. Not thread-safe.

    The constructor raises LoreError for an invalid URL, a URL with a password, or a missing extra. `seconds` limits one
    try, `tell` receives failed tries, and without `quotes` no message quotes the server.
    """

    def __init__(self, url: str, *, seconds: float, quotes: bool, tell: Callable[[str], None]) -> None:
        parts = url_of(url, "--server", hint="as in http://127.0.0.1:8080")
        if parts.username is not None or parts.password is not None:
            hint = "name the variable with the key: --api-key-env NAME"
            raise LoreError("--server contains a name or a password", hint=hint)
        self._base, self._query = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", parts.query
        self.label, self.near = display_url(url), is_loopback_url(url)
        self.encrypted = parts.scheme == "https"
        self.key = Key()  # that is sent with each request
        proxy = "" if self.near else _proxy(parts.scheme, parts.hostname or "")
        self.proxy = display_url(proxy) if proxy else ""
        self.provider = UNKNOWN if self.near else provider_of(parts.netloc.lower(), None, "")
        self._seconds, self._quotes, self._tell = seconds, quotes, tell
        self._endpoint = Endpoint(
            httpx_for("lore replay", "replay"), self.label, self.near, self._clean, proxy=proxy or None
        )
        self._reached = False  # whether it accepted a connection

    def probe(self) -> Probed:
        """Return the self-description of a server whose host is not a known provider's."""
        if self.provider != UNKNOWN:
            return Probed()
        model_list = self._get("/v1/models").get("data")
        entries = cast("list[Any]", model_list) if isinstance(model_list, list) else []
        models = tuple([
            mask_credentials(one_line(name)) for entry in entries
            if isinstance(entry, dict) and isinstance(name := cast("dict[str, Any]", entry).get("id"), str)
        ])  # fmt: skip
        props = self._get("/props")
        if "default_generation_settings" in props or "total_slots" in props:
            slots = props.get("total_slots")
            valid_slots = slots if isinstance(slots, int) and 0 < slots <= MOST_SLOTS else None
            return Probed(LLAMA_CPP, _word(props.get("build_info")), models, valid_slots)
        version = self._get("/version")
        if isinstance(version.get("version"), str):
            return Probed("vllm", _word(version["version"]), models)
        info = self._get("/get_server_info")
        if {"schedule_policy", "disable_radix_cache", "internal_states"} & info.keys():
            return Probed("sglang", _word(info.get("version")), models)
        return Probed(models=models)

    def _get(self, path: str) -> dict[str, Any]:
        base = self._base.removesuffix("/v1")
        for suffix in ("/chat/completions", "/messages", "/responses"):
            base = base.removesuffix(suffix).removesuffix("/v1")
        try:
            headers = self._headers("")
            url = self._with_query(base + path)
            answer = self._send_once(HttpRequest("GET", url, b"", headers, _PROBE_SECONDS, _PROBE_BYTES))
            value: Any = decode(answer.body) if answer.status == 200 else {}
        except (ServerRefusedError, TryAgainError, ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def url(self, path: str) -> str:
        """Return the URL of a request; the server's URL may already end with the API's version or the whole path."""
        base, version = self._base, "/" + path.split("/", 2)[1]
        if base.endswith(path.removeprefix(version)) and base.count("/") > 2:
            return self._with_query(base)
        return self._with_query(base + (path.removeprefix(version) if base.endswith(version) else path))

    def _with_query(self, url: str) -> str:
        return f"{url}?{self._query}" if self._query else url

    def send(self, payload: SentBody, dialect: str, betas: tuple[str, ...] = ()) -> HttpAnswer:
        """Send a request, with retries, and return the answer. Raise ServerRefusedError if retrying does not help."""
        headers = self._headers(dialect, betas)
        request = HttpRequest("POST", self.url(payload.path), payload.body, headers, self._seconds, MOST_BYTES)

        def note(error: TryAgainError, pause: float) -> None:
            self._tell(f"{error}; tried again in {pause:,.0f} s")

        try:
            return ask_with_retries(lambda: self._accepted_answer(request), PAUSES, note, sleep=time.sleep)
        except TryAgainError as error:
            raise ServerRefusedError(f"{error}, {min(error.tries, len(PAUSES) + 1)} times") from None

    def _accepted_answer(self, request: HttpRequest) -> HttpAnswer:
        answer = self._send_once(request)
        if answer.status < 300:
            return answer
        reason = self._endpoint.refusal(answer, quotes=self._quotes)
        if answer.status != 429 and answer.status < 500 and answer.status != 408:
            raise ServerRefusedError(reason, answer.status)
        now = parse_http_date(answer.headers.get("date", "")) or answer.ended  # the server's clock may differ
        wait = _parse_retry_after(answer.headers.get("retry-after", ""), now)
        if wait is not None and wait > MOST_WAIT:
            raise ServerRefusedError(f"{reason}; it asks to wait {wait:,.0f} s", answer.status)
        raise TryAgainError(reason, wait or 0.0)

    def _send_once(self, request: HttpRequest) -> HttpAnswer:
        """Send once; return the answer with only the headers to keep, made harmless."""
        try:
            answer = self._endpoint.ask(request)
        except NoAnswerError as error:
            raise ServerRefusedError(str(error)) from None
        except LostConnectionError as error:
            self._reached = self._reached or not error.unreached
            if not self._reached:
                reason = f"{self.label} cannot be reached: {error}"
                raise TryAgainError(reason, tries=UNREACHED_TRIES) from None
            raise TryAgainError(f"{self.label}: {error}") from None
        self._reached = True
        names = [name for name in (*_KEPT, "retry-after") if name in answer.headers]
        return answer._replace(headers={name: cut_masked(harmless(answer.headers[name]), 200) for name in names})

    def _headers(self, dialect: str, betas: tuple[str, ...] = ()) -> dict[str, str]:
        headers = {
            "content-type": "application/json", "accept": "application/json", "accept-encoding": "identity",
            "user-agent": f"lore/{__version__}",
        }  # fmt: skip
        if dialect == "anthropic":
            headers["anthropic-version"] = "2023-06-01"
        if betas:
            headers["anthropic-beta"] = ",".join(betas)
        key = self.key.value
        key_headers = {"anthropic": "x-api-key", "gemini": "x-goog-api-key", "azure": "api-key"}
        name = key_headers.get(self.provider) or key_headers.get(dialect, "")
        if key and name:
            headers[name] = key
        if key and self.provider not in key_headers:
            headers["authorization"] = f"Bearer {key}"
        return headers

    def _clean(self, text: str) -> str:
        """Return text as one harmless line, with credentials masked, and the key, should a server repeat it."""
        text = text.replace(self.key.value, "***") if self.key.value else text
        return mask_credentials(one_line(text, 400))


def _proxy(scheme: str, host: str) -> str:
    """Return the proxy of the environment for a host, "" for none."""
    proxies = getproxies()
    proxy = "" if proxy_bypass(host) else proxies.get(scheme) or proxies.get("all", "")
    return proxy if "://" in proxy or not proxy else f"http://{proxy}"


def _parse_retry_after(text: str, now: float) -> float | None:
    """Return the seconds to wait by `Retry-After`, a number or a date; None for anything else."""
    if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", text, re.ASCII):
        return float(text)
    at = parse_http_date(text)
    return None if at is None else max(0.0, at - now)


def _word(value: object) -> str:
    return mask_credentials(one_line(value, 40)) if isinstance(value, str) else ""
