"""Generated sequences of requests: chains that continue, rewind, fork, share beginnings, pause."""

from hypothesis import strategies as st

from cache.asking import piece
from lore.cache.base import Breakpoint, Request

NAMES = st.sampled_from("abcd")
SIZES = st.sampled_from((1, 7, 16, 40, 300))


@st.composite
def sequences(draw) -> list[Request]:
    """Requests of up to three chains with exact sizes, every clock running forwards."""
    texts: dict[str, list] = {}
    at, requests = 0.0, []
    for _ in range(draw(st.integers(1, 14))):
        chain = draw(st.sampled_from("123"))
        before = texts.get(chain, [])
        same = draw(st.integers(0, len(before))) if draw(st.booleans()) else len(before)
        more = [piece(name, size) for name, size in draw(st.lists(st.tuples(NAMES, SIZES), min_size=0, max_size=4))]
        texts[chain] = [*before[:same], *more]
        at += draw(st.sampled_from((0.0, 1.0, 100.0, 400.0, 4000.0)))
        places = draw(st.lists(st.integers(0, max(0, len(texts[chain]) - 1)), max_size=3, unique=True))
        requests.append(
            Request(
                chain, texts[chain], same if draw(st.booleans()) else 0,
                breakpoints=tuple(Breakpoint(place) for place in sorted(places)) if texts[chain] else (),
                at=at, answered=at + draw(st.sampled_from((0.0, 3.0))),
            )
        )  # fmt: skip
    return requests


@st.composite
def growing(draw) -> list[Request]:
    """One append-only chain, a breakpoint at its end."""
    text, at, requests = [], 0.0, []
    for _ in range(draw(st.integers(1, 10))):
        same = len(text)
        more = draw(st.lists(st.tuples(NAMES, SIZES), min_size=1, max_size=3))
        text = [*text, *(piece(f"{name}{same}", size) for name, size in more)]
        at += draw(st.sampled_from((10.0, 290.0, 310.0, 3000.0, 4000.0)))
        requests.append(Request("main", text, same, breakpoints=(Breakpoint(len(text) - 1),), at=at, answered=at + 1))
    return requests
