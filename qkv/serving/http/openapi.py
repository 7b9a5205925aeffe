"""The OpenAPI description: exact enough to make a client from."""

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from qkv.serving.http.errors import ERRORS
from qkv.serving.http.schemas import ErrorAnswer

VERSION = version("qkv")
PLACE = "#/components/schemas/{model}"
_taken: dict[str, type[BaseModel]] = {}


def takes(body: type[BaseModel]) -> dict[str, Any]:
    """Of a route: what its JSON body is like. The route reads it by itself, to say what is wrong with it."""
    _taken[body.__name__] = body
    schema = {"$ref": PLACE.format(model=body.__name__)}
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


Responses = dict[int | str, dict[str, Any]]


def answered(model: Any) -> Responses:
    """Of a route: what it answers, None if that is no JSON, and the errors that any route may answer with."""
    found: Responses = {} if model is None else {200: {"description": "The answer.", "model": model}}
    return found | {status: {"description": why, "model": ErrorAnswer} for status, why in ERRORS.items()}


def linked(responses: Responses, bodies: dict[str, dict[str, Any]]) -> Responses:
    """The same, and what may be asked next: the address, and a body with parts of the answer."""
    links = {
        path.strip("/").replace("/", "_"): {
            "operationRef": f"#/paths/{path.replace('/', '~1')}/post",
            "requestBody": body,
        }
        for path, body in bodies.items()
    }
    return responses | {200: {**responses[200], "links": links}}


def describe(app: FastAPI) -> dict[str, Any]:
    """The description of all routes; made once."""
    if app.openapi_schema is None:
        made = get_openapi(title="qkv", version=VERSION, routes=app.routes)
        _, bodies = models_json_schema([(body, "validation") for body in _taken.values()], ref_template=PLACE)
        for operation in (each for path in made["paths"].values() for each in path.values()):
            # FastAPI's own refusal; here a wrong request is answered with 400.
            operation["responses"].pop("422", None)
        made.setdefault("components", {}).setdefault("schemas", {}).update(bodies.get("$defs", {}))
        app.openapi_schema = made
    return app.openapi_schema
