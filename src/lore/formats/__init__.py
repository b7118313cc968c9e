"""Readers: bytes of a recorded session or capture -> events or exchanges, and problems."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.formats.base import Read as Read
    from lore.formats.base import Reader as Reader
    from lore.formats.base import Yields as Yields
    from lore.formats.beginning import BOM as BOM
    from lore.formats.beginning import SPACE as SPACE
    from lore.formats.beginning import array_at as array_at
    from lore.formats.bills import apart as apart
    from lore.formats.bills import billed_of as billed_of
    from lore.formats.bills import split as split
    from lore.formats.bounds import too_much as too_much
    from lore.formats.captures.lore_capture import LoreCapture as LoreCapture
    from lore.formats.contents import ContentError as ContentError
    from lore.formats.contents import object_of as object_of
    from lore.formats.contents import unpacked as unpacked
    from lore.formats.folders import PackMember as PackMember
    from lore.formats.folders import PackReader as PackReader
    from lore.formats.folders import in_file as in_file
    from lore.formats.http import FIELDS as FIELDS
    from lore.formats.http import account_of as account_of
    from lore.formats.http import call_of as call_of
    from lore.formats.http import is_body as is_body
    from lore.formats.kimi import content as kimi_content
    from lore.formats.lines import Line as Line
    from lore.formats.lines import Lines as Lines
    from lore.formats.lines import RecordReader as RecordReader
    from lore.formats.lines import TextReader as TextReader
    from lore.formats.lines import each as each
    from lore.formats.lines import fault as fault
    from lore.formats.lines import first_records as first_records
    from lore.formats.lines import placed as placed
    from lore.formats.lines import problem as problem
    from lore.formats.lore_log import LoreLog as LoreLog
    from lore.formats.pi import messages as pi_messages
    from lore.formats.registry import Format as Format
    from lore.formats.registry import lacks_of as lacks_of
    from lore.formats.transcripts import Emitting as Emitting
    from lore.formats.transcripts import TranscriptDocument as TranscriptDocument
    from lore.formats.transcripts import TranscriptLines as TranscriptLines
    from lore.formats.transcripts import TranscriptTurns as TranscriptTurns
    from lore.formats.values import FunctionCall as FunctionCall
    from lore.formats.values import Said as Said
    from lore.formats.values import blocks_in as blocks_in
    from lore.formats.values import called as called
    from lore.formats.values import image_at as image_at
    from lore.formats.values import opens as opens
    from lore.formats.values import output_of as output_of
    from lore.formats.values import result_of as result_of
    from lore.formats.values import said_in as said_in
    from lore.formats.values import stamp_at as stamp_at
    from lore.formats.values import stamp_of as stamp_of
    from lore.formats.values import text_in as text_in

__all__ = [
    "BOM",
    "ContentError",
    "Emitting",
    "FIELDS",
    "Format",
    "FunctionCall",
    "Line",
    "Lines",
    "LoreCapture",
    "LoreLog",
    "PackMember",
    "PackReader",
    "Read",
    "Reader",
    "RecordReader",
    "SPACE",
    "Said",
    "TextReader",
    "TranscriptDocument",
    "TranscriptLines",
    "TranscriptTurns",
    "Yields",
    "account_of",
    "apart",
    "array_at",
    "billed_of",
    "blocks_in",
    "call_of",
    "called",
    "each",
    "fault",
    "first_records",
    "image_at",
    "in_file",
    "is_body",
    "kimi_content",
    "lacks_of",
    "object_of",
    "opens",
    "output_of",
    "pi_messages",
    "placed",
    "problem",
    "result_of",
    "said_in",
    "split",
    "stamp_at",
    "stamp_of",
    "text_in",
    "too_much",
    "unpacked",
]
__getattr__ = public_names(
    __name__,
    {
        "base": (
            "Read",
            "Reader",
            "Yields",
        ),
        "beginning": (
            "BOM",
            "SPACE",
            "array_at",
        ),
        "bills": (
            "apart",
            "billed_of",
            "split",
        ),
        "bounds": ("too_much",),
        "captures.lore_capture": ("LoreCapture",),
        "contents": (
            "ContentError",
            "object_of",
            "unpacked",
        ),
        "folders": (
            "PackMember",
            "PackReader",
            "in_file",
        ),
        "http": (
            "FIELDS",
            "account_of",
            "call_of",
            "is_body",
        ),
        "lines": (
            "Line",
            "Lines",
            "RecordReader",
            "TextReader",
            "each",
            "fault",
            "first_records",
            "placed",
            "problem",
        ),
        "lore_log": ("LoreLog",),
        "registry": (
            "Format",
            "lacks_of",
        ),
        "transcripts": (
            "Emitting",
            "TranscriptDocument",
            "TranscriptLines",
            "TranscriptTurns",
        ),
        "values": (
            "FunctionCall",
            "Said",
            "blocks_in",
            "called",
            "image_at",
            "opens",
            "output_of",
            "result_of",
            "said_in",
            "stamp_at",
            "stamp_of",
            "text_in",
        ),
    },
    {"kimi_content": "kimi.content", "pi_messages": "pi.messages"},
)
