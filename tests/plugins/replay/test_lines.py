"""Notes on a replay."""

from types import SimpleNamespace

import pytest

from lore.model.events import Usage
from lore.model.results import UsageResult
from lore_plugins.replay.lines import notes_of


@pytest.mark.parametrize(("read", "warm"), [(0, False), (4, False), (60, True)])
def test_chat_template_text_is_no_warm_cache(read, warm):
    """Any two requests share the first tokens of a chat template."""
    first = SimpleNamespace(billed=UsageResult.of(Usage(200 - read, read, None, 1)), chain="main")
    layout = SimpleNamespace(skipped={}, left_out={}, requests=1, simulated=SimpleNamespace(turns=[first]))
    assert any("was warm" in note for note in notes_of([layout], "vllm", None)) is warm
