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
    from lore.cli.common import branch as branch
    from lore.cli.common import can_ask as can_ask
    from lore.cli.common import confirmed as confirmed
    from lore.cli.common import dated_rules as dated_rules
    from lore.cli.common import destination as destination
    from lore.cli.common import found_settings as found_settings
    from lore.cli.common import log as log
    from lore.cli.common import quiet_pipe as quiet_pipe
    from lore.cli.common import refuse_unapproved as refuse_unapproved
    from lore.cli.common import settings_to_run as settings_to_run
    from lore.cli.common import tell as tell
    from lore.cli.common import unquoted as unquoted
    from lore.cli.common import writing as writing
    from lore.cli.flags import AsJson as AsJson
    from lore.cli.flags import Colour as Colour
    from lore.cli.flags import Config as Config
    from lore.cli.flags import Force as Force
    from lore.cli.flags import Format as Format
    from lore.cli.flags import Open as Open
    from lore.cli.flags import Output as Output
    from lore.cli.flags import Page as Page
    from lore.cli.flags import Redact as Redact
    from lore.cli.flags import SessionId as SessionId
    from lore.cli.flags import Url as Url
    from lore.cli.flags import Verbose as Verbose
    from lore.cli.pages import PageTarget as PageTarget
    from lore.cli.pages import page_target as page_target
    from lore.cli.pages import write_pages as write_pages
    from lore.cli.stored.store import opened as opened

__all__ = [
    "ABOUT",
    "AsJson",
    "BUILD",
    "Colour",
    "CommandRow",
    "Config",
    "Force",
    "Format",
    "INTERRUPTED",
    "JUDGE",
    "KEEP",
    "LOOK",
    "Open",
    "Output",
    "Page",
    "PageTarget",
    "Redact",
    "SessionId",
    "Url",
    "Verbose",
    "answer",
    "branch",
    "can_ask",
    "confirmed",
    "dated_rules",
    "destination",
    "found_settings",
    "log",
    "opened",
    "page_target",
    "quiet_pipe",
    "refuse_unapproved",
    "settings_to_run",
    "tell",
    "unquoted",
    "write_pages",
    "writing",
]
__getattr__ = public_names(
    __name__,
    {
        "commands": ("ABOUT", "BUILD", "CommandRow", "JUDGE", "KEEP", "LOOK"),
        "common": (
            "INTERRUPTED",
            "answer",
            "branch",
            "can_ask",
            "confirmed",
            "dated_rules",
            "destination",
            "found_settings",
            "log",
            "quiet_pipe",
            "refuse_unapproved",
            "settings_to_run",
            "tell",
            "unquoted",
            "writing",
        ),
        "flags": (
            "AsJson",
            "Colour",
            "Config",
            "Force",
            "Format",
            "Open",
            "Output",
            "Page",
            "Redact",
            "SessionId",
            "Url",
            "Verbose",
        ),
        "pages": ("PageTarget", "page_target", "write_pages"),
        "stored.store": ("opened",),
    },
)
