"""Errors as clients see them: a status, and one sentence in JSON."""

from fastapi.responses import JSONResponse

RETRY_AFTER = {429: "1", 503: "5"}
"""Seconds after which a client may try again."""


class ApiError(Exception):
    """What a request is refused with."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def error_response(status: int, message: str, request_id: str | None = None) -> JSONResponse:
    """`{"error": message}`, with the request's id where an operator needs it to find the reason."""
    content = {"error": message} | ({"request_id": request_id} if request_id else {})
    headers = {"Retry-After": RETRY_AFTER[status]} if status in RETRY_AFTER else None
    return JSONResponse(content, status, headers)
