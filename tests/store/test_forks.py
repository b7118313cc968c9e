"""Which sessions go with one that is deleted."""

from lore.store.deltas import with_forks

PARENTS = {"root": None, "one": "root", "two": "root", "deep": "one", "other": "elsewhere"}


def test_a_session_without_forks_goes_alone():
    assert with_forks("two", PARENTS) == ("two",)
    assert with_forks("other", PARENTS) == ("other",)


def test_forks_go_before_what_they_were_forked_from():
    gone = with_forks("root", PARENTS)
    assert sorted(gone) == ["deep", "one", "root", "two"]
    assert gone.index("deep") < gone.index("one") < gone.index("root")


def test_a_ring_is_walked_once():
    assert sorted(with_forks("a", {"a": "c", "b": "a", "c": "b"})) == ["a", "b", "c"]
    assert with_forks("a", {"a": "a"}) == ("a",)


def test_a_long_line_of_forks_is_followed_to_its_end():
    parents = {str(number): str(number - 1) for number in range(1, 3000)}
    assert len(with_forks("0", parents)) == 3000


def test_the_order_is_the_same_whatever_the_order_of_the_table():
    assert with_forks("root", PARENTS) == with_forks("root", dict(reversed(PARENTS.items())))
