"""The command line: words in, exit code out."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.cli.commands import ABOUT as ABOUT
    from lore.cli.commands import BUILD as BUILD
    from lore.cli.commands import JUDGE as JUDGE
    from lore.cli.commands import KEEP as KEEP
    from lore.cli.commands import LOOK as LOOK
    from lore.cli.commands import CommandRow as CommandRow

__all__ = ["ABOUT", "BUILD", "CommandRow", "JUDGE", "KEEP", "LOOK"]
__getattr__ = public_names(
    __name__, {"commands": ("ABOUT", "BUILD", "CommandRow", "JUDGE", "KEEP", "LOOK")}
)  # fmt: skip
