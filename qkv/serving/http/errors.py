"""Errors as clients see them: a status, and one sentence in JSON."""

from fastapi.responses import JSONResponse

RETRY_AFTER = {429: "1", 503: "5"}
"""Seconds after which a client may try again."""


ERRORS = {
    400: "The request is wrong; the message says what.",
    403: "A key is missing, or the page that asks is of another origin.",
    404: "There is no such model or file.",
    405: "The address takes another method.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    414: "The address is too long.",
    421: "The server does not answer to that host name.",
    429: "Too many requests wait, or too many came from this key; Retry-After says when to come again.",
    431: "There are too many headers, or too large ones.",
    500: "The server failed; the request's id is in its log.",
    503: "The server is starting, shutting down or replacing a worker; Retry-After says when to try again.",
    504: "It took too long.",
}
"""The statuses of refusals."""


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
