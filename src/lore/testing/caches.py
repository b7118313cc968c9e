"""What every cache model must do."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, cast

from lore.cache.base import CONFIDENCES, Breakpoint, CacheKind, CacheModel, Look, Piece, Prediction, Request
from lore.model.events import Billed


class CacheContract:
    """What every cache model must do; `cache` is its class."""

    cache: ClassVar[CacheKind]

    def make(self) -> CacheModel:
        """Make the model without any rule and with its own defaults."""
        return cast("Callable[[Look], CacheModel]", self.cache)(lambda rule, model, at: None)

    def test_it_says_what_it_is(self) -> None:
        assert self.cache.name
        assert self.cache.provider
        assert all(option.isidentifier() for option in self.cache.options)

    def test_the_parts_make_the_whole(self) -> None:
        model = self.make()
        for request in _ASKED:
            said = model.predict(request)
            model.learn(None)
            assert said.confidence in CONFIDENCES
            if said.read is None or said.write is None or said.uncached is None:
                continue
            assert min(said.read, said.write, said.uncached) >= 0
            assert said.total == sum(piece.tokens or 0 for piece in request.pieces)

    def test_nothing_is_read_that_nobody_asked_before(self) -> None:
        assert not self.make().predict(_ASKED[0]).read
        model = self.make()
        for request in _ASKED[:3]:
            model.predict(request)
            model.learn(None)
        assert not model.predict(_ASKED[3]).read

    def test_a_turns_own_bill_changes_nothing_in_its_prediction(self) -> None:
        said: list[Prediction] = []
        for bill in (None, Billed(uncached_tokens=1, read_tokens=2, write_tokens=3)):
            model = self.make()
            for request in _ASKED:
                said.append(model.predict(request))
                model.learn(None)
            model.learn(bill)
        assert said[: len(_ASKED)] == said[len(_ASKED) :]

    def test_no_bill_is_no_bill(self) -> None:
        model, other = self.make(), self.make()
        for request in _ASKED:
            assert model.predict(request) == other.predict(request)
            assert model.learn(None) == ""

    def test_nothing_in_a_request_raises(self) -> None:
        model = self.make()
        nothing = Piece(b"", "messages")
        for request in (Request("c", []), Request("c", [nothing] * 3, 9, at=-1.0), Request("c", [nothing], -1)):
            assert model.predict(request).confidence in CONFIDENCES
            assert isinstance(model.learn(Billed()), str)


def _text(name: str) -> Piece:
    return Piece(name.encode() * 4096, "messages", tokens=4096)


_ASKED = (
    Request("main", [_text("a"), _text("b")], breakpoints=(Breakpoint(1),), at=0.0, answered=1.0),
    Request("main", [_text("a"), _text("b"), _text("c")], 2, breakpoints=(Breakpoint(2),), at=10.0, answered=11.0),
    Request("main", [_text("a"), _text("d")], 1, breakpoints=(Breakpoint(1),), at=5.0, answered=None),
    Request("other", [_text("e"), _text("b")], breakpoints=(Breakpoint(1),)),
    Request("other", [], space=b"another"),
)
