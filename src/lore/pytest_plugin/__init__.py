"""Keep prompt prefixes stable from tests: an assertion, a recorder of requests, and a plugin for pytest.

`assert_prefix_stable`, `recording` and `Recorder` need no pytest. With pytest there are also the fixture
`lore_recorder`, the mark `moves_cache_prefix(reason="…")`, and the option `--lore-cassettes[=DIR]`. Importing this
package, and with it every run of pytest that uses none of it, costs the standard library alone.
"""

from __future__ import annotations

from collections.abc import Iterable

from lore.errors import LoreError
from lore.pytest_plugin.recorder import LoreWarning, Recorded, Recorder, recording

__all__ = ["LoreWarning", "Recorded", "Recorder", "assert_prefix_stable", "recording"]


def assert_prefix_stable(requests: Iterable[object], allow: str | Iterable[str] = ()) -> None:
    """Fail if a request's prefix differs from the request before it, as `lore check` judges it.

    `requests` are in the order in which they were sent: bodies (a dict as the client gets it; text or bytes
    as they are sent), `httpx` or `requests` requests, `{"request", "usage" or "response", "timestamp"}`
    records, or a recorder, whose other requests are skipped. Conversations may be mixed: each request is
    compared with the one that it continues.

    `allow` names causes that may move the prefix, by code or name (`"tools-reordered"`); an unknown one is a
    LoreError, an unused one a LoreWarning. Expected breaks (another model, a compaction) need no allowance.
    A request without a cache breakpoint, or whose last one moved back, fails too if its API needs them.
    Raises AssertionError if the prefix moved, and if no two requests could be compared: a test that judges
    nothing should not pass. In a test marked `moves_cache_prefix` it reports instead.
    """
    __tracebackhide__ = True
    # The modules that judge are imported by the first assertion, and not by each run of pytest.
    from lore.pytest_plugin.judging import check_requests  # noqa: PLC0415

    try:
        message = check_requests(requests, allow)
    except LoreError as error:
        raise error.with_traceback(None) from None  # pytest would print the arguments of lore's functions: bodies
    if message:
        raise AssertionError(message)
