"""Writers that are killed at random moments (5 for each store, 300 in `make soak`), or meet a limit."""

import subprocess
import sys
from contextlib import closing
from random import Random

import pytest

from helpers.matrix import some
from helpers.storing import URLS
from lore.store.registry import open_store
from lore.testing.stores import add, begin, message
from store.killing import kills

FILES = sorted(set(URLS) - {"memory"})


@pytest.mark.parametrize("count", some([5, 300]))
@pytest.mark.parametrize("kind", FILES)
def test_acknowledged_saves_survive_kills(kind, count, tmp_path):
    tally = kills(URLS[kind](tmp_path), count, Random(7))
    assert tally.writers == count
    assert tally.acknowledged > count


LIMITED = """
import resource, sys
from lore.store.base import StoreError
from lore.store.registry import open_store
from lore.testing.stores import add, message
store = open_store(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
head = store.load("s").head
try:
    for number in range(200):
        head = add(store, message(f"u{number}", "x" * 5000), base=head)
except StoreError as error:
    print(head.number, error.message)
"""


@pytest.mark.parametrize("kind", FILES)
def test_limit_on_file_sizes_loses_nothing(kind, tmp_path):
    url = URLS[kind](tmp_path)
    with closing(open_store(url)) as store:
        begin(store)
    process = subprocess.run([sys.executable, "-c", LIMITED, url], capture_output=True, text=True, check=True)
    number, _, message_text = process.stdout.partition(" ")
    assert "cannot write to" in message_text or "a limit was met" in message_text or "disk is full" in message_text
    with closing(open_store(url)) as store:
        assert 2 <= int(number) <= store.load("s").head.number
        assert store.verify().damage == ()
        add(store, message("more"))
