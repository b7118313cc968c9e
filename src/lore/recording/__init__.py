"""Names to files, files to turns: finding recordings, opening them, reading them as turns."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.recording.base import HINT_MEASURED as HINT_MEASURED, Problems as Problems, Recording as Recording
    from lore.recording.base import UnrecognisedError as UnrecognisedError, load_plugins as load_plugins
    from lore.recording.corpus import Opened as Opened, is_same as is_same, is_stream as is_stream
    from lore.recording.corpus import check_followable as check_followable, open_head as open_head, show as show
    from lore.recording.filesystem import FolderEntry as FolderEntry, RemoteFiles as RemoteFiles, Status as Status
    from lore.recording.inputs import Input as Input, list_inputs as list_inputs
    from lore.recording.opening import Options as Options, reader_class_for as reader_class_for
    from lore.recording.request_session import session_of as session_of
    from lore.recording.requests import RequestRecording as RequestRecording

__getattr__ = public_names(__name__)
