"""Keep prompt prefixes stable from tests: an assertion, a recorder of requests, and a plugin for pytest.

`assert_prefix_stable`, `recording` and `Recorder` need no pytest. With pytest there are also the fixture
`lore_recorder`, the mark `moves_cache_prefix(reason="…")`, and the option `--lore-cassettes[=DIR]`. Importing this
package, and with it every run of pytest that uses none of it, costs the standard library alone.
"""

from lore.pytest_plugin.recorder import LoreWarning, Recorded, Recorder, recording
from lore.pytest_plugin.stable import assert_prefix_stable

__all__ = ["LoreWarning", "Recorded", "Recorder", "assert_prefix_stable", "recording"]
