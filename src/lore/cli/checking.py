"""What `lore check` makes of its options, at the edge: environment, clock, working directory, output."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lore.cli.common import tell

if TYPE_CHECKING:
    from rich.console import Console

    from lore.config import Loaded
    from lore.model.results import Checked
    from lore.run.check import CheckContext
    from lore.run.inputs import Input
    from lore.run.outlook import Expecting
    from lore.run.reporting import Target


def held_against(
    loaded: Loaded, *, explicit: bool, select: Sequence[str], ignore: Sequence[str], baseline: str | None, update: bool,
    redact: bool,
) -> CheckContext:  # fmt: skip
    """Put settings and options together: `--select` replaces what is set, `--ignore` adds to it.

    Paths in settings are relative to the file that was found, or to the working directory if it was named.
    """
    import msgspec

    from lore import corpus
    from lore.errors import LoreError
    from lore.judge.policy import Narrowed, Policy
    from lore.run.check import CheckContext
