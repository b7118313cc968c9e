"""The command line: words in, exit code out."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.commands import common as common, flags as flags
    from lore.commands.convert import convert_recording as convert_recording
    from lore.commands.store import use_store as use_store
    from lore.commands.table import ABOUT as ABOUT, BUILD as BUILD, CommandRow as CommandRow
    from lore.commands.table import JUDGE as JUDGE, KEEP as KEEP, LOOK as LOOK

__getattr__ = public_names(__name__)
