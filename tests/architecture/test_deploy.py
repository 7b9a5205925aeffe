"""The files in deploy/ are what Kubernetes, SLURM's shell and our own command line accept."""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from typer.core import TyperGroup
from typer.main import get_command

from qkv.cli.app import app

DEPLOY = Path(__file__).parents[2] / "deploy"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
SCRIPTS = sorted((DEPLOY / "slurm").glob("*.sbatch"))
SHELLCHECK = Path(sys.executable).parent / "shellcheck"
OWN = {"ray.io/v1"}
"""Kinds that an operator adds, which Kubernetes' own schemas do not know."""


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in YAML(typ="safe").load_all(path.read_text()) if document]


def run(*command: object) -> None:
    ended = subprocess.run([*map(str, command)], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_yaml_is_tidy(path: Path) -> None:
    pytest.importorskip("yamllint", reason="it is part of the extra dev")
    rules = "{extends: default, rules: {line-length: {max: 120}, comments: {min-spaces-from-content: 1}}}"
    run(sys.executable, "-m", "yamllint", "--strict", "-d", rules, path)


def pods(value: Any) -> Iterator[dict[str, Any]]:
    """The pod templates anywhere inside."""
    if isinstance(value, dict):
        if "template" in value and "containers" in value["template"].get("spec", {}):
            yield value["template"]
        for one in value.values():
            yield from pods(one)
    elif isinstance(value, list):
        for one in value:
            yield from pods(one)


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.name)
def test_kubernetes_knows_every_key(path: Path) -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="it is part of the extra dev")
    for document in documents(path):
        if document["apiVersion"] not in OWN:
            validate.validate(document, validate.latest_version(), strict=True)
        for pod in pods(document):
            whole = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": pod["spec"]}
            validate.validate(whole, validate.latest_version(), strict=True)


def test_the_check_of_keys_can_fail() -> None:
    validate = pytest.importorskip("kubernetes_validate", reason="it is part of the extra dev")
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one"}, "spec": {"container": []}}
    with pytest.raises(validate.ValidationError):
        validate.validate(pod, validate.latest_version(), strict=True)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_scripts_are_sound(path: Path) -> None:
    run("bash", "-n", path)
    if not SHELLCHECK.exists():
        pytest.skip("no shellcheck; it is part of the extra dev")
    run(SHELLCHECK, path)


def test_ray_is_the_version_that_was_tested() -> None:
    (job,) = documents(DEPLOY / "kubernetes" / "translate.yaml")
    pytest.importorskip("ray", reason="it is the extra ray")
    assert job["spec"]["rayClusterSpec"]["rayVersion"] == version("ray")


def commands() -> Iterator[list[str]]:
    """The words of every `qkv` that a manifest runs."""
    (ray,) = documents(DEPLOY / "kubernetes" / "translate.yaml")
    yield shlex.split(ray["spec"]["entrypoint"])
    for document in documents(DEPLOY / "kubernetes" / "train.yaml"):
        for pod in pods(document):
            words = pod["spec"]["containers"][0]["command"]
            yield words[words.index("qkv") :]


def test_commands_have_the_options_that_are_used() -> None:
    verbs = get_command(app)
    assert isinstance(verbs, TyperGroup)
    for _, verb, *words in commands():
        known = {name for parameter in verbs.commands[verb].params for name in parameter.opts}
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known
