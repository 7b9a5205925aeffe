"""Logs on standard error: plain lines about failures, or a JSON object a line about every request. Never a text."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Literal

REQUESTS = logging.getLogger("qkv.requests")
"""Gets one record for each request; its fields are in `record.fields`."""


class JsonLogLines(logging.Formatter):
    """A record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        made = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        made |= getattr(record, "fields", {})
        if record.exc_info:
            # The message of an exception may quote a text; its type and place do not.
            kind = record.exc_info[0]
            made["exception"] = kind.__name__ if kind else ""
        return json.dumps(made, ensure_ascii=False)


def write_logs(what: Literal["errors", "requests"]) -> None:
    """Begin to write logs."""
    handler = logging.StreamHandler(sys.stderr)
    plain = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")
    handler.setFormatter(JsonLogLines() if what == "requests" else plain)
    logging.basicConfig(handlers=[handler], force=True)
    REQUESTS.setLevel(logging.INFO if what == "requests" else logging.WARNING)


def log_request(request_id: str, method: str, route: str, status: int, seconds: float) -> None:
    """`route` is the pattern of the address (`/download_file/{token}`), not the address."""
    if REQUESTS.isEnabledFor(logging.INFO):
        fields = {
            "request_id": request_id,
            "method": method,
            "route": route,
            "status": status,
            "milliseconds": round(1000 * seconds, 3),
        }
        REQUESTS.info("request", extra={"fields": fields})
