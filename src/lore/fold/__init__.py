"""Fold: events to session state, one pure step at a time."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.fold.step import Folding as Folding

__getattr__ = public_names(__name__)
