"""Writes the description of the server's interface, of which the page's types are made: web/openapi.py > FILE."""

import json
import sys

from fastapi import FastAPI

from qkv.serving.app import create_app
from qkv.serving.http.guard import Guard
from qkv.serving.http.openapi import describe
from qkv.serving.service import Service
from qkv.serving.settings import serve_config

if __name__ == "__main__":
    guard = create_app(Service(serve_config(["es-en"])))
    assert isinstance(guard, Guard)
    assert isinstance(guard.app, FastAPI)
    json.dump(describe(guard.app), sys.stdout, indent=1)
