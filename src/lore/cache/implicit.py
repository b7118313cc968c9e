"""Caches without breakpoints: OpenAI's up to GPT-5.5, Gemini's, Kimi's, xAI's, DeepSeek's, Qwen's implicit one.

They read the longest beginning that any earlier request had, with its answer where a rule says so (`reads_output`),
rounded down to whole blocks (`block_tokens`), nothing below a minimum, and renew each entry that they read
(`lifetime`). A request cannot read a prompt that another one is still computing. Unknown rules are not applied. Routing
and early eviction are unknown, so a prediction is the best case.

Sources: the providers' documentation; Kimi's chunks and xAI's blocks were measured (see the rows of `data/`).
"""

from __future__ import annotations

from msgspec.structs import replace

from lore.cache.base import UNKNOWN, Confidence, Prediction, Request, RuleLookup
from lore.cache.measured import MeasuredCache, Recency
from lore.model.events import Usage


class ImplicitCache(MeasuredCache):
    """A cache of every earlier prompt; `minimum` and `lifetime` are the names of the rules that it follows."""

    def __init__(
        self, find_rule: RuleLookup, *, minimum: str = "minimum_tokens", lifetime: str = "lifetime",
        confidence: Confidence = "ceiling",
    ) -> None:  # fmt: skip
        super().__init__()
        self._find_rule = find_rule
        self._minimum, self._lifetime = minimum, lifetime
        self._confidence: Confidence = confidence
        self._recency = Recency()
        self._answers: dict[str, tuple[int, int]] = {}  # by chain: pieces of its latest prompt, tokens of the answer

    def predict(self, request: Request) -> Prediction:
        """Return what would be read, and keep the request."""
        path = self._lay(request)
        lifetime = self._find_rule(self._lifetime, request.model, request.at)
        places = self._recency.use(request, path, lifetime)
        if not request.pieces:
            return UNKNOWN
        total = self._total(request)
        tokens = self._ruler.position(places - 1)  # up to which a kept prompt begins alike
        is_open = places == path.new < len(request.pieces) and path.common_bytes > 0
        if is_open and self._recency.live(path.similar_node, request.at, lifetime):
            tokens = max(tokens, self._find_similar_end(request, path))
        pieces, answer = self._answers.pop(request.chain, (0, 0))
        tokens = min(tokens, total)
        if answer and places >= pieces:  # it continues that prompt
            tokens = min(tokens + answer, total)
        block = max(1, int(self._find_rule("block_tokens", request.model, request.at) or 1))
        least = self._find_rule(self._minimum, request.model, request.at) or 0
        read, prompt_size = tokens // block * block, total // block * block
        reason = "longest beginning of an earlier request" if read else "no earlier request begins alike"
        if read < least:
            read, reason = 0, f"below the minimum of {int(least):,} tokens" if tokens else reason
        return self._predicted(request, read, self._confidence, reason, prompt_size if prompt_size >= least else 0)

    def learn(self, usage: Usage | None) -> str:
        """Read the usage of the latest request; remember the answer if the cache keeps it, without reasoning."""
        request, doubt = self._pending, super().learn(usage)
        answer = 0 if doubt or usage is None or usage.iterations else usage.output_tokens
        if request is not None and answer and self._find_rule("reads_output", request.model, request.at):
            self._answers[request.chain] = len(request.pieces), answer
        return doubt


class GeminiExplicit:
    """Gemini's explicit cache: a request names an object that holds the beginning of its prompt (`cached`).

    The whole object is read, and the rest of the prompt falls under the implicit cache. Only usage shows the size of
    the object, so nothing is predicted before the first one. A request with an expired object fails, so an answered
    request names a living one. Source: the Gemini API's documentation of `cachedContents`.
    """

    def __init__(self, find_rule: RuleLookup) -> None:
        self._implicit_cache = ImplicitCache(find_rule)
        self._sizes: dict[bytes, int] = {}
        self._object = b""  # of the latest request

    def predict(self, request: Request) -> Prediction:
        """Return what would be read: the object, and the beginning that an earlier request with it had after it."""
        self._object = request.cached
        space = b"%b cached %b" % (request.space, request.cached) if request.cached else request.space
        prediction = self._implicit_cache.predict(replace(request, space=space))
        if not request.cached:
            return prediction
        size = self._sizes.get(request.cached)
        if size is None:
            return replace(UNKNOWN, reason="no usage has shown the size of the cached object")
        if prediction.read is None:
            return Prediction(size, 0, 0, "ceiling", "the cached object alone")
        return replace(prediction, read=prediction.read + size, reason="the cached object, and " + prediction.reason)

    def learn(self, usage: Usage | None) -> str:
        """Read the usage of the latest request; the smallest read with an object is its size."""
        name, self._object = self._object, b""
        if not name or usage is None or not usage.read_tokens or usage.read_tokens < 0:
            return self._implicit_cache.learn(None if name else usage)
        size = self._sizes[name] = min(self._sizes.get(name, usage.read_tokens), usage.read_tokens)
        return self._implicit_cache.learn(replace(usage, read_tokens=usage.read_tokens - size))
