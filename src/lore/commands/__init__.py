"""The command line: words in, exit code out."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.commands.table import (
        ABOUT as ABOUT,
        BUILD as BUILD,
        CommandRow as CommandRow,
        JUDGE as JUDGE,
        KEEP as KEEP,
    )
    from lore.commands.table import LOOK as LOOK
    from lore.commands.common import INTERRUPTED as INTERRUPTED, answer as answer, branch as branch, can_ask as can_ask
    from lore.commands.common import confirmed as confirmed, dated_rules as dated_rules, destination as destination
    from lore.commands.common import found_settings as found_settings, log as log
    from lore.commands.common import (
        own_settings_folder as own_settings_folder,
        refuse_unapproved as refuse_unapproved,
        settings_to_run as settings_to_run,
        tell as tell,
    )
    from lore.commands.common import (
        chosen_inputs as chosen_inputs,
        takes as takes,
        unquoted as unquoted,
        writing as writing,
    )
    from lore.commands.flags import (
        AsJson as AsJson,
        Colour as Colour,
        Config as Config,
        Force as Force,
        Format as Format,
    )
    from lore.commands.flags import (
        Output as Output,
        Redact as Redact,
        SessionId as SessionId,
    )
    from lore.commands.flags import Url as Url, Verbose as Verbose
    from lore.commands.store import opened as opened

__getattr__ = public_names(
    __name__,
    {
        "table": "ABOUT BUILD CommandRow JUDGE KEEP LOOK",
        "common": (
            "INTERRUPTED answer branch can_ask chosen_inputs confirmed dated_rules destination found_settings log "
            "own_settings_folder refuse_unapproved settings_to_run takes tell unquoted writing"
        ),
        "flags": "AsJson Colour Config Force Format Output Redact SessionId Url Verbose",
        "store": "opened",
    },
)
