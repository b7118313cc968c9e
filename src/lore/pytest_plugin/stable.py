"""The assertion: successive requests extend one another, or the test fails and says where they part."""

from __future__ import annotations

import warnings
from collections.abc import Iterable

from lore.errors import LoreError
from lore.pytest_plugin.recorder import Recorder
from lore.pytest_plugin.running import RUNNING, LoreWarning


def assert_prefix_stable(requests: Iterable[object], allow: str | Iterable[str] = ()) -> None:
    """Fail where the prefix of a request is not the request before it, by the judgement of `lore check`.

    `requests` are in the order in which they were sent: bodies (a dict as the client gets it; text or bytes
    as they are sent), `httpx` or `requests` requests, `{"request", "usage" or "response", "timestamp"}`
    records, or a recorder, whose other requests (no prompts) are passed over. Conversations may be mixed:
    each request is compared with the one that it continues.

    `allow` names causes that may move the prefix, by code or name (`"tools-reordered"`); an unknown one is a
    LoreError, one that nothing needed a LoreWarning. What is expected (a model change, a compaction) needs no
    allowance. Raises AssertionError where the prefix moved, and where no two requests could be compared:
    a test that judges nothing should not pass. In a test marked `moves_cache_prefix` it reports instead.
    """
    __tracebackhide__ = True
    try:
        message = _judged(requests, allow)
    except LoreError as error:
        error.add_note(f"hint: {error.hint}")
        raise error.with_traceback(None) from None  # pytest would print what lore's own functions were given: bodies
    if message:
        raise AssertionError(message)


def _judged(requests: Iterable[object], allow: str | Iterable[str]) -> str:
    """Return the message of the failure; empty where there is none."""
    # What judging needs is imported by the first assertion, and not by each run of pytest.
    from lore.pytest_plugin.judging import allowances, brief, entries, failure, judge, nothing_compared  # noqa: PLC0415

    allowed = allowances(allow)
    given = entries(requests)
    judged = judge(given)
    if not judged.pairs:
        return nothing_compared(len(given), judged, "" if given else _watched(requests), _streams(requests))
    kept = [pair._replace(findings=tuple(f for f in pair.findings if f.code not in allowed)) for pair in judged.moved]
    moved = [pair for pair in kept if pair.findings]
    unused = [word for code, word in allowed.items() if code not in judged.codes]
    if unused:
        warning = f"allow={', '.join(unused)}: nothing needed it; take it out"
        warnings.warn(LoreWarning(warning), stacklevel=3)
    test = RUNNING.test
    if moved and test is not None and test.reason is not None:
        test.moved += [brief(pair) for pair in moved]
        return ""
    return failure(judged, moved) if moved else ""


def _streams(requests: object) -> int:
    """Count the requests of a recorder whose body it could not keep."""
    return (
        sum(request.body is None and request.method == "POST" for request in requests)
        if isinstance(requests, Recorder)
        else 0
    )


def _watched(requests: object) -> str:
    """Say what a recorder listened to, where it heard nothing, and through which seams SDKs may have sent."""
    if not isinstance(requests, Recorder):
        return ""
    from lore.pytest_plugin.seams import missing  # noqa: PLC0415 - only where nothing was recorded

    known = (
        f"recorded from {', '.join(requests.watched)}"
        if requests.watched
        else "no library that lore records is installed"
    )
    return "; ".join(("", known, *(sdk.line for sdk in missing())))
