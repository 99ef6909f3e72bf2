"""One line per request, in the format of the other logs but at a tenth of their cost.

The general logging chain costs as much as answering a small request. This line has fixed fields, so it
is put together directly and goes through the same redaction. It holds no query string, no header and no
body; the path is as sent, percent-encoded, so that no caller can add a line of his own.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec

from core.log import redact


class AccessLog:
    """Writes to standard error.

    Args:
        log_format: ``text`` or ``json``, as all logs of the process.
        enabled: false writes nothing (a log level above INFO).
    """

    def __init__(self, log_format: str, *, enabled: bool) -> None:
        self._json = log_format == "json"
        self._enabled = enabled

    def write(self, *, method: str, path: str, status: int, seconds: float, client: str, request_id: str) -> None:
        """Notes one request that has ended; ``client`` is its address, empty when unknown."""
        if not self._enabled:
            return
        # The only parts that a caller chooses.
        path, request_id = redact(path), redact(request_id)
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        milliseconds = round(seconds * 1000, 2)
        if self._json:
            line = msgspec.json.encode(
                {
                    "event": "request",
                    "level": "info",
                    "logger": "http_gateway",
                    "timestamp": now,
                    "method": method,
                    "path": path,
                    "status": status,
                    "milliseconds": milliseconds,
                    "client": client,
                    "request_id": request_id,
                }
            ).decode()
        else:
            line = (
                f"{now} [info     ] request                        [http_gateway] method={method} path={path}"
                f" status={status} milliseconds={milliseconds} client={client} request_id={request_id}"
            )
        sys.stderr.write(line + "\n")
