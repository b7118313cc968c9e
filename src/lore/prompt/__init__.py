"""Prompts: session state to prompt, and prompt to and from request body."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.prompt.base import POLICIES as POLICIES, Policy as Policy
    from lore.prompt.dialects import DIALECTS as DIALECTS
    from lore.prompt.dialects.messages import Body as Body
    from lore.prompt.layout import TICKS as TICKS, is_real as is_real

__getattr__ = public_names(__name__)
