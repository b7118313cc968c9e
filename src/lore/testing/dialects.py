"""What every dialect must do."""

from __future__ import annotations

from typing import ClassVar

import msgspec
from msgspec import Raw

from lore.model.items import TextBlock, ToolCall
from lore.model.prompt import Prompt, Segment
from lore.model.vector import Vector
from lore.prompt.base import FEATURES, Dialect, Memo, Unit

_CALL = ToolCall("t", "c", "n", Raw(b"{}"), status="completed", output=Raw(b'"o"'))
_SAID = (
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
    assert [one.path for one in parsed] == [one.path for one in prompt]
    assert (parsed.model, parsed.breakpoints, parsed.breakpoint_values) == (
        prompt.model,
        prompt.breakpoints,
        prompt.breakpoint_values,
    )


class DialectContract:
    """What every dialect must do; `prompts` are prompts that it assembled or parsed."""

    dialect: ClassVar[Dialect]
    prompts: ClassVar[tuple[Prompt, ...]]

    def test_what_is_written_parses_to_the_same_segments(self) -> None:
        for prompt in self.prompts:
            _assert_read_back(self.dialect, prompt)

    def test_breakpoints_that_are_written_are_read_back(self) -> None:
        for prompt in self.prompts:
            made = self.dialect.breakpoint(prompt.model, "5m")
            stable = [*prompt.head, *prompt.messages]
            heads = 0 if made is not None and made.on_head else len(prompt.head)
            may = [n for n, one in enumerate(stable) if n >= heads and self.dialect.takes_breakpoint(one)]
            if made is None or not may:
                continue
            places = tuple(dict.fromkeys((may[0], may[len(may) // 2], may[-1])))
            values = (made.value,) * len(places)
            _assert_read_back(
                self.dialect, msgspec.structs.replace(prompt, breakpoints=places, breakpoint_values=values)
            )

    def test_what_is_said_later_changes_nothing_that_was_said_before(self) -> None:
        place, segments = self.dialect.first(()), tuple[Segment, ...]()
        for unit in _SAID:
            rendered = self.dialect.render(unit, place)
            place, segments = rendered.after, (*segments, *rendered.segments)
            _assert_read_back(self.dialect, Prompt(self.dialect.name, "reconstructed", messages=Vector(segments)))

    def test_it_answers_every_feature(self) -> None:
        assert set(self.dialect.capabilities) == set(FEATURES)
        assert all(one.answer for one in self.dialect.capabilities.values())

    def test_it_recognises_what_it_writes(self) -> None:
        for prompt in self.prompts:
            body = msgspec.json.decode(self.dialect.write(prompt), type=dict[str, msgspec.Raw])
            assert self.dialect.recognises({key: bytes(value) for key, value in body.items()})
