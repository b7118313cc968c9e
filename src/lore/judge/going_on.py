"""Whether a session plainly went on: answers that read all that stood in the cache, so that nothing was lost.

In: what a session came to, the answers that were added. Out: what it comes to now; None where a bill read less, the
model is another, or a count is missing: only judging the log tells then. Rules: nothing is attributed here; that a
turn of one model lost nothing where its bill reads all that the last one left is the judge's own rule, and
`tests/judge/test_going_on.py` holds it against the judge at each turn of recordings. Standard library alone.
Cost O(answers).
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.model.running import Answer, Running


def gone_on(running: Running, answers: Iterable[Answer]) -> Running | None:
    """Return a session with answers that lost nothing; None where that is not sure."""
    for answer in answers:
        if answer.response == running.response:  # more lines of the answer that was known
            continue
        if answer.model != running.model or not running.stood or answer.read_tokens < running.stood:
            return None
        running = running._replace(
            turn=running.turn + 1, requests=running.requests + 1, used_at=answer.at, response=answer.response,
            prompt_tokens=answer.uncached_tokens + answer.read_tokens + answer.write_tokens,
            read_tokens=answer.read_tokens, stood=answer.read_tokens + answer.write_tokens,
            lifetime=answer.lifetime or running.lifetime, billed=running.billed or answer.lifetime is not None,
        )  # fmt: skip
    return running
