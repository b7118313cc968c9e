"""Values only: what the other rooms hand to one another."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.model import events as events
    from lore.model import lenient as lenient
    from lore.model.canonical import decode as decode
    from lore.model.canonical import encode as encode
    from lore.model.canonical import printable as printable
    from lore.model.canonical import text_of as text_of
    from lore.model.cause import Place as Place
    from lore.model.codes import CODES as CODES
    from lore.model.codes import Code as Code
    from lore.model.codes import Problem as Problem
    from lore.model.events import MAIN as MAIN
    from lore.model.events import Event as Event
    from lore.model.events import Knowledge as Knowledge
    from lore.model.events import SessionStarted as SessionStarted
    from lore.model.events import Usage as Usage
    from lore.model.inserts import normalised as normalised
    from lore.model.items import NULL as NULL
    from lore.model.items import AssistantMessage as AssistantMessage
    from lore.model.items import Block as Block
    from lore.model.items import CompactDivider as CompactDivider
    from lore.model.items import Item as Item
    from lore.model.items import OpaqueItem as OpaqueItem
    from lore.model.items import RawBlock as RawBlock
    from lore.model.items import Status as Status
    from lore.model.items import TextBlock as TextBlock
    from lore.model.items import ThinkingBlock as ThinkingBlock
    from lore.model.items import ToolCall as ToolCall
    from lore.model.items import UserMessage as UserMessage
    from lore.model.items import is_absent as is_absent
    from lore.model.jsonslice import array as array
    from lore.model.jsonslice import element_ranges as element_ranges
    from lore.model.jsonslice import is_json as is_json
    from lore.model.jsonslice import members as members
    from lore.model.jsonslice import parts as parts
    from lore.model.jsonslice import table as table
    from lore.model.jsonslice import without_member as without_member
    from lore.model.ledger import LedgerRow as LedgerRow
    from lore.model.limits import RECORD_BYTES as RECORD_BYTES
    from lore.model.mask import cut_masked as cut_masked
    from lore.model.mask import mask_credentials as mask_credentials
    from lore.model.providers import ENGINES as ENGINES
    from lore.model.providers import LLAMA_CPP as LLAMA_CPP
    from lore.model.providers import UNKNOWN as UNKNOWN
    from lore.model.providers import provider_of as provider_of
    from lore.model.results import CommandResult as CommandResult
    from lore.model.results import Count as Count
    from lore.model.results import Finding as Finding
    from lore.model.results import copy_fields as copy_fields
    from lore.model.results.measured import EXTERNAL as EXTERNAL
    from lore.model.results.measured import PROCESS as PROCESS
    from lore.model.results.measured import Extent as Extent
    from lore.model.results.measured import LogClock as LogClock
    from lore.model.results.measured import MeasuredLog as MeasuredLog
    from lore.model.results.measured import MeasuredResult as MeasuredResult
    from lore.model.results.measured import MeasuredRow as MeasuredRow
    from lore.model.results.measured import Measurement as Measurement
    from lore.model.results.simulate import SimulatedTurn as SimulatedTurn
    from lore.model.results.simulate import SimulateResult as SimulateResult
    from lore.model.results.store import StoreResult as StoreResult
    from lore.model.running import LastBreak as LastBreak
    from lore.model.state import UTILITY as UTILITY
    from lore.model.state import Entry as Entry
    from lore.model.state import FoldedSession as FoldedSession
    from lore.model.state import Sign as Sign
    from lore.model.times import decode_time as decode_time
    from lore.model.times import format_timestamp as format_timestamp
    from lore.model.times import parse_http_date as parse_http_date
    from lore.model.times import parse_timestamp as parse_timestamp
    from lore.model.turn import Exchange as Exchange
    from lore.model.turn import Prompt as Prompt
    from lore.model.turn import Segment as Segment
    from lore.model.turn import Turn as Turn
    from lore.model.vector import Vector as Vector
    from lore.model.vector import common_prefix as common_prefix

__all__ = [
    "AssistantMessage",
    "Usage",
    "Block",
    "CODES",
    "Code",
    "CommandResult",
    "CompactDivider",
    "Count",
    "ENGINES",
    "EXTERNAL",
    "Entry",
    "Event",
    "Exchange",
    "Extent",
    "Finding",
    "FoldedSession",
    "Item",
    "Knowledge",
    "LLAMA_CPP",
    "LastBreak",
    "LedgerRow",
    "LogClock",
    "MAIN",
    "MeasuredLog",
    "MeasuredResult",
    "MeasuredRow",
    "Measurement",
    "NULL",
    "OpaqueItem",
    "PROCESS",
    "Place",
    "Problem",
    "Prompt",
    "RECORD_BYTES",
    "RawBlock",
    "Segment",
    "SessionStarted",
    "Sign",
    "SimulateResult",
    "SimulatedTurn",
    "Status",
    "StoreResult",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "Turn",
    "UNKNOWN",
    "UTILITY",
    "UserMessage",
    "Vector",
    "array",
    "common_prefix",
    "cut_masked",
    "decode",
    "element_ranges",
    "encode",
    "events",
    "copy_fields",
    "parse_http_date",
    "is_absent",
    "is_json",
    "lenient",
    "mask_credentials",
    "members",
    "normalised",
    "parts",
    "printable",
    "provider_of",
    "parse_timestamp",
    "decode_time",
    "table",
    "text_of",
    "format_timestamp",
    "without_member",
]
__getattr__ = public_names(
    __name__,
    {
        "canonical": (
            "decode",
            "encode",
            "printable",
            "text_of",
        ),
        "cause": ("Place",),
        "codes": (
            "CODES",
            "Code",
            "Problem",
        ),
        "events": (
            "Usage",
            "Event",
            "Knowledge",
            "MAIN",
            "SessionStarted",
        ),
        "inserts": ("normalised",),
        "items": (
            "AssistantMessage",
            "Block",
            "CompactDivider",
            "Item",
            "NULL",
            "OpaqueItem",
            "RawBlock",
            "Status",
            "TextBlock",
            "ThinkingBlock",
            "ToolCall",
            "UserMessage",
            "is_absent",
        ),
        "jsonslice": (
            "array",
            "element_ranges",
            "is_json",
            "members",
            "parts",
            "table",
            "without_member",
        ),
        "ledger": ("LedgerRow",),
        "limits": ("RECORD_BYTES",),
        "mask": (
            "cut_masked",
            "mask_credentials",
        ),
        "providers": (
            "ENGINES",
            "LLAMA_CPP",
            "UNKNOWN",
            "provider_of",
        ),
        "results": (
            "CommandResult",
            "Count",
            "Finding",
            "copy_fields",
        ),
        "results.measured": (
            "EXTERNAL",
            "Extent",
            "LogClock",
            "MeasuredLog",
            "MeasuredResult",
            "MeasuredRow",
            "Measurement",
            "PROCESS",
        ),
        "results.simulate": (
            "SimulateResult",
            "SimulatedTurn",
        ),
        "results.store": ("StoreResult",),
        "running": ("LastBreak",),
        "state": (
            "Entry",
            "FoldedSession",
            "Sign",
            "UTILITY",
        ),
        "times": (
            "decode_time",
            "format_timestamp",
            "parse_http_date",
            "parse_timestamp",
        ),
        "turn": (
            "Exchange",
            "Prompt",
            "Segment",
            "Turn",
        ),
        "vector": (
            "Vector",
            "common_prefix",
        ),
    },
    {"events": "events", "lenient": "lenient"},
)
