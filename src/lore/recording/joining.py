"""Request bodies in files of their own: several that are named are read as one recording.

So two files give the same answer as the same two requests in one file.
"""

from __future__ import annotations

import msgspec

from lore.errors import LoreError
from lore.formats.contents import recorded_body
from lore.recording import corpus, filesystem, packed
from lore.recording.base import Problems, Recording
from lore.recording.inputs import Input
from lore.recording.opening import Options, kind_of


def join_bodies(files: list[Input], format: str | None) -> list[Input]:
    """Return the files, with those that were named and are one request body each joined to one input."""
    bodies = [file for file in files if file.named and not file.stream and _is_body(file.path, format)]
    if len(bodies) < 2:  # noqa: PLR2004 - there is nothing to join
        return files
    paths = tuple(file.path for file in bodies)
    joined = bodies[0]._replace(path="", size=sum(file.size for file in bodies), together=paths)
    return [joined if file is bodies[0] else file for file in files if file is bodies[0] or file not in bodies]


def _is_body(path: str, format: str | None) -> bool:
    if not path.endswith(".json") or filesystem.is_remote(path):
        return False
    try:
        head = corpus.open_head(path).head
    except LoreError:
        return False
    kind = kind_of(head, format)
    return kind is not None and kind.name == "bodies" and recorded_body(head.strip()) is not None


def open_input(file: Input, options: Options, problems: Problems) -> Recording:
    """Open an input, of several files if they are joined; raises LoreError as `Options.open` does."""
    if not file.together:
        return options.open(file.path, problems)
    opened = corpus.Opened(packed.BODIES_OPENING, packed.bodies_stream(file.together))
    return msgspec.structs.replace(options, format=None).open("", problems, opened=opened, growing=False)
