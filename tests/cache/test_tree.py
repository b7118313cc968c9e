"""Prefixes in a tree: equal prefixes are equal nodes in every chain."""

from __future__ import annotations

from os.path import commonprefix

from hypothesis import given
from hypothesis import strategies as st

from cache.asking import piece, pieces, request
from cache.sessions import sequences
from lore.cache.base import Piece, Request
from lore.cache.tree import PrefixTree, common_nodes, key_of


def nodes(tree: PrefixTree, asked: Request) -> list[int]:
    return list(tree.path(asked).nodes)


def test_spaces_never_meet():
    tree = PrefixTree()
    assert not set(nodes(tree, request("ab"))) & set(nodes(tree, request("ab", space=b"x")))


def test_salt_changes_its_section_and_the_following():
    tree = PrefixTree()
    text = [piece("t", section="tools"), piece("s", section="system"), piece("m")]
    one, other = (nodes(tree, request(text, salts=(("system", salt),))) for salt in (b"1", b"2"))
    assert one[0] == other[0]
    assert not set(one[1:]) & set(other[1:])


def test_moved_salt_changes_nodes_of_equal_pieces():
    tree = PrefixTree()
    text = [piece("s", section="system"), piece("m")]
    one = nodes(tree, request(text))
    assert nodes(tree, request(text, same=2, salts=(("messages", b"x"),)))[1] != one[1]


def test_path_reports_first_new_piece_and_common_bytes():
    tree = PrefixTree()
    tree.path(request([piece("a"), Piece(b"x" * 100 + b"1", "messages")]))
    tree.path(request([piece("a"), Piece(b"x" * 60 + b"2", "messages")]))
    path = tree.path(request([piece("a"), Piece(b"x" * 80 + b"3", "messages")]))
    assert (path.new, path.alike) == (1, 80)
    assert path.like == nodes(tree, request([piece("a"), Piece(b"x" * 100 + b"1", "messages")]))[1]
    assert tree.path(request("zz", chain="new"))[1:3] == (0, 0)


def test_path_reports_removed_nodes():
    tree = PrefixTree()
    before = nodes(tree, request("abc"))
    path = tree.path(request("abX", same=2))
    assert (path.kept, list(path.cut)) == (2, before[2:])


def test_a_negative_count_of_kept_pieces_keeps_none():
    tree = PrefixTree()
    one = nodes(tree, request("abcd"))
    assert nodes(tree, request("abcd", same=-2)) == one


def test_output_leads_to_nodes_of_the_next_request():
    tree = PrefixTree()
    asked = request("ab", output=pieces("cd"))
    tree.path(asked)
    behind = tree.generated(asked).nodes
    assert nodes(tree, request("abcde"))[2:4] == behind


def test_longest_common_beginning_is_found_among_many():
    """Only the latest 256 pieces of a position were compared, so an older common beginning was missed."""
    tree, seen = PrefixTree(), []
    for number in range(700):
        data = (b"%d" % (number * 7919 % 1_009)) * 40
        path = tree.path(request([Piece(data, "messages")], chain=f"c{number}"))
        if number % 50 == 49:
            assert path.alike == max(len(commonprefix([data, other])) for other in seen)
        seen.append(data)
    oldest = tree.path(request([Piece(seen[0] + b"more", "messages")], chain="again"))
    assert (oldest.alike, oldest.like) == (
        len(seen[0]),
        nodes(tree, request([Piece(seen[0], "messages")], chain="c0"))[0],
    )


def test_pieces_without_kept_bytes_have_no_common_beginning():
    tree = PrefixTree(kept=400 * 100)
    texts = [b"%04d" % number * 25 for number in range(700)]
    for number, data in enumerate(texts):
        tree.path(request([Piece(data, "messages")], chain=f"c{number}"))
    found = [tree.path(request([Piece(texts[at] + b"-", "messages")], chain=f"d{at}")).alike for at in (100, 320, 699)]
    assert found == [1, 100, 100]


@given(sequences())
def test_nodes_are_equal_for_equal_prefixes(asked):
    tree, seen = PrefixTree(), {}
    for one in asked:
        path = tree.path(one)
        for place, node in enumerate(path.nodes):
            leading = tuple(key_of(each) for each in one.pieces[: place + 1])
            assert seen.setdefault(node, leading) == leading
        assert len({*path.nodes}) == len(one.pieces)
    assert len(set(seen.values())) == len(seen)


@given(sequences())
def test_new_nodes_are_greater_than_all_earlier(asked):
    tree = PrefixTree()
    for one in asked:
        before = tree.size
        path = tree.path(one)
        assert path.nodes == sorted(path.nodes)
        assert all((node > before) == (place >= path.new) for place, node in enumerate(path.nodes))


@given(
    st.lists(st.integers(1, 9), max_size=12),
    st.lists(st.integers(10, 19), max_size=4),
    st.lists(st.integers(20, 29), max_size=4),
)
def test_common_nodes_are_counted_as_one_by_one(shared, mine, theirs):
    assert common_nodes([*shared, *mine], [*shared, *theirs]) == len(shared)
