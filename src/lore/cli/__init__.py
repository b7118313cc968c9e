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
    from lore.cli.common import INTERRUPTED as INTERRUPTED
    from lore.cli.common import answer as answer
    from lore.cli.common import can_ask as can_ask
    from lore.cli.common import confirmed as confirmed
    from lore.cli.common import dated_rules as dated_rules
    from lore.cli.common import found_settings as found_settings
    from lore.cli.common import log as log
    from lore.cli.common import quiet_pipe as quiet_pipe
    from lore.cli.common import tell as tell
    from lore.cli.common import unquoted as unquoted
    from lore.cli.common import writing as writing
    from lore.cli.flags import AsJson as AsJson
    from lore.cli.flags import Colour as Colour
    from lore.cli.flags import Config as Config
    from lore.cli.flags import Format as Format
    from lore.cli.flags import Open as Open
    from lore.cli.flags import Page as Page
    from lore.cli.flags import Redact as Redact
    from lore.cli.flags import Verbose as Verbose
    from lore.cli.pages import PageTarget as PageTarget
    from lore.cli.pages import page_target as page_target
    from lore.cli.pages import write_pages as write_pages

__all__ = [
    "ABOUT",
    "AsJson",
    "BUILD",
    "Colour",
    "CommandRow",
    "Config",
    "Format",
    "INTERRUPTED",
    "JUDGE",
    "KEEP",
    "LOOK",
    "Open",
    "Page",
    "PageTarget",
    "Redact",
    "Verbose",
    "answer",
    "can_ask",
    "confirmed",
    "dated_rules",
    "found_settings",
    "log",
    "page_target",
    "quiet_pipe",
    "tell",
    "unquoted",
    "write_pages",
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
            "INTERRUPTED",
            "answer",
            "can_ask",
            "confirmed",
            "dated_rules",
            "found_settings",
            "log",
            "quiet_pipe",
            "tell",
            "unquoted",
            "writing",
        ),
        "flags": (
            "AsJson",
            "Colour",
            "Config",
            "Format",
            "Open",
            "Page",
            "Redact",
            "Verbose",
        ),
        "pages": (
            "PageTarget",
            "page_target",
            "write_pages",
        ),
    },
)
