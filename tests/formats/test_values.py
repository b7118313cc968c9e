"""Times as agents write them."""

from helpers.each import each
from lore.formats.values import LATEST_MS, stamp_at


@each("value, stamp", [
    (1_775_635_200_123, "2026-04-08T08:00:00.123Z"),
    (1_775_635_200_123.9, "2026-04-08T08:00:00.123Z"),
    (1_775_635_200, "2026-04-08T08:00:00.000Z"),
    (1_775_635_200.123, "2026-04-08T08:00:00.123Z"),
    (26_411_002_972_155, "2806-12-06T21:42:52.155Z"),  # as seconds its last digit would be lost
    (LATEST_MS - 1, "2999-12-31T23:59:59.999Z"),
    (LATEST_MS, None),
    (0, None),
    (-1, None),
    (None, None),
    ("2026-04-08T08:00:00Z", "2026-04-08T08:00:00Z"),
    ("", None),
])  # fmt: skip
def test_time_is_seconds_milliseconds_or_text(value, stamp):
    assert stamp_at(value) == stamp
