"""Data types that the other packages exchange."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.model import events as events, lenient as lenient
    from lore.model.canonical import decode as decode, encode as encode, printable as printable, text_of as text_of
    from lore.model.cause import Place as Place
    from lore.model.codes import CODES as CODES, Code as Code, Problem as Problem
    from lore.model.events import Event as Event, Knowledge as Knowledge, MAIN as MAIN, SessionStarted as SessionStarted
    from lore.model.events import REPLAY as REPLAY, RUN as RUN, Usage as Usage
    from lore.model.fact import format_money as format_money
    from lore.model.inserts import normal_form as normal_form
    from lore.model.items import AssistantMessage as AssistantMessage, Block as Block, CompactDivider as CompactDivider
    from lore.model.items import Item as Item, NULL as NULL, OpaqueItem as OpaqueItem, RawBlock as RawBlock
    from lore.model.items import Status as Status, TextBlock as TextBlock, ThinkingBlock as ThinkingBlock
    from lore.model.items import ToolCall as ToolCall, UserMessage as UserMessage, is_absent as is_absent
    from lore.model.items import text_in as text_in
    from lore.model.jsonslice import array as array, element_ranges as element_ranges, is_json as is_json
    from lore.model.jsonslice import member_ranges as member_ranges, members_at as members_at
    from lore.model.jsonslice import raw_members as raw_members
    from lore.model.jsonslice import sliced_members as sliced_members, without_member as without_member
    from lore.model.limits import RECORD_BYTES as RECORD_BYTES
    from lore.model.mask import cut_masked as cut_masked, mask_credentials as mask_credentials
    from lore.model.providers import ENGINES as ENGINES, LLAMA_CPP as LLAMA_CPP, UNKNOWN as UNKNOWN
    from lore.model.providers import provider_of as provider_of
    from lore.model.results import CommandResult as CommandResult, Count as Count, Finding as Finding
    from lore.model.results.measured import EXTERNAL as EXTERNAL, Extent as Extent, LogClock as LogClock
    from lore.model.results.measured import MeasuredLog as MeasuredLog, MeasuredResult as MeasuredResult
    from lore.model.results.measured import MeasuredRow as MeasuredRow, Measurement as Measurement, PROCESS as PROCESS
    from lore.model.results.simulate import SimulateResult as SimulateResult, SimulatedTurn as SimulatedTurn
    from lore.model.results.store import StoreResult as StoreResult
    from lore.model.state import Entry as Entry, FoldedSession as FoldedSession, Sign as Sign, UTILITY as UTILITY
    from lore.model.times import decode_time as decode_time, format_timestamp as format_timestamp
    from lore.model.times import parse_http_date as parse_http_date, parse_timestamp as parse_timestamp
    from lore.model.turn import Exchange as Exchange, Prompt as Prompt, Segment as Segment, Turn as Turn
    from lore.model.vector import Vector as Vector, common_prefix as common_prefix

__getattr__ = public_names(__name__)
