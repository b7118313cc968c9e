"""How far a session of a folder was used: what its records say, what stands behind them, what older lores wrote."""

from __future__ import annotations

import json

from lore.model.events import Saved
from lore.store.jsonl import Jsonl
from lore.store.jsonl_records import record_line
from lore.store.lines import SEED, follow
from lore.testing.stores.scenarios import LATER, add, begun, header, line, message


def opened(folder):
    return Jsonl.open(f"jsonl:{folder}", print)


def test_a_log_that_an_older_lore_wrote_says_how_far_it_was_used_and_is_stamped_anew(tmp_path):
    """Its records name no turns: the events are read once, and the next delta says it for good."""
    first, turn = header(user_id="u"), line("turn_started", turn=1, at=LATER)
    digests = follow(SEED, (first, turn))
    record = Saved(size=len(turn) + 1, after=1, base=digests[0].hex(), log=len(first) + 1, digests=(digests[1].hex(),),
                   byte=len(first) + 1)  # fmt: skip
    log = tmp_path / "s.jsonl"
    log.write_bytes(b"\n".join((first, record_line(record), turn, b"")))
    (tmp_path / "lore-store.json").write_text('{"kind":"lore-store","version":1}')
    store = opened(tmp_path)
    (listed,) = store.list()
    assert (listed.user_id, listed.turns, listed.used_at) == ("u", 1, LATER)
    assert b'"version":1' in (tmp_path / "lore-store.json").read_bytes()
    add(store, line("turn_started", turn=2))
    assert b'"turns":2,"used_at":"%b"' % LATER.encode() in log.read_bytes()
    assert json.loads((tmp_path / "lore-store.json").read_bytes())["version"] == 2
    assert opened(tmp_path).list()[0].turns == 2
    assert store.verify().damage == ()


def test_a_turn_that_another_program_appended_is_counted(tmp_path):
    store = opened(tmp_path)
    begun(store, line("turn_started", turn=1))
    with open(tmp_path / "s.jsonl", "ab") as file:
        file.write(line("turn_started", turn=2, at=LATER) + b"\n")
    assert (store.list()[0].turns, store.list()[0].used_at) == (2, LATER)
    add(store, message("u1"))
    assert (opened(tmp_path).list()[0].turns, opened(tmp_path).list()[0].used_at) == (2, LATER)
