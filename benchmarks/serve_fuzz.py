"""Random and hostile requests, made from the OpenAPI description by schemathesis: no 5xx, and all answers fit it.

    pip install 'qkv[serve,client,dev]'
    python benchmarks/serve_fuzz.py MODEL=de-en

Starts a server of the model, runs the phases coverage, fuzzing and stateful, and exits with 1 if a check failed. A
last line of JSON says how many cases there were.
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from served import served

CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"


def fuzz(model: str, examples: int, seed: int, phases: str, settings: list[str]) -> int:
    """The exit code of schemathesis against a server of `model`."""
    with served(model, *settings) as address:
        return _schemathesis(address, examples, seed, phases)


def _schemathesis(address: str, examples: int, seed: int, phases: str) -> int:
    # /v1/reload loads all models again, which is tested elsewhere.
    command = [str(Path(sys.executable).with_name("schemathesis")), "run", f"{address}/openapi.json", "--url", address]
    command += ["--checks", CHECKS, "--phases", phases, "--max-examples", str(examples)]
    command += ["--seed", str(seed), "--exclude-path", "/v1/reload", "--suppress-health-check", "all"]
    run = subprocess.run([*command, "--no-color", "--generation-database", "none"], capture_output=True, text=True)
    print(run.stdout)
    print(run.stderr, file=sys.stderr)
    generated = re.search(r"([\d,]+) generated", run.stdout)
    cases = int(generated[1].replace(",", "")) if generated else 0
    print(json.dumps({"cases": cases, "exit_code": run.returncode}))
    return run.returncode


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model that comes with qkv, or FOLDER=aa-bb")
    parser.add_argument("settings", nargs="*", help="settings of the server, such as workers=1")
    parser.add_argument("--examples", type=int, default=120, help="random cases of each address")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--phases", default="coverage,fuzzing,stateful")
    given = parser.parse_args()
    sys.exit(fuzz(given.model, given.examples, given.seed, given.phases, given.settings))
