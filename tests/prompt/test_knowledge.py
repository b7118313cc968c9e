"""Knowledge as text: pinned, and in deltas."""

from __future__ import annotations

from lore.model.inserts import shown_ids
from lore.model.state import Fact
from lore.prompt.knowledge import UNANNOUNCED, News, delta_text, pinned_text
from model.making import event

IDS = shown_ids(["k1", "k2", "k3"], {})


def test_knowledge_is_rendered_in_canonical_order():
    facts = [Fact("k1", "b", "t2", "x"), Fact("k2", "", "", "alone"), Fact("k3", "b", "t1", "")]
    text = pinned_text(tuple(facts), IDS)
    assert text == pinned_text(tuple(reversed(facts)), IDS)
    assert text.splitlines() == [
        "## Long-term Knowledge", "### General", "* **[k2]**: alone", "### b", "* **[k3] t1**", "* **[k1] t2**: x",
    ]  # fmt: skip


def test_delta_of_a_layer_names_no_entry():
    """A late layer in a session that knew nothing once ended in an error: no id was there to shorten."""
    layer = event("layer", name="l", when="once_at_start", text=" be kind ")
    assert delta_text("s-1", News(layers=(layer,)), {}, 400).text == "[knowledge update 6a840baf]\n\nbe kind"
    assert delta_text(None, News(layers=(layer,)), {}, 400).text == f"{UNANNOUNCED}\n\nbe kind"
