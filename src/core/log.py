"""Structured logs: one event name and fields, for people or as JSON, with secrets cut out at every handler.

``configure`` is called once per process. Context (request id, key id, job id) is bound with
``structlog.contextvars.bind_contextvars`` and stands on every line of that task; the trace id, when it is traced, too.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

REDACTED = "[redacted]"

_SECRET_TEXT = re.compile(
    r"svc_(?:live|test)_[0-9A-Za-z]+"
    r"|APP_USR-[^\s\"'&,}]+|TG-[0-9A-Za-z][^\s\"'&,}]*"
    r"|(?i:bearer)\s+[^\s\"',}]+"
    r"|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
    r"|(?i:password|client_secret|refresh_token|access_token)['\"]?\s*[=:]\s*['\"]?[^\s&,'\"}]+"
)
_SECRET_NAMES = frozenset(
    {
        "secret",
        "password",
        "access_token",
        "refresh_token",
        "client_secret",
        "operator_token",
        "api_key",
        "x_api_key",
        "idempotency_key",
        "authorization",
        "database_url",
    }
)


def redact(text: str) -> str:
    """The text with everything that looks like a key, token or password replaced."""
    return _SECRET_TEXT.sub(REDACTED, text)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {key: REDACTED if str(key).lower() in _SECRET_NAMES else _clean(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(each) for each in value]
    return value


def _redact_event(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    for key, value in event.items():
        event[key] = REDACTED if key.lower() in _SECRET_NAMES else _clean(value)
    return event


class RedactingFormatter(structlog.stdlib.ProcessorFormatter):
    """The last gate: also what libraries log, tracebacks included, leaves without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """See logging.Formatter."""
        return redact(super().format(record))


def configure(*, log_format: str = "text", level: str = "INFO") -> None:
    """Send all logs of this process to standard error.

    Args:
        log_format: ``text`` or ``json``.
        level: of our own loggers; those of libraries stay at WARNING.
    """
    from core import tracing  # noqa: PLC0415 - tracing redacts by this module

    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        tracing.add_ids,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        _redact_event,
    ]
    structlog.configure(
        processors=[*shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelName(level)),
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
    renderer: Any = (
        structlog.processors.JSONRenderer()
        if log_format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=sys.stderr.isatty(), exception_formatter=structlog.dev.plain_traceback
        )
    )
    handler = logging.StreamHandler()
    handler.setFormatter(
        RedactingFormatter(
            foreign_pre_chain=shared, processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer]
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    for ours in ("core", "grpc_server", "http_gateway", "listings"):
        logging.getLogger(ours).setLevel(level)
