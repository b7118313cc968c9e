"""The persistent vector behaves as a tuple does, and older versions never change."""

from __future__ import annotations

import pytest

from lore.model.vector import WIDTH, Vector, common_prefix, common_suffix

SIZES = [0, 1, WIDTH - 1, WIDTH, WIDTH + 1, 2 * WIDTH, 2 * WIDTH + 7]


@pytest.mark.parametrize("size", SIZES)
def test_a_vector_holds_what_a_list_holds(size):
    made = Vector(range(size))
    assert list(made) == list(range(size))
    assert len(made) == size


@pytest.mark.parametrize("size", SIZES[1:])
def test_indexing_from_both_ends_gives_what_a_list_gives(size):
    made, plain = Vector(range(size)), list(range(size))
    for place in (0, size // 2, size - 1, -1, -size):
        assert made[place] == plain[place]


@pytest.mark.parametrize("place", [-1, 5, WIDTH])
def test_a_place_outside_is_an_error(place):
    made = Vector(range(5))
    for look in (lambda: made[place if place > 0 else -6], lambda: made.set(place, 0), lambda: list(made.since(-1))):
        with pytest.raises(IndexError):
            look()


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("start", [0, 1, WIDTH - 1, WIDTH, WIDTH + 3])
def test_iteration_can_start_anywhere(size, start):
    assert list(Vector(range(size)).since(start)) == list(range(size))[start:]


def test_two_branches_of_one_version_do_not_see_each_other():
    base = Vector([1, 2])
    left, right = base.append(3), base.append(4)
    assert (list(base), list(left), list(right)) == ([1, 2], [1, 2, 3], [1, 2, 4])


@pytest.mark.parametrize("place", [0, WIDTH - 1, WIDTH, WIDTH + 4])
def test_replacing_an_item_leaves_the_older_version_alone(place):
    base = Vector(range(WIDTH + 5))
    made = base.set(place, -1)
    assert made[place] == -1
    assert list(base) == list(range(WIDTH + 5))


def test_a_cut_branch_can_grow_without_harming_the_whole():
    base = Vector(range(WIDTH + 9))
    for size in (0, 5, WIDTH, WIDTH + 2, WIDTH + 9, 999):
        assert list(base.cut(size).append(-1)) == [*list(range(WIDTH + 9))[:size], -1]
    assert list(base) == list(range(WIDTH + 9))


@pytest.mark.parametrize("place", [0, WIDTH - 1, WIDTH, WIDTH + 4])
def test_the_common_prefix_ends_at_the_first_difference(place):
    base = Vector(range(WIDTH + 5))
    assert base.common(base.set(place, -1)) == place


def test_equality_looks_at_values_and_length():
    assert Vector([1, 2]) == Vector([1, 2])
    assert Vector([1, 2]) != Vector([1, 2, 3])
    assert Vector([1]) != [1]


def test_common_bytes_equal_a_plain_count_at_every_place():
    base = bytes(range(256)) * 3
    for place in range(0, len(base), 7):
        other = base[:place] + bytes([base[place] ^ 1]) + base[place + 1 :]
        assert common_prefix(base, other) == place


def test_the_common_end_is_no_longer_than_there_is_room():
    assert common_suffix("abcabc", "xbcabc", 6) == 5
    assert common_suffix("abcabc", "xbcabc", 3) == 3
    assert common_suffix(b"abc", b"abc", 0) == 0
