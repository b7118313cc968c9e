"""The server that a replay is sent to: what it is, a request and its answer, tries again where it asks for them.

In: a URL that the user names, bodies. Out: answers, whole and bounded. Rules: nothing is sent to another host: a
redirect is refused, and no proxy is asked for a server on this machine; a key goes to that server alone, into no
message and no file. 429, 5xx and lost connections are tried again a few times, after what `Retry-After` asks for or
pauses that grow; a server that was never reached once more; a try has an end in time, an answer in size. What a server
says is a stranger's text: it is shown harmless, in one line. Over httpx and tenacity (the extra `replay`).

Sources, read 2026-11-23: RFC 9110 (Retry-After); the providers' API references (headers of keys); what engines answer
of themselves: llama.cpp's server (`/props`), vLLM 0.32 (`/version`), SGLang (`/get_server_info`).
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
    error_message,
    is_near,
    key_in,
    libraries,
    shown,
    url_of,
)
from lore.errors import LoreError
from lore.model import LLAMA_CPP, UNKNOWN, cut_masked, decode, mask_credentials, parse_http_date, provider_of
from lore.untrusted import harmless, one_line

if TYPE_CHECKING:
    from lore_plugins.replay.sending import SentBody

PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0)  # seconds before each further try, where the server does not ask for more
UNREACHED_TRIES = 2  # of a server that never took a connection
MOST_WAIT = 300.0  # seconds of what `Retry-After` may ask for: beyond, the run ends and can be resumed
SECONDS = 600.0  # that one try may take: a long prompt on a CPU
MOST_SLOTS = 256  # slots of a llama.cpp server: LLAMA_MAX_SEQ
MOST_BYTES = 16 * 1024 * 1024  # bytes of an answer; the longest hold some hundred thousand
_PROBE_SECONDS, _PROBE_BYTES = 10.0, 4 * 1024 * 1024

# Where keys are looked for: by whose server it is, else by the dialect of the requests.
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
# Response headers that a capture keeps: what the body is, when it came, the provider's ids.
_KEPT = ("content-type", "content-encoding", "date", "server", "request-id", "x-request-id", "x-amzn-requestid")


class Probed(NamedTuple):
    """What a server says of itself: the cache model that stands for it, its version, its models, its slots."""

    cache: str = ""
    version: str = ""
    models: tuple[str, ...] = ()
    slots: int | None = None


class ServerRefusedError(Exception):
    """The server does not take a request, or gives no answer to it; says why, in one harmless line."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class Key(NamedTuple):
    """A key, and the variable of the environment that it comes from; both empty where none is sent."""

    variable: str = ""
    value: str = ""


NO_KEY = Key()


def key_for(url: str, dialect: str, variable: str | None, environ: Mapping[str, str]) -> Key:
    """Return the key to send; raises LoreError where one is named, or surely needed, and not set.

    Without a name, the one of whoever serves the host, else the dialect's; on this machine, and over a connection that
    is not encrypted, none.
    """
    if variable is not None:
        return Key(variable, key_in(environ, variable, "--api-key-env"))
    if is_near(url) or not url.startswith("https:"):
        return Key()
    provider = provider_of(url.partition("://")[2].partition("/")[0].rpartition("@")[2], None, "")
    names = KEYS.get(provider) or KEYS.get(_BY_DIALECT.get(dialect, dialect), ())
    name = next((name for name in names if environ.get(name, "").strip()), "")
    if not name and provider != UNKNOWN and names:
        raise LoreError(f"{names[0]} is not set: {shown(url)} wants a key", hint="set it, or name one: --api-key-env")
    return Key(name, key_in(environ, name, name))


class Server:
    """A server, asked by one request at a time. Not safe between threads.

    Raises LoreError when it is made: the URL is none, holds a password, or the extra is not installed. `key` goes along
    with each request; `tell` is told of tries that failed; without `quotes` no message repeats what the server says.
    """

    def __init__(
        self, url: str, *, key: Key = NO_KEY, seconds: float = SECONDS, quotes: bool = True,
        tell: Callable[[str], None] = lambda _: None,
    ) -> None:  # fmt: skip
        parts = url_of(url, "--server", hint="as in http://127.0.0.1:8080")
        if parts.username is not None or parts.password is not None:
            raise LoreError(
                "--server holds a name or a password", hint="a key comes from a variable: --api-key-env NAME"
            )
        self._base, self._query = f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}", parts.query
        self.shown, self.near = shown(url), is_near(url)
        self.encrypted, self.key = parts.scheme == "https", key
        proxy = "" if self.near else _proxy(parts.scheme, parts.hostname or "")
        self.proxy = shown(proxy) if proxy else ""
        self.provider = UNKNOWN if self.near else provider_of(parts.netloc.lower(), None, "")
        self._seconds, self._quotes, self._tell = seconds, quotes, tell
        self._endpoint = Endpoint(
            libraries("lore replay", "replay"), self.shown, self.near, self._clean, proxy=proxy or None
        )
        self._reached = False  # it took a connection

    def probe(self) -> Probed:
        """Ask a server that nobody knows by its host what it is; what it does not say is unknown."""
        if self.provider != UNKNOWN:
            return Probed()
        listed = self._asked("/v1/models").get("data")
        entries = cast("list[Any]", listed) if isinstance(listed, list) else []
        models = tuple([
            mask_credentials(one_line(name)) for entry in entries
            if isinstance(entry, dict) and isinstance(name := cast("dict[str, Any]", entry).get("id"), str)
        ])  # fmt: skip
        props = self._asked("/props")
        if "default_generation_settings" in props or "total_slots" in props:
            slots = props.get("total_slots")
            known = slots if isinstance(slots, int) and 0 < slots <= MOST_SLOTS else None
            return Probed(LLAMA_CPP, _word(props.get("build_info")), models, known)
        version = self._asked("/version")
        if isinstance(version.get("version"), str):
            return Probed("vllm", _word(version["version"]), models)
        info = self._asked("/get_server_info")
        if {"schedule_policy", "disable_radix_cache", "internal_states"} & info.keys():
            return Probed("sglang", _word(info.get("version")), models)
        return Probed(models=models)

    def _asked(self, path: str) -> dict[str, Any]:
        base = self._base.removesuffix("/v1")
        for suffix in ("/chat/completions", "/messages", "/responses"):
            base = base.removesuffix(suffix).removesuffix("/v1")
        try:
            headers = self._headers("")
            url = self._with_query(base + path)
            found = self._once(HttpRequest("GET", url, b"", headers, _PROBE_SECONDS, _PROBE_BYTES))
            value: Any = decode(found.body) if found.status == 200 else {}
        except (ServerRefusedError, TryAgainError, ValueError, RecursionError):
            return {}
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}

    def url(self, path: str) -> str:
        """Return where a request goes: the base may name the API's version, or the whole path."""
        base, version = self._base, "/" + path.split("/", 2)[1]
        if base.endswith(path.removeprefix(version)) and base.count("/") > 2:
            return self._with_query(base)
        return self._with_query(base + (path.removeprefix(version) if base.endswith(version) else path))

    def _with_query(self, url: str) -> str:
        return f"{url}?{self._query}" if self._query else url

    def send(self, sent: SentBody, dialect: str, betas: tuple[str, ...] = ()) -> HttpAnswer:
        """Send a request until there is an answer; raises RefusedError where another try would not help."""
        headers = self._headers(dialect, betas)
        request = HttpRequest("POST", self.url(sent.path), sent.body, headers, self._seconds, MOST_BYTES)

        def note(error: TryAgainError, pause: float) -> None:
            self._tell(f"{error}; tried again in {pause:,.0f} s")

        try:
            return self._endpoint.repeated(lambda: self._answered(request), PAUSES, note, sleep=time.sleep)
        except TryAgainError as error:
            raise ServerRefusedError(f"{error}, {min(error.tries, len(PAUSES) + 1)} times") from None

    def _answered(self, request: HttpRequest) -> HttpAnswer:
        answer = self._once(request)
        if answer.status < 300:
            return answer
        if answer.status < 400:
            raise ServerRefusedError(f"{self.shown} redirects elsewhere ({answer.status})", answer.status)
        said = self._clean(error_message(answer.body)) if self._quotes else ""
        reason = f"{self.shown} answers {answer.status}" + (f": {said}" if said else "")
        if answer.status != 429 and answer.status < 500 and answer.status != 408:
            raise ServerRefusedError(reason, answer.status)
        now = parse_http_date(answer.headers.get("date", "")) or answer.ended  # the server's clock may be another
        wait = _asked_wait(answer.headers.get("retry-after", ""), now)
        if wait is not None and wait > MOST_WAIT:
            raise ServerRefusedError(f"{reason}; it asks to wait {wait:,.0f} s", answer.status)
        raise TryAgainError(reason, wait or 0.0)

    def _once(self, request: HttpRequest) -> HttpAnswer:
        """Ask once; what is kept of the answer's headers is harmless."""
        try:
            found = self._endpoint.ask(request)
        except NoAnswerError as error:
            raise ServerRefusedError(str(error)) from None
        except LostConnectionError as error:
            self._reached = self._reached or not error.unreached
            if not self._reached:
                reason = f"{self.shown} cannot be reached: {error}"
                raise TryAgainError(reason, tries=UNREACHED_TRIES) from None
            raise TryAgainError(f"{self.shown}: {error}") from None
        self._reached = True
        names = [name for name in (*_KEPT, "retry-after") if name in found.headers]
        return found._replace(headers={name: cut_masked(harmless(found.headers[name]), 200) for name in names})

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
        own = {"anthropic": "x-api-key", "gemini": "x-goog-api-key", "azure": "api-key"}
        name = own.get(self.provider) or own.get(dialect, "")
        if key and name:
            headers[name] = key
        if key and self.provider not in own:
            headers["authorization"] = f"Bearer {key}"
        return headers

    def _clean(self, text: str) -> str:
        """Return text in one harmless line, without the key, should a server repeat it, and what looks like one."""
        text = text.replace(self.key.value, "***") if self.key.value else text
        return mask_credentials(one_line(text, 400))


def _proxy(scheme: str, host: str) -> str:
    """Return the proxy that the environment names for a host; empty for none."""
    known = getproxies()
    found = "" if proxy_bypass(host) else known.get(scheme) or known.get("all", "")
    return found if "://" in found or not found else f"http://{found}"


def _asked_wait(text: str, now: float) -> float | None:
    """Read `Retry-After`: seconds, or the time until which to wait; None for anything else."""
    if re.fullmatch(r"[0-9]+(?:\.[0-9]*)?", text, re.ASCII):
        return float(text)
    at = parse_http_date(text)
    return None if at is None else max(0.0, at - now)


def _word(value: object) -> str:
    return mask_credentials(one_line(value, 40)) if isinstance(value, str) else ""
