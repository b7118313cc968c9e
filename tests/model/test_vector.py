"""The persistent vector behaves as a tuple does, and older versions never change."""

import pytest

from helpers.each import each
from lore.model.vector import WIDTH, Vector, common_prefix, common_suffix

SIZES = [0, 1, WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH, 2 * WIDTH + 7]


@each(SIZES)
def test_vector_reads_like_a_list(size):
    vector, plain = Vector(range(size)), list(range(size))
    assert (list(vector), len(vector), vector.last()) == (plain, size, plain[-1] if plain else None)
    for place in (0, size // 2, size - 1, -1, -size) if size else ():
        assert vector[place] == plain[place]
    for start in (0, 1, WIDTH - 1, WIDTH, WIDTH + 3, 3 * WIDTH):
        assert list(vector.since(start)) == plain[start:]


@pytest.mark.parametrize("place", [-6, 5, WIDTH])
def test_vector_rejects_a_place_outside(place):
    vector = Vector(range(5))
    for look in (lambda: vector[place], lambda: vector.set(place, 0), lambda: list(vector.since(-1))):
        with pytest.raises(IndexError):
            look()


@each(SIZES)
def test_older_version_survives_every_change(size):
    base, plain = Vector(range(size)), list(range(size))
    assert list(base.append(-1)) == [*plain, -1]
    assert list(base.append(-2)) == [*plain, -2]
    for more in (0, 3, 2 * WIDTH):
        assert list(base.extend(range(more))) == [*plain, *range(more)]
    for place in (0, size // 2, size - 1) if size else ():
        assert list(base.set(place, -1)) == [*plain[:place], -1, *plain[place + 1 :]]
    for end in (0, 5, WIDTH, WIDTH + 2, 999):
        assert list(base.cut(end).append(-1)) == [*plain[:end], -1]
    assert list(base) == plain


@pytest.mark.parametrize("place", [0, WIDTH - 1, WIDTH, WIDTH + 4])
def test_common_ends_at_the_first_difference(place):
    base = Vector(range(WIDTH + 5))
    assert base.common(base.set(place, -1)) == place
    assert base.common(base.cut(place)) == place


def test_vectors_are_equal_by_values_and_length():
    assert Vector([1, 2]) == Vector([1, 2])
    assert Vector([1, 2]) != Vector([1, 2, 3])
    assert Vector([1]) != [1]


def test_common_prefix_equals_a_plain_count():
    base = bytes(range(256)) * 3
    for place in range(0, len(base), 7):
        other = base[:place] + bytes([base[place] ^ 1]) + base[place + 1 :]
        assert common_prefix(base, other) == place


def test_common_suffix_is_bounded_by_the_room():
    assert common_suffix("abcabc", "xbcabc", 6) == 5
    assert common_suffix("abcabc", "xbcabc", 3) == 3
    assert common_suffix(b"abc", b"abc", 0) == 0
