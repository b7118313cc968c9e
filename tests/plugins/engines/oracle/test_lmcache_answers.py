"""lore's predictions equal the recorded answers of LMCache 0.5.6 to generated sequences.

`make oracle-lmcache` asks LMCache itself, and with RECORD=1 writes these answers.
"""

import json

from plugins.engines.oracle.lmcache_agreement import ANSWERS
from plugins.engines.oracle.lmcache_model import predicted


def test_reads_equal_lmcache():
    answers = [json.loads(line) for line in ANSWERS.read_text(encoding="utf-8").splitlines()]
    assert len(answers) >= 300
    assert [reads for _, *reads in answers] == predicted(len(answers))
