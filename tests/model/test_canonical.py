"""The canonical encoder: one value, one spelling; strict, total."""

import pytest

from helpers.each import each
from lore.model.canonical import canonical, decode, encode, text_of

SAME = [
    (b'{"b":1,"a":2}', b'{ "a" : 2, "b" : 1 }'),
    (b'"\\u00e9"', '"é"'.encode()),
    (b'"a\\/b"', b'"a/b"'),
    (b"1.50", b"1.5"),
    (b"1e2", b"100.0"),
    (b'{"n":{"y":[1, 2],"x":null}}', b'{"n":{"x":null,"y":[1,2]}}'),
    (b'"\\ud83d\\ude00"', '"😀"'.encode()),
    (b'{"a":18446744073709551617,"b":1}', b'{"b":1,"a": 18446744073709551617}'),
]
DIFFERENT = [
    (b"1", b"1.0"),
    (b"1", b"true"),
    (b"0", b"false"),
    (b'"1"', b"1"),
    (b"null", b'""'),
    (b"[]", b"{}"),
    (b"18446744073709551617", b"18446744073709551618"),
    (b'"\\ud83d"', b'"\\ud83e"'),
    (b'"e\\u0301"', '"é"'.encode()),
    (b"[1e999,1234567890123456789]", b"[null,1234567890123456789]"),
    (b'[1e999,"\\ud83d"]', b'[null,"\\ud83d"]'),
]


@each("left, right", SAME)
def test_spellings_of_a_value_share_a_canonical_form(left, right):
    assert canonical(left) == canonical(right)


@each("left, right", DIFFERENT)
def test_different_values_have_different_canonical_forms(left, right):
    assert canonical(left) != canonical(right)


def test_canonical_form_is_stable():
    for text in [raw for pair in SAME for raw in pair]:
        assert canonical(canonical(text)) == canonical(text)


@each([b"", b"{", b"nope", b"NaN", b"[Infinity]", b"\xff", b"[" * 100_000])
def test_canonical_form_of_other_text_is_the_text(junk):
    assert canonical(junk) == junk


def test_nan_beside_a_lone_surrogate_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        decode(b'[NaN,"\\ud83d"]')


def test_encoding_keeps_the_order_of_keys():
    assert encode({"b": 1, "a": [True, None, 1.5]}) == b'{"b":1,"a":[true,null,1.5]}'


def test_encoding_keeps_long_integers_and_lone_surrogates():
    assert encode({"n": 2**70, "s": "a\ud83d", "t": (1, 2)}) == b'{"n":1180591620717411303424,"s":"a\\ud83d","t":[1,2]}'


def test_encoding_refuses_a_set():
    with pytest.raises(TypeError, match="set"):
        encode({1, 2})


@pytest.mark.parametrize(("raw", "text"), [
    (b'"a\\nb"', "a\nb"), (b'"\\ud83d"', "\ud83d"), (b"{}", "{}"), (b"[1", "[1"), (b"\xff", "\ufffd"),
])  # fmt: skip
def test_text_of_a_string_or_other_json(raw, text):
    assert text_of(raw) == text
