"""Messages of findings: built from the finding's fields, each fact once."""

from lore.judge.findings import finding
from lore.model import evidence as e
from lore.model.cause import Place, RuledOut
from lore.model.differences import BlockChanged, ResultRewritten
from lore.model.results import SecondaryCause

PLACE = Place("a")


def test_change_within_cache_block_is_stated_once():
    also = (SecondaryCause("LORE100", "prefix-moved", "messages", "certain", e.WithinBlock(9, 128)),)
    changed = BlockChanged("messages[1].content", "a", "b")
    message = finding("LORE146", PLACE, changed, also=also, qualifiers=("within-a-block",)).message
    assert message.count("could be cached") == 1
    assert "also seen" not in message


def test_cleared_results_are_counted_once():
    cleared = ResultRewritten("messages[2]", "a", "b", "3 results cleared")
    assert finding("LORE117", PLACE, cleared, more=2).message.endswith("3 results cleared, messages[2] among them")


def test_reader_problem_is_quoted_without_lead():
    text = "a request continues r1: its prompt is partial"
    assert finding("LORE132", PLACE, e.Damage(text)).message == text


def test_provider_verdict_rules_out_contradicted_cause():
    also = (
        SecondaryCause("LORE302", "verdict-disagrees", None, "strong", e.ProviderSaid("tools_changed")),
        SecondaryCause("LORE128", "cache-expired", "time", "strong", e.Paused(2520.0, 300.0), contradicted=True),
    )
    message = finding("LORE103", PLACE, e.ToolsAnnounced(("a",)), strength="strong", also=also).message
    assert message == (
        "less was read than was cached, and the recording shows why: the client announced other tools during the "
        "session: added a; also seen: the provider reports tools_changed; ruled out by the provider's verdict: "
        "cache-expired"
    )


def test_examined_reasons_are_grouped_by_result():
    reasons = (
        RuledOut("expiry", out=True, seconds=30.0, limit=300.0), RuledOut("model", out=None),
        RuledOut("breakpoints", out=False, count=24, limit=20),
    )  # fmt: skip
    message = finding("LORE301", PLACE, e.ReadFell(10, 20, 10), strength="weak", ruled_out=reasons).message
    examined = "ruled out: expiry (30 s of 5 min); not ruled out: breakpoints (24, more than 20); not recorded: model"
    assert message.endswith(examined)
