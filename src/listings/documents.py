"""Protobuf messages as the JSON documents that commands print: names and forms as in REST v1."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from listings.output import timestamp


def moment(value: Timestamp) -> datetime:
    """A protobuf time, in UTC."""
    return value.ToDatetime(tzinfo=UTC)


def document(message: Message) -> dict[str, Any]:
    """Every field by its name: times as RFC 3339, enum values as lower-case words, absent ones as null."""
    return {field.name: _value(message, field) for field in message.DESCRIPTOR.fields}


def _value(message: Message, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.is_repeated:
        return [_single(each, field) for each in value]
    if field.has_presence and not message.HasField(field.name):
        return None
    return _single(value, field)


def _single(value: Any, field: Any) -> Any:
    if isinstance(value, Timestamp):
        return timestamp(moment(value))
    if isinstance(value, Message):
        return document(value)
    if field.enum_type is not None:
        return word(field.enum_type.values_by_number[value].name, field.enum_type.name)
    return value


def word(name: str, enum: str) -> str | None:
    """``ENVIRONMENT_LIVE`` of enum ``Environment`` as ``live``; None for the unspecified one."""
    short = name.removeprefix(enum.upper() + "_").lower()
    return None if short == "unspecified" else short
