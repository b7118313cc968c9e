"""Values only: what the other rooms hand to one another."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    from lore.model import events as events
    from lore.model import lenient as lenient
    from lore.model.canonical import encode as encode
    from lore.model.canonical import printable as printable
    from lore.model.canonical import text_of as text_of
    from lore.model.cause import Place as Place
    from lore.model.codes import CODES as CODES
    from lore.model.codes import Code as Code
    from lore.model.codes import Problem as Problem
    from lore.model.items import NULL as NULL
    from lore.model.items import AssistantMessage as AssistantMessage
    from lore.model.items import Block as Block
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
    from lore.model.jsonslice import members as members
    from lore.model.jsonslice import table as table
    from lore.model.ledger import LedgerRow as LedgerRow
    from lore.model.limits import RECORD_BYTES as RECORD_BYTES
    from lore.model.mask import cut_masked as cut_masked
    from lore.model.mask import mask_credentials as mask_credentials
    from lore.model.results import CommandResult as CommandResult
    from lore.model.results import Count as Count
    from lore.model.results import Finding as Finding
    from lore.model.results import filled as filled
    from lore.model.running import LastBreak as LastBreak
    from lore.model.state import UTILITY as UTILITY
    from lore.model.state import Sign as Sign
    from lore.model.turn import Exchange as Exchange
    from lore.model.turn import timestamp as timestamp

__all__ = [
    "AssistantMessage",
    "Block",
    "CODES",
    "Code",
    "CommandResult",
    "Count",
    "Exchange",
    "Finding",
    "Item",
    "LastBreak",
    "LedgerRow",
    "NULL",
    "OpaqueItem",
    "Place",
    "Problem",
    "RECORD_BYTES",
    "RawBlock",
    "Sign",
    "Status",
    "TextBlock",
    "ThinkingBlock",
    "ToolCall",
    "UTILITY",
    "UserMessage",
    "array",
    "cut_masked",
    "element_ranges",
    "encode",
    "events",
    "filled",
    "is_absent",
    "lenient",
    "mask_credentials",
    "members",
    "printable",
    "table",
    "text_of",
    "timestamp",
]
__getattr__ = public_names(
    __name__,
    {
        "canonical": (
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
        "items": (
            "AssistantMessage",
            "Block",
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
            "members",
            "table",
        ),
        "ledger": ("LedgerRow",),
        "limits": ("RECORD_BYTES",),
        "mask": (
            "cut_masked",
            "mask_credentials",
        ),
        "results": (
            "CommandResult",
            "Count",
            "Finding",
            "filled",
        ),
        "running": ("LastBreak",),
        "state": (
            "Sign",
            "UTILITY",
        ),
        "turn": (
            "Exchange",
            "timestamp",
        ),
    },
    {"events": "events", "lenient": "lenient"},
)
