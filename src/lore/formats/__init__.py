"""Readers: bytes of a recorded session or capture -> events or exchanges, and problems."""

from typing import TYPE_CHECKING

from lore.exports import public_names

if TYPE_CHECKING:
    # isort: off
    from lore.formats.base import Read as Read, Reader as Reader, Yields as Yields
    from lore.formats.beginning import BOM as BOM, SPACE as SPACE, array_at as array_at
    from lore.formats.bills import decode_usage as decode_usage, usage_with_cached_input as usage_with_cached_input
    from lore.formats.bills import usage_without_cached_input as usage_without_cached_input
    from lore.formats.lines import problem as problem, too_much as too_much
    from lore.formats.builder import DocumentReader as DocumentReader, LogReader as LogReader
    from lore.formats.builder import Message as Message, SessionBuilder as SessionBuilder
    from lore.formats.captures.lore_capture import LoreCapture as LoreCapture
    from lore.formats.contents import ContentError as ContentError, build_array as build_array, decompress as decompress
    from lore.formats.contents import object_of as object_of
    from lore.formats.folders import PackMember as PackMember, PackReader as PackReader, in_file as in_file
    from lore.formats.http import FIELDS as FIELDS, account_of as account_of, call_of as call_of, is_body as is_body
    from lore.formats.agents.gemini_stream import PrintedRun as PrintedRun
    from lore.formats.agents import kimi as kimi_content  # noqa: F401 # pyright: ignore[reportUnusedImport]
    from lore.formats.lines import Line as Line, LineCutter as LineCutter, RecordReader as RecordReader
    from lore.formats.lines import TextReader as TextReader
    from lore.formats.lines import (
        nonblank_lines as nonblank_lines,
        fault as fault,
        first_records as first_records,
        placed as placed,
    )
    from lore.formats.values import call_item as call_item, text_at as text_at, text_in as text_in
    from lore.formats.lore_log import LoreLog as LoreLog, event_of as event_of
    from lore.formats.agents import pi_records as pi_messages  # noqa: F401 # pyright: ignore[reportUnusedImport]
    from lore.formats.registry import Format as Format, lacks_of as lacks_of
    from lore.formats.values import FunctionCall as FunctionCall, MessageParts as MessageParts, blocks_in as blocks_in
    from lore.formats.values import image_at as image_at, opens as opens, output_of as output_of, result_of as result_of
    from lore.formats.values import split_content as split_content, stamp_at as stamp_at, stamp_of as stamp_of

__getattr__ = public_names(__name__)
