"""What LMCache 0.5.6 answered to generated sequences, without LMCache: lore's model says the same of each request.

`make oracle-lmcache` asks LMCache itself, and with RECORD=1 writes these answers.
"""

from __future__ import annotations

import json

from plugins.engines.oracle.lmcache_agreement import ANSWERS
from plugins.engines.oracle.lmcache_model import predicted


def test_every_request_finds_what_lmcache_said_it_found():
    answers = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    assert len(answers) >= 300
    assert [found for _, *found in answers] == predicted(len(answers))
