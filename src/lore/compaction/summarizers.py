"""The summariser that a configuration names, and the one that asks a model at any OpenAI-compatible endpoint.

One `POST {endpoint}/chat/completions` a try (`endpoints`, with the extra `http`). The key comes from the
environment variable that the configuration names, goes to that endpoint alone and is never shown; a redirect is
refused; 429, 5xx and lost connections are tried again, with pauses that grow.

Source of the shapes: OpenAI's API reference, "Chat completions" (2025-06); Ollama's and llama.cpp's servers speak it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from lore import endpoints as http
from lore.asking import GivenUpError, Summarizer, SummaryAnswer, SummaryError, SummaryRequest, UnusableAnswerError
from lore.compaction.commands import NESTED, SummaryCommand, check_sources, is_nested, outside_context
from lore.compaction.entries import BYTES_PER_TOKEN
from lore.compaction.executor import Dependencies
from lore.compaction.extractive import Extractive
from lore.compaction.settings import Compaction
from lore.compaction.transcripts import instructions, transcript_request
from lore.errors import LoreError
from lore.model.canonical import decode, encode
from lore.model.limits import ANSWER_BYTES
from lore.model.mask import mask
from lore.store.base import Tell
from lore.store.registry import ignore

PAUSES = (0.5, 2.0, 8.0)  # seconds before each further try
MOST_PAUSE = 30.0  # seconds of what `Retry-After` may ask for
_THOUGHT = re.compile(r"\A\s*<think>.*?</think>", re.DOTALL)  # reasoning in the answers of local models
_PATH = "/chat/completions"
_HINTS = {
    401: "is the key in the variable that key_env names the right one?",
    404: "endpoint is the part before /chat/completions, as in http://127.0.0.1:11434/v1",
}


class OpenAISummarizer:
    """A summariser that asks a model over HTTP. Safe between threads; each call has a connection of its own.

    Raises LoreError when it is made: httpx is missing, the endpoint is not a URL, the key's variable is not set.
    `pause` is called with the seconds to wait before another try; a try may take `seconds` in all.
    """

    name = "openai"

    def __init__(
        self, endpoint: str, model: str, *, key_env: str = "", environ: Mapping[str, str], seconds: float = 60.0,
        pause: Callable[[float], None] = time.sleep, tell: Tell = ignore,
    ) -> None:  # fmt: skip
        self._model, self._seconds, self._pause, self._tell = model, seconds, pause, tell
        parts = http.url_of(endpoint, "endpoint", hint="as in http://127.0.0.1:11434/v1")
        path = parts.path.rstrip("/").removesuffix(_PATH) + _PATH
        self._url, self._display_url = parts._replace(path=path, fragment="").geturl(), http.display_url(endpoint)
        self._key = http.key_in(environ, key_env, "key_env")
        self._limit = "max_tokens"
        near = http.is_loopback_url(self._url)  # no proxy is asked then
        self._endpoint = http.Endpoint(
            http.httpx_for('summarizer = "openai"'), self._display_url, near, self._without_key, trust_env=not near
        )
        if self._key and parts.scheme == "http" and not near:
            tell(f"the key and the session go to {self._display_url} unencrypted: name an https endpoint")

    def summarize(self, request: SummaryRequest) -> SummaryAnswer:
        """Return the model's answer, `cut_off` if it stopped for its length; raises SummaryError without one."""
        text = transcript_request(request)
        reply = self._reply(request, text)
        if reply.status == 400 and b"max_completion_tokens" in reply.body:  # newer models refuse the older name
            self._limit = "max_completion_tokens"
            reply = self._reply(request, text)
        if reply.status != 200:
            raise GivenUpError(self._endpoint.refusal(reply), hint=_HINTS.get(reply.status, ""))
        return self._answer(reply.body, len(text.encode("utf-8", "replace")) // BYTES_PER_TOKEN)

    def _reply(self, request: SummaryRequest, text: str) -> http.HttpAnswer:
        """Return the first answer other than 429 and 5xx; raises GivenUpError when no try got one."""
        messages = [{"role": "system", "content": instructions(request)}, {"role": "user", "content": text}]
        body = encode({"model": self._model, "messages": messages, self._limit: request.tokens, "stream": False})
        headers = {"content-type": "application/json", "accept": "application/json", "accept-encoding": "identity"}
        if self._key:
            headers["authorization"] = f"Bearer {self._key}"

        def ask() -> http.HttpAnswer:
            try:
                reply = self._endpoint.ask(
                    http.HttpRequest("POST", self._url, body, headers, self._seconds, ANSWER_BYTES)
                )
            except http.LostConnectionError as error:
                raise http.TryAgainError(self._without_key(f"{self._display_url}: {error}")) from None
            if reply.status != 429 and reply.status < 500:
                return reply
            wait = reply.headers.get("retry-after", "")
            seconds = min(float(wait), MOST_PAUSE) if re.fullmatch(r"[0-9]{1,6}", wait) else 0.0  # a date: our pauses
            raise http.TryAgainError(self._endpoint.refusal(reply), seconds)

        def note(error: http.TryAgainError, _: float) -> None:
            self._tell(f"{error}; asked again")

        try:
            return http.ask_with_retries(ask, PAUSES, note, sleep=self._pause)
        except http.TryAgainError as error:
            raise GivenUpError(f"{error}, {len(PAUSES) + 1} times") from None
        except http.NoAnswerError as error:
            raise GivenUpError(str(error)) from None

    def _answer(self, body: bytes, size: int) -> SummaryAnswer:
        """Read an answer to a prompt of `size` tokens; its content may be parts, or null if a model only thought."""
        try:
            table = decode(body)
            choice = table["choices"][0]
            content = choice["message"]["content"]
        except (ValueError, RecursionError, LookupError, TypeError):
            raise SummaryError(f"{self._display_url}: its answer is not a chat completion") from None
        usage = table.get("usage")
        read = cast("dict[str, Any]", usage).get("prompt_tokens") if isinstance(usage, dict) else None
        if isinstance(read, int) and 0 < read < size // 3:  # some servers drop the beginning of a long prompt silently
            window = "is its context window as large as summarizer_window says?"
            self._tell(f"{self._display_url} read {read:,} tokens of about {size:,}: {window}")
        if isinstance(content, list):
            parts = [cast("dict[str, Any]", part) for part in cast("list[Any]", content) if isinstance(part, dict)]
            content = "".join([text for part in parts if isinstance(text := part.get("text"), str)])
        if content is not None and not isinstance(content, str):
            raise UnusableAnswerError("the answer's content is not text")
        text = _THOUGHT.sub("", content or "").strip()
        return SummaryAnswer(text, cut_off=choice.get("finish_reason") == "length")

    def _without_key(self, text: str) -> str:
        """Return text without the key, should a server repeat it, and without what looks like one."""
        return mask(text.replace(self._key, "***") if self._key else text)


def summarizer_of(settings: Compaction, environ: Mapping[str, str], *, tell: Tell = ignore) -> Summarizer:
    """Return the summariser of `settings`; raises LoreError if it is not available. Sends no request yet."""
    if fault := settings.fault():
        raise LoreError(fault)
    seconds = settings.timeout_secs
    if settings.summarizer == "command":
        return SummaryCommand(settings.command, environ=environ, seconds=seconds, tell=tell)
    if settings.summarizer == "openai":
        endpoint, model, key_env = settings.endpoint, settings.model, settings.key_env
        return OpenAISummarizer(endpoint, model, key_env=key_env, environ=environ, seconds=seconds, tell=tell)
    return Extractive()


def dependencies_of(settings: Compaction, tell: Tell, session_id: str, agent: str = "", user: str = "") -> Dependencies:
    """Return what a compaction works with; raises LoreError if any of it is missing. Runs and asks nothing."""
    refuse_nested()
    check_sources(settings, os.environ)
    summarizer = summarizer_of(settings, os.environ, tell=tell)
    if not settings.context_sources:
        return Dependencies(summarizer, tell=tell)

    session = {"session_id": session_id, "agent": agent, "user": user}
    return Dependencies(summarizer, partial(outside_context, settings, session, environ=os.environ, tell=tell), tell)


def refuse_nested() -> None:
    """Raise LoreError if this process was started by a compaction, as its source or summariser."""
    if is_nested(os.environ):
        raise LoreError(f"a source or summariser of a compaction compacts nothing itself ({NESTED} is set)")
