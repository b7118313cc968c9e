"""Check: comparisons to findings. Rules and budgets.

Called, the room judges a file: `lore.judge(file)`, as the library names it, which is `lore.run.results.judge`. A module
that is imported takes its place in the package whatever was there, so a function of this name cannot stand beside it.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.judge.base import TurnVerdict as TurnVerdict, added as added, date_of as date_of
    from lore.judge.base import findings_of as findings_of
    from lore.judge.sums import RunningSums as RunningSums
    from lore.judge.totals import FileResult as FileResult

__getattr__ = public_names(__name__)


class _Room(ModuleType):
    def __call__(self, *args: Any, **named: Any) -> Any:
        """Judge a file; see `lore.run.results.judge`."""
        return import_module("lore.run.results").judge(*args, **named)

    def __reduce__(self) -> tuple[object, ...]:
        return import_module, (__name__,)


import_module(__name__).__class__ = _Room
