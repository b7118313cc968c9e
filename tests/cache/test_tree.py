"""Prefixes in a tree and their positions in tokens; turns as requests to caches."""

import json
from os.path import commonprefix

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cache.asking import piece, request, rules
from lore.cache.base import Piece, Request
from lore.cache.registry import make
from lore.cache.tree import MOST, RATES, PrefixTree, Ruler, estimated_positions
from lore.cache.views import VIEWS, Views
from model.making import body, parsed, turn


def nodes(tree: PrefixTree, request: Request) -> list[int]:
    return list(tree.path(request).nodes)


def test_salt_changes_its_section_and_the_following():
    tree = PrefixTree()
    text = [piece("t", section="tools"), piece("s", section="system"), piece("m")]
    first_path, second_path = (nodes(tree, request(text, salts=(("system", salt),))) for salt in (b"1", b"2"))
    assert first_path[0] == second_path[0]
    assert not set(first_path[1:]) & set(second_path[1:])


def test_path_reports_first_new_piece_and_common_bytes():
    tree = PrefixTree()
    tree.path(request([piece("a"), Piece(b"x" * 100 + b"1", "messages")]))
    tree.path(request([piece("a"), Piece(b"x" * 60 + b"2", "messages")]))
    path = tree.path(request([piece("a"), Piece(b"x" * 80 + b"3", "messages")]))
    assert (path.new, path.common_bytes) == (1, 80)
    assert path.similar_node == nodes(tree, request([piece("a"), Piece(b"x" * 100 + b"1", "messages")]))[1]
    new = tree.path(request("zz", chain="new"))
    assert (new.new, new.common_bytes) == (0, 0)


def test_a_negative_count_of_kept_pieces_keeps_none():
    tree = PrefixTree()
    path = nodes(tree, request("abcd"))
    assert nodes(tree, request("abcd", same=-2)) == path


def test_longest_common_beginning_is_found_among_many():
    """Only the latest 256 pieces of a position were compared, so an older common beginning was missed."""
    tree, earlier = PrefixTree(), []
    for number in range(700):
        data = (b"%d" % (number * 7919 % 1_009)) * 40
        path = tree.path(request([Piece(data, "messages")], chain=f"c{number}"))
        if number % 50 == 49:
            assert path.common_bytes == max(len(commonprefix([data, other])) for other in earlier)
        earlier.append(data)
    oldest = tree.path(request([Piece(earlier[0] + b"more", "messages")], chain="again"))
    assert (oldest.common_bytes, oldest.similar_node) == (
        len(earlier[0]),
        nodes(tree, request([Piece(earlier[0], "messages")], chain="c0"))[0],
    )


def test_pieces_without_kept_bytes_have_no_common_beginning():
    tree = PrefixTree(kept_bytes=400 * 100)
    texts = [b"%04d" % number * 25 for number in range(700)]
    for number, data in enumerate(texts):
        tree.path(request([Piece(data, "messages")], chain=f"c{number}"))
    common_sizes = [
        tree.path(request([Piece(texts[at] + b"-", "messages")], chain=f"d{at}")).common_bytes for at in (100, 320, 699)
    ]
    assert common_sizes == [1, 100, 100]


class Laid:
    """A ruler and the tree that it measures."""

    def __init__(self) -> None:
        self.tree, self.ruler = PrefixTree(), Ruler()

    def lay(self, text: list[Piece], chain: str = "main", model: str | None = None, same: int = 0) -> Ruler:
        path = self.tree.path(Request(chain, text, same))
        self.ruler.measure(chain, path, text, model)
        return self.ruler


def text(letters: str, size: int = 3600) -> list[Piece]:
    return [Piece(letter.encode() * size, "messages") for letter in letters]


def test_position_above_a_later_billed_one_is_refused():
    ruler = Laid().lay(text("abcd"))
    assert ruler.learn(3, 3_000) == ""
    assert "3,000 were billed up to a later place" in ruler.learn(1, 3_100)
    assert (ruler.learn(1, 1_500), ruler.position(1), ruler.position(3)) == ("", 1_500, 3_000)


def test_before_any_bill_bytes_are_measured_by_kind():
    ruler = Laid().lay([*text("a"), Piece(b"{" * 300, "tools"), Piece(b"!" * 9, "messages", "image"), piece("c", 7)])
    assert [ruler.position(place) for place in range(-1, 4)] == [0, 1000, 1100, 2600, 2607]


def test_billed_position_holds_for_other_chains():
    laid = Laid()
    laid.lay(text("ab")).learn(1, 2600)
    ruler = laid.lay(text("abc"), "other")
    assert (ruler.position(1), ruler.billed_at(1), ruler.billed_at(0)) == (2600, 2600, None)


def test_estimates_between_billed_positions_are_stretched():
    laid = Laid()
    laid.lay(text("ab")).learn(1, 3000)
    ruler = laid.lay(text("abcd"), same=2)
    assert ruler.learn(3, 5000) == ""
    assert [ruler.position(place) for place in range(4)] == [1500, 3000, 4000, 5000]


def test_usage_changes_only_its_models_rate():
    laid = Laid()
    laid.lay(text("a"), model="one").learn(0, 2000)
    assert laid.lay(text("x"), "2", "one").position(0) == round(1000 * 2**0.5)
    assert laid.lay(text("y"), "3", "two").position(0) == 1000


def test_impossible_usage_changes_no_rate():
    laid = Laid()
    ruler = laid.lay(text("ab"))
    before = [ruler.position(place) for place in range(2)]
    assert "61,838 tokens were billed where the body holds about 2,000" in ruler.learn(1, 61838)
    assert "10 tokens were billed" in ruler.learn(1, 10)
    assert [ruler.position(place) for place in range(2)] == before


def test_rates_stay_within_bounds():
    """Few bytes billed as 2,000 tokens, 400 times, made 3,600 bytes 2.4 million tokens."""
    laid = Laid()
    for number in range(400):
        laid.lay([Piece(b"%d" % number, "messages")], str(number)).learn(0, 2000)
    assert laid.lay(text("a"), "last").position(0) <= 3600 * RATES["text"] * MOST


@given(st.lists(st.tuples(st.integers(1, 5000), st.none() | st.integers(0, 400)), min_size=1, max_size=12), st.data())
def test_positions_never_fall_and_known_ones_are_met(sizes, data):
    laid = Laid()
    whole = [Piece(bytes([65 + n]) * size, "messages", tokens=tokens) for n, (size, tokens) in enumerate(sizes)]
    length, billed = 0, {}
    while length < len(whole):
        length = data.draw(st.integers(length + 1, len(whole)))
        ruler = laid.lay(whole[:length], same=length)
        total = data.draw(st.integers(0, 3000)) + max(billed.values(), default=0)
        if ruler.learn(length - 1, total) == "":
            billed[length - 1] = total
    positions = [ruler.position(place) for place in range(-1, len(whole))]
    assert positions == sorted(positions)
    assert all(positions[place + 1] == total for place, total in billed.items())


@pytest.mark.parametrize("place", [-1, -5])
def test_before_the_first_piece_nothing_is_learned(place):
    assert Laid().lay(text("a")).learn(place, 5) == ""


MARK = {"prompt_cache_breakpoint": {"mode": "explicit"}}


def of_openai(marked):
    """A Responses body of seven texts, some of them with a breakpoint."""
    texts = [{"type": "input_text", "text": f"{n}" * 9000, **(MARK if n in marked else {})} for n in range(7)]
    return parsed({"model": "gpt-5.6", "input": [{"role": "user", "content": texts}]}, "openai-responses")


def texts(data):
    return json.loads(data)["text"][0]


def test_automatic_breakpoint_is_on_the_last_markable_block():
    """Without it the request would read and write nothing."""
    blocks = [{"type": "text", "text": "a" * 400}, {"type": "thinking", "thinking": "…", "signature": "s"}]
    text, model = {"role": "assistant", "content": blocks}, make("anthropic", rules(lifetime=300, lookback=20))
    views = Views(VIEWS["anthropic"])
    first = views.of(turn(parsed(body("go", text, cache_control={"type": "ephemeral"}))))
    assert [first.pieces[at.place].data for at in first.breakpoints] == [b'"' + b"a" * 400 + b'"']
    assert model.predict(first).read == 0
    again = views.of(turn(parsed(body("go", text, "on", cache_control={"type": "ephemeral"})), 2))
    assert [again.pieces[at.place].data for at in again.breakpoints] == [b'"on"']
    assert model.predict(again).read > 100


def test_openai_counts_the_latest_three_explicit_breakpoints():
    request = Views(VIEWS["openai-breakpoint"]).of(turn(of_openai({0, 1, 2, 3})))
    marked = [texts(request.pieces[at.place].data) for at in request.breakpoints]
    assert marked == ["1", "2", "3", "6"]
    request = Views(VIEWS["openai-breakpoint"]).of(turn(of_openai({0})))
    assert [texts(request.pieces[at.place].data) for at in request.breakpoints] == ["0", "6"]


def test_estimated_positions_are_those_of_a_new_ruler():
    parts = [
        Piece(b"x" * 900, "tools"), Piece(b"y" * 401, "system"), Piece(b"z" * 77, "messages", "call"),
        Piece(b"i" * 5_000, "messages", "image"), Piece(b"c" * 30, "tools", counted=11),
        Piece(b"t" * 30, "messages", tokens=12), Piece(b"w" * 333, "messages", "result"),
    ]  # fmt: skip
    ruler, whole_request = Ruler(), request(parts)
    ruler.measure(whole_request.chain, PrefixTree().path(whole_request), whole_request.pieces, None)
    assert list(estimated_positions(parts)) == [ruler.position(place) for place in range(len(parts))]
