"""One reason why a prompt does not extend the one before it: a code at a place of the left prompt, and its evidence.

Out: values, and `mapped`, by which reports mask or redact the texts of evidence by what each of them holds. `Place`:
where findings are reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Literal, TypeAlias, TypeVar, cast, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from lore.model.codes import CODES, CauseKind, Code, Reader
from lore.model.evidence import Evidence, RuledOut
from lore.model.turn import Turn

# What is said of a cause besides its evidence: the bill read all that was sent before, or lost nothing; one body was
# stored otherwise by its recorder; another process, or this one after a long pause, went on with the session.
Qualifier: TypeAlias = Literal[
    "read-all-the-same",
    "nothing-lost",
    "stored-otherwise",
    "another-process",
    "after-a-pause",
    "within-a-block",
    "under-minimum",
    "contradicted",
    "outside-the-prefix",
]
E = TypeVar("E", bound=Struct)
FIELDS = ("content", "name", "path", "model", "own")
Strength: TypeAlias = Literal["certain", "strong", "weak"]

SPELLINGS = frozenset((Code.KEY_ORDER_CHANGED, Code.SERIALISATION_CHANGED, Code.CONTENT_SHAPE_CHANGED))
_HARMLESS = SPELLINGS | {
    Code.BILLING_HEADER_CHANGED,
    Code.GENERATION_SETTINGS_CHANGED,
    Code.TOOL_CHOICE_CHANGED,
    Code.REQUEST_FEATURES_CHANGED,
    Code.OUTPUT_SCHEMA_CHANGED,
}


_NOTHING_LOST = frozenset(("nothing-lost", "outside-the-prefix"))


class Cause(Struct, frozen=True):
    """A finding code, the section it is about, the evidence, and the segment where it begins.

    `override` is the kind where it is not the code's own: what is waste at one provider is harmless at another.
    `path` is the JSON path of what changed, where that is not the segment at `position`; `more` counts places of the
    same code behind the first, `skipped` differences of the same kind that were not looked at one by one. `strength`:
    `certain` from bytes, else how well the evidence explains a bill. `paused` are the seconds of `after-a-pause`.
    `also` is what else was seen, `ruled_out` what was looked at and is not so. `respelled`: the content is the same and
    JSON's own spelling is another, as whoever stored it may have written it. `differs`: one piece stands on both sides
    and says something else.
    """

    code: Code
    section: str | None
    evidence: Evidence
    position: int = 0
    override: CauseKind | None = None
    path: str = ""
    more: int = 0
    qualifiers: tuple[Qualifier, ...] = ()
    strength: Strength = "certain"
    also: tuple[Cause, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    skipped: int = 0
    paused: float | None = None
    respelled: bool = False
    differs: bool = False

    @property
    def kind(self) -> CauseKind:
        """The kind: the code's own, or what it is in this place."""
        return self.override or CODES[self.code].kind

    @property
    def harmless(self) -> bool:
        """Whether nothing that was to be cached is lost by it."""
        if self.override == "expected" and (self.code in _HARMLESS or not _NOTHING_LOST.isdisjoint(self.qualifiers)):
            return True
        return self.code == Code.CHANGE_AFTER_LAST_BREAKPOINT


def kind_of(annotation: object) -> str | None:
    """Return which of `FIELDS` the texts of an annotation are; None where it holds no text.

    Looks through unions, tuples and lists; raises TypeError for a text that does not say what it is.
    """
    metadata = getattr(annotation, "__metadata__", None)
    if metadata is not None:
        extra = next((note.extra for note in metadata if isinstance(note, Meta) and note.extra), None)
        if extra is not None and extra.get("field") in FIELDS:
            return cast("str", extra["field"])
    if annotation is str or annotation is bytes:
        raise TypeError("a text in evidence says whether it is content: see lore.model.differences")
    if str(getattr(annotation, "__origin__", "")) == "typing.Literal":
        return None
    found = {kind for arg in get_args(annotation) if arg is not Ellipsis and (kind := kind_of(arg)) is not None}
    if len(found) > 1:
        raise TypeError(f"a field holds {' and '.join(sorted(found))}: split it")
    return next(iter(found), None)


@cache  # a class is asked once for each finding
def texts_of(evidence: type[Struct]) -> dict[str, str]:
    """Return the fields of a struct that hold text, with what they hold."""
    hints = get_type_hints(evidence, include_extras=True)
    kinds = {name: kind_of(hints[name]) for name in evidence.__struct_fields__}
    return {name: kind for name, kind in kinds.items() if kind is not None}


def mapped(evidence: E, change: Mapping[str, Callable[[str], str]]) -> E:
    """Return evidence whose texts of each kind went through a function: `change` is kind -> function.

    Structs inside it (what another one wraps) are mapped likewise. A kind without a function stays.
    """
    texts = texts_of(type(evidence))
    made: dict[str, object] = {}
    for name in evidence.__struct_fields__:
        value = getattr(evidence, name)
        if isinstance(value, Struct):
            made[name] = mapped(value, change)
        elif isinstance(value, tuple) and value and isinstance(value[0], Struct):
            made[name] = tuple(mapped(inner, change) for inner in cast("tuple[Struct, ...]", value))
        elif (apply := change.get(texts.get(name, ""))) is not None and value is not None:
            made[name] = tuple(map(apply, cast("tuple[str, ...]", value))) if isinstance(value, tuple) else apply(value)
    return msgspec.structs.replace(evidence, **made) if made else evidence


class Place(Struct, frozen=True):
    """Where findings are reported: the argument as given joined with the path below it.

    `key` is the same place on every machine: relative to the project, its parts joined by `/`; empty: the path.
    `reader` is who reads them: the author of an agent, or its user.
    """

    path: str
    key: str = ""
    reader: Reader = "author"

    def of(self, turn: Turn) -> Place:
        """Return where a turn's findings are reported: in its own file, where the recording is a folder of files."""
        if not turn.file.startswith(self.path):
            return self
        below = turn.file[len(self.path) :]
        return Place(turn.file, (self.key or self.path) + below.replace("\\", "/"), self.reader)
