"""qkv doctor"""

from typing import Annotated

import typer

from qkv.cli.shared.evaluation_options import Device


def doctor(
    device: Device = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """What this machine has, and whether training and decoding are right on a device; exit code 1 if not."""
    import json
    from dataclasses import asdict

    from qkv.core.devices import choose_device
    from qkv.core.progress import default_reporter
    from qkv.training.doctor.checks import run_checks
    from qkv.training.doctor.machine import facts

    chosen = choose_device(device)
    known = facts(chosen)
    if not as_json:
        for name, fact in known.items():
            typer.echo(f"{name:<10}{fact}")
    reporter = default_reporter(quiet=2.0)
    try:
        found = run_checks(chosen, reporter.counting("Checking"))
    finally:
        reporter.close()
    passed = all(one.passed for one in found)
    if as_json:
        report = {"machine": known, "checks": [asdict(one) for one in found], "passed": passed}
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for one in found:
            typer.echo(f"{'ok' if one.passed else 'FAILED':<7}{one.name:<10}{one.said}")
    raise typer.Exit(0 if passed else 1)
