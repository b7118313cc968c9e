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
    from lore.cli.common import dated_rules as dated_rules
    from lore.cli.common import found_settings as found_settings
    from lore.cli.common import quiet_pipe as quiet_pipe
    from lore.cli.common import tell as tell
    from lore.cli.common import writing as writing
    from lore.cli.flags import AsJson as AsJson
    from lore.cli.flags import Config as Config
    from lore.cli.flags import Verbose as Verbose

__all__ = [
    "ABOUT",
    "AsJson",
    "BUILD",
    "CommandRow",
    "Config",
    "JUDGE",
    "KEEP",
    "LOOK",
    "Verbose",
    "dated_rules",
    "found_settings",
    "quiet_pipe",
    "tell",
    "writing",
]
__getattr__ = public_names(
    __name__,
    {
        "commands": (
            "ABOUT",
            "BUILD",
            "CommandRow",
            "JUDGE",
            "KEEP",
            "LOOK",
        ),
        "common": (
            "dated_rules",
            "found_settings",
            "quiet_pipe",
            "tell",
            "writing",
        ),
        "flags": (
            "AsJson",
            "Config",
            "Verbose",
        ),
    },
)
