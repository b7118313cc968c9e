"""A small round of the soak of block reuse, and that its search is one."""

from __future__ import annotations

from soak.block_reuse import Blocks, Search, compared, drawn, in_pieces, leading, replayed


def test_blocks_are_read_again_as_a_search_through_everything_earlier_finds():
    asked, read, differing = compared(replayed([in_pieces(drawn(seed)) for seed in range(3)], 2_000))
    assert (asked, differing) == (2_000, 0)
    assert read > 10_000


def test_the_search_finds_what_comparing_with_each_earlier_request_finds():
    search = Search()
    earlier: list[list[Blocks]] = []
    for _, request in replayed([in_pieces(drawn(7))], 150):
        longest = max((sum(piece.size for piece in request[: leading(request, other)]) for other in earlier), default=0)
        assert search.read(request) == longest
        earlier.append(request)


def test_pieces_of_a_trace_hold_its_blocks_and_are_alike_where_those_are():
    trace = drawn(3)
    cut = in_pieces(trace)
    assert [sum(piece.size for piece in request) for request in cut] == [len(request) for request in trace]
    for left, right in zip(range(30), range(30, 60), strict=True):
        shared = cut[left][: leading(cut[left], cut[right])]
        assert sum(piece.size for piece in shared) == leading(trace[left], trace[right])
