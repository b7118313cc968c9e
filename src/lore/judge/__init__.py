"""Check: comparisons to findings. Rules and budgets.

The package can be called: `lore.judge(file)` calls `lore.run.results.judge`. An imported subpackage replaces any
attribute of the same name in its package, so `lore` cannot have a function `judge` as well.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.judge.base import TurnVerdict as TurnVerdict
    from lore.judge.prices import sum_ints as sum_ints, date_of as date_of
    from lore.judge.totals import FileResult as FileResult

__getattr__ = public_names(__name__)


class _Room(ModuleType):
    def __call__(self, *args: Any, **options: Any) -> Any:
        """Judge a file; see `lore.run.results.judge`."""
        return import_module("lore.run.results").judge(*args, **options)

    def __reduce__(self) -> tuple[object, ...]:
        return import_module, (__name__,)


import_module(__name__).__class__ = _Room
