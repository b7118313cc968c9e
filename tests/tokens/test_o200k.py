"""The tokenizer: a verified vocabulary, chunks that change nothing, each distinct text tokenised once."""

import hashlib
from importlib import resources

import pytest

from helpers.each import each
from helpers.matrix import crossed
from lore.errors import LoreError
from lore.tokens import o200k
from lore.tokens.o200k import CHUNK, LONGEST, Counter, cut_chunks, load_encoding

TEXTS = [
    "",
    "hello world",
    "The quick brown fox. " * 700,
    " " * 50_000,
    "a" * 50_000,
    "日本語のテキスト" * 2000,
    'é\u2028{"key": "va\\nlue", "n": 1234567}' * 300,
    "<|endoftext|> is text",
    "line\r\n" * 3000 + "don't WON'T I'LL",
    "😀 emoji 👩‍👩‍👧 and more " * 500,
]


def tokens_of(text):
    """The tokens of a text; special tokens are text like any other."""
    return [token for chunk in cut_chunks(text) for token in load_encoding().encode_ordinary(chunk)]


def brute(left, right):
    count = 0
    for mine, theirs in zip(tokens_of(left), tokens_of(right), strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def test_the_vocabulary_is_the_published_one():
    data = resources.files("lore.tokens").joinpath("o200k_base.tiktoken").read_bytes()
    assert hashlib.sha256(data).hexdigest() == "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d"
    assert hashlib.sha256(data).hexdigest() == o200k.SHA256


def test_a_damaged_vocabulary_is_refused(monkeypatch):
    monkeypatch.setattr(o200k, "SHA256", "0" * 64)
    load_encoding.cache_clear()
    try:
        with pytest.raises(LoreError, match="damaged") as caught:
            load_encoding()
        assert "install" in caught.value.hint
    finally:
        load_encoding.cache_clear()


def test_known_texts_have_their_known_tokens():
    assert tokens_of("hello world") == [24912, 2375]
    assert tokens_of("<|endoftext|>") != [199999]


@each(TEXTS)
def test_chunks_are_the_text_and_bounded(text):
    pieces = cut_chunks(text)
    assert "".join(pieces) == text
    assert all(len(piece) <= CHUNK + LONGEST + 2 for piece in pieces)


def test_chunks_change_no_token_of_ordinary_text():
    text = "The quick brown fox jumps over it, 12 times. Then:\n\n  def f(x):\n    return 'ok'\n" * 400
    assert len(cut_chunks(text)) > 1
    assert tokens_of(text) == load_encoding().encode_ordinary(text)


def test_a_million_spaces_do_not_crash():
    assert Counter().count(b" " * 1_000_000) > 0


@each(TEXTS)
def test_a_count_is_the_number_of_tokens(text):
    assert Counter().count(text.encode()) == len(tokens_of(text))


def test_bytes_that_are_no_text_can_be_counted():
    assert Counter().count(b"\xff\xfe abc") > 0


@crossed("number, share", range(1, len(TEXTS)), [0.0, 0.3, 0.55, 0.97, 1.0])
def test_common_tokens_equal_a_plain_comparison(number, share):
    text = TEXTS[number]
    place = int(len(text) * share)
    other = text[:place] + "~" + text[place + 1 :]
    counter = Counter()
    assert counter.count_common(text.encode(), other.encode()) == brute(text, other)
    assert counter.count_common(other.encode(), text.encode()) == brute(text, other)


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_continued_text_shares_tokens_of_plain_comparison(text):
    for more in ("", "x", " x", "\n", " and more " * 600):
        counter = Counter()
        assert counter.count_common(text.encode(), (text + more).encode()) == brute(text, text + more)


def test_each_distinct_text_is_tokenised_once():
    counter = Counter()
    for _ in range(3):
        for text in TEXTS:
            counter.count(text.encode())
    assert counter.tokenised == sum(len(cut_chunks(text)) for text in TEXTS)


def test_common_prefix_needs_chunks_around_the_cut():
    text = "The quick brown fox. " * 3000
    other = text[:40_000] + "~" + text[40_001:]
    counter = Counter()
    counter.count(text.encode())
    before = counter.tokenised
    counter.count_common(text.encode(), other.encode())
    assert counter.tokenised - before <= 2
