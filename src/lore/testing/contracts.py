"""The contract suites of readers, dialects and cache models."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import cycle, islice
from typing import Any, ClassVar, cast

import msgspec
from msgspec import Raw

from lore.cache.base import CONFIDENCES, Breakpoint, CacheModel, Piece, Prediction, Request, RuleLookup
from lore.cache.registry import CacheRow
from lore.formats.base import Read, Reader
from lore.formats.folders import OPENING
from lore.model.codes import Problem
from lore.model.events import Usage
from lore.model.items import TextBlock, ToolCall
from lore.model.turn import Memo, Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import FEATURES, Dialect, Unit


def everything(reader: Reader, data: bytes) -> list[Read]:
    """Return all that a reader finds in a file of these bytes."""
    return list(reader.read([data]))


class ReaderContract:
    """The contract of readers; `samples` are complete recordings of the format."""

    reader: ClassVar[type[Reader]]
    samples: ClassVar[tuple[bytes, ...]]

    def test_recognises_its_samples(self) -> None:
        for sample in self.samples:
            assert self.reader.recognises(sample)

    def test_any_cut_gives_the_same(self) -> None:
        for sample in self.samples:
            whole = _comparable(self.reader().read([sample]))
            for cut in range(0, len(sample) + 1, max(1, len(sample) // 40)):
                pieces = [sample[:cut], sample[cut:]]
                assert _comparable(self.reader().read(pieces)) == whole, cut

    def test_garbage_gives_problems_and_nothing_else(self) -> None:
        for junk in (b"", b"\x00\xff\n", b"{", b"[1,2]\n", b'{"a":', b"null\n\n", b'"\\ud800"\n', b"{}{}\n"):
            for read in everything(self.reader(), junk):
                assert read.line >= 1
                assert isinstance(read.value, Problem) or read.byte >= 0

    def test_wrong_types_hide_no_record_after_them(self) -> None:
        sample = max(self.samples, key=len)
        lines, last = sample.split(b"\n"), max(read.line for read in everything(self.reader(), sample))
        for number, line in enumerate(lines):
            for wrong in _with_wrong_values(line):
                reads = everything(self.reader(), b"\n".join([*lines[:number], wrong, *lines[number + 1 :]]))
                is_read = number + 1 >= last or self.reader.yields != "events" or sample.startswith(OPENING)
                assert is_read or max(read.line for read in reads) >= last, wrong
        for wrong in _with_wrong_values(sample) if len(lines) > 1 else ():  # a document over several lines
            everything(self.reader(), wrong)


_WRONG: tuple[Any, ...] = (None, -1, "x", [], {"a": {}}, True, 1e300, "\ud83d", {}, [[5]], 10**400)
_REPLACED = 250  # values of one JSON text


def _with_wrong_values(text: bytes) -> Iterator[bytes]:
    """Yield a JSON text as often as it has values, each time with another one replaced by one of a wrong type."""
    try:
        copies = _copies(json.loads(text.lstrip(b"\xef\xbb\xbf")), cycle(_WRONG))
    except ValueError:
        return
    yield from (json.dumps(copy).encode() for copy in islice(copies, _REPLACED))


def _copies(value: Any, wrong: Iterator[Any]) -> Iterator[Any]:
    yield next(wrong)
    if isinstance(value, dict):
        for key, inner in (members := cast("dict[str, Any]", value)).items():
            yield from ({**members, key: copy} for copy in _copies(inner, wrong))
    elif isinstance(value, list):
        for at, inner in enumerate(elements := cast("list[Any]", value)):
            yield from ([*elements[:at], copy, *elements[at + 1 :]] for copy in _copies(inner, wrong))


def _comparable(reads: Iterable[Read]) -> list[tuple[bytes, int, int]]:
    return [(msgspec.json.encode(read.value, enc_hook=list), read.line, read.byte) for read in reads]


_CALL = ToolCall("t", "c", "n", Raw(b"{}"), status="completed", output=Raw(b'"o"'))
_UNITS = (
    Unit("user", (TextBlock(Raw(b'"a"')),)),
    Unit("user", (TextBlock(Raw(b'"b"')),), joins=True),
    Unit("system", (TextBlock(Raw(b'"c"')),)),
    Unit("assistant", (TextBlock(Raw(b'"d"')),), (_CALL,)),
    Unit("results", (), (_CALL,)),
    Unit("user", (TextBlock(Raw(b'"e"')),), joins=True),
    Unit("user", (TextBlock(Raw(b'"f"')),)),
    Unit("assistant", (), (_CALL, _CALL)),
    Unit("results", (), (_CALL, _CALL)),
    Unit("assistant", (TextBlock(Raw(b'"g"')),)),
)


def _assert_read_back(dialect: Dialect, prompt: Prompt) -> None:
    parsed = dialect.parse(dialect.write(prompt), prompt.fidelity, Memo())
    assert list(parsed) == list(prompt)
    assert [segment.path for segment in parsed] == [segment.path for segment in prompt]
    for name in ("model", "breakpoints", "breakpoint_values"):
        assert getattr(parsed, name) == getattr(prompt, name)


class DialectContract:
    """The contract of dialects; `prompts` are prompts that the dialect assembled or parsed."""

    dialect: ClassVar[Dialect]
    prompts: ClassVar[tuple[Prompt, ...]]

    def test_written_prompts_parse_to_the_same_segments(self) -> None:
        for prompt in self.prompts:
            _assert_read_back(self.dialect, prompt)

    def test_written_breakpoints_are_read_back(self) -> None:
        for prompt in self.prompts:
            mark = self.dialect.breakpoint(prompt.model, "5m")
            stable = [*prompt.head, *prompt.messages]
            first = 0 if mark is not None and mark.on_tools else prompt.tool_count
            may = [n for n, segment in enumerate(stable) if n >= first and self.dialect.takes_breakpoint(segment)]
            if mark is None or not may:
                continue
            places = tuple(dict.fromkeys((may[0], may[len(may) // 2], may[-1])))
            marks = {"breakpoints": places, "breakpoint_values": (mark.value,) * len(places)}
            _assert_read_back(self.dialect, msgspec.structs.replace(prompt, **marks))

    def test_later_units_change_no_earlier_segment(self) -> None:
        place, segments = self.dialect.first(()), tuple[Segment, ...]()
        for unit in _UNITS:
            rendered = self.dialect.render(unit, place)
            place, segments = rendered.after, (*segments, *rendered.segments)
            _assert_read_back(self.dialect, Prompt(self.dialect.name, "reconstructed", messages=Vector(segments)))

    def test_every_feature_has_an_answer(self) -> None:
        assert set(self.dialect.capabilities) == set(FEATURES)
        assert all(capability.answer for capability in self.dialect.capabilities.values())

    def test_written_prompts_are_recognised(self) -> None:
        for prompt in self.prompts:
            body = msgspec.json.decode(self.dialect.write(prompt), type=dict[str, msgspec.Raw])
            assert self.dialect.recognises({key: bytes(value) for key, value in body.items()})


class CacheContract:
    """The contract of cache models; `cache` is the row of the model."""

    cache: ClassVar[CacheRow]

    def make(self) -> CacheModel:
        """Make the model without rules and with its default options."""
        find_no_rule: RuleLookup = lambda rule, model, at: None  # noqa: E731
        return self.cache.made(find_no_rule)

    def test_model_names_itself_and_its_options(self) -> None:
        assert self.cache.name
        assert self.cache.provider
        assert all(option.isidentifier() for option in self.cache.options)

    def test_parts_sum_to_the_prompt(self) -> None:
        model = self.make()
        for request in _REQUESTS:
            prediction = model.predict(request)
            model.learn(None)
            assert prediction.confidence in CONFIDENCES
            if prediction.read is None or prediction.write is None or prediction.uncached is None:
                continue
            assert min(prediction.read, prediction.write, prediction.uncached) >= 0
            assert prediction.total == sum(piece.tokens or 0 for piece in request.pieces)

    def test_new_prompts_read_nothing(self) -> None:
        assert not self.make().predict(_REQUESTS[0]).read
        model = self.make()
        for request in _REQUESTS[:3]:
            model.predict(request)
            model.learn(None)
        assert not model.predict(_REQUESTS[3]).read

    def test_own_usage_changes_no_prediction(self) -> None:
        predictions: list[Prediction] = []
        for bill in (None, Usage(uncached_tokens=1, read_tokens=2, write_tokens=3)):
            model = self.make()
            for request in _REQUESTS:
                predictions.append(model.predict(request))
                assert model.learn(None) == ""
            model.learn(bill)
        assert predictions[: len(_REQUESTS)] == predictions[len(_REQUESTS) :]

    def test_odd_requests_raise_no_error(self) -> None:
        model = self.make()
        nothing = Piece(b"", "messages")
        for request in (Request("c", []), Request("c", [nothing] * 3, 9, at=-1.0), Request("c", [nothing], -1)):
            assert model.predict(request).confidence in CONFIDENCES
            assert isinstance(model.learn(Usage()), str)


def _text(name: str) -> Piece:
    return Piece(name.encode() * 4096, "messages", tokens=4096)


_REQUESTS = (
    Request("main", [_text("a"), _text("b")], breakpoints=(Breakpoint(1),), at=0.0, answered=1.0),
    Request("main", [_text("a"), _text("b"), _text("c")], 2, breakpoints=(Breakpoint(2),), at=10.0, answered=11.0),
    Request("main", [_text("a"), _text("d")], 1, breakpoints=(Breakpoint(1),), at=5.0, answered=None),
    Request("other", [_text("e"), _text("b")], breakpoints=(Breakpoint(1),)),
    Request("other", [], space=b"another"),
)
