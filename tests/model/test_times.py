"""Times as recorders write them."""

import pytest

from helpers.each import each
from lore.model.times import decode_time, parse_http_date

SPELLED = [
    "1767000000", "1767000000000", "1767000000000000", "1767000000000000000", '"1767000000"', '"1767000000000"',
    "1767000000.0", "1767000000000.0", '"2025-12-29T09:20:00Z"', '"2025-12-29T10:20:00+01:00"', '"2025-12-29 09:20:00"',
    '"Mon, 29 Dec 2025 09:20:00 GMT"', "[1767000000,0]",
]  # fmt: skip


@each(SPELLED)
def test_time_is_decoded_from_every_spelling(raw):
    assert decode_time(raw.encode()) == 1767000000.0


@each(["", "null", "true", "-5", "0", "1e300", '"soon"', "[]", "[1,-1]", '"' + "9" * 99])
def test_other_values_are_not_times(raw):
    assert decode_time(raw.encode()) is None


@pytest.mark.parametrize("text", ["Mon, 31 Feb 2025 09:20:00 GMT", "29 Dec 2025", "Mon, 29 Foo 2025 09:20:00 GMT"])
def test_http_date_of_another_form_is_unknown(text):
    assert parse_http_date(text) is None
