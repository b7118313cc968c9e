"""Who keeps an entry at each breakpoint: Anthropic, Bedrock, Qwen where it is asked to, OpenAI since GPT-5.6.

One class each over `Breakpoints`; what tells them apart are the dated rows that `look` finds, and where a request
that leaves breakpoints to the provider gets one.

Source: the providers' documentation. OpenAI's implicit mode: one breakpoint at the end of the latest message, and up
to the latest three explicit ones. Anthropic's automatic mode: one at the last block that takes one.
"""

from __future__ import annotations

from typing import ClassVar

from lore.cache.base import Prediction, Request
from lore.cache.breakpoints import Breakpoints

EXPLICIT = 3  # breakpoints that hold beside an implicit one


class Anthropic(Breakpoints):
    """Anthropic's cache, explicit and automatic."""

    name: ClassVar[str] = "anthropic"
    provider: ClassVar[str] = "anthropic"


class Bedrock(Breakpoints):
    """Claude on Bedrock: the same cache by other rows."""

    name: ClassVar[str] = "bedrock"
    provider: ClassVar[str] = "anthropic"


class Qwen(Breakpoints):
    """Qwen's cache of requests with breakpoints."""

    name: ClassVar[str] = "qwen"
    provider: ClassVar[str] = "qwen"


class OpenAIBreakpoint(Breakpoints):
    """OpenAI's cache since GPT-5.6: only what ends exactly at a breakpoint is read."""

    name: ClassVar[str] = "openai-breakpoint"
    provider: ClassVar[str] = "openai"

    def predict(self, request: Request) -> Prediction:
        if request.implicit:
            request = request._replace(breakpoints=request.breakpoints[-EXPLICIT:])
        return super().predict(request)
