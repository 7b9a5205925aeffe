"""The web application: routes, errors, and the service behind them."""

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp

from qkv.serving.http import libretranslate, own, page, status, uploads
from qkv.serving.http.errors import ApiError, error_response
from qkv.serving.http.guard import Guard
from qkv.serving.service import Service

log = logging.getLogger("qkv.serve")


def create_app(service: Service, failed: Callable[[Exception], None] = lambda error: None) -> ASGIApp:
    """The application of a server; starting it starts the workers.

    `failed` is called if a worker cannot load the models.
    """
    config = service.config

    @asynccontextmanager
    async def running(app: FastAPI) -> AsyncIterator[None]:
        service.queue.start(failed)
        yield
        await service.queue.drain(config.drain_seconds)
        await service.queue.stop()

    # The pages for people that FastAPI has load scripts from elsewhere.
    app = FastAPI(title="qkv", openapi_url=None, docs_url=None, redoc_url=None, lifespan=running)
    app.state.service = service
    for routes in (libretranslate.router, uploads.router, own.router, status.router, page.router):
        app.include_router(routes)
    app.add_exception_handler(ApiError, _refused)
    app.add_exception_handler(HTTPException, _refused_by_framework)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(Exception, _failed)
    return Guard(app, config)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, ApiError)
    return error_response(error.status, error.message, request.scope["request_id"] if error.status >= 500 else None)


async def _refused_by_framework(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return error_response(error.status_code, str(error.detail))


async def _invalid(request: Request, error: Exception) -> Response:
    return error_response(400, "Invalid request")


async def _failed(request: Request, error: Exception) -> Response:
    """Nothing of the reason goes to the client but the number under which it is logged."""
    log.error("request %s failed", request.scope["request_id"], exc_info=error)
    return error_response(500, "internal error", request.scope["request_id"])
