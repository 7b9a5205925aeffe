"""A decoder kind with its objective, reader and ONNX form, an engine and an export format: one file of others."""

import os
import subprocess
import sys
from pathlib import Path

KINDS = """
from typing import Literal

from qkv.engines.fast_engines import OnnxRuntime, engines
from qkv.export.base import exporters
from qkv.export.onnx import export_onnx
from qkv.export.onnx_canvas import onnx_canvases
from qkv.export.onnx_kinds import Predicted
from qkv.models.decoders.base import decoders
from qkv.models.decoders.nat import NatConfig, NatModel, opening
from qkv.objectives.nat import Nat
from qkv.objectives.parts import objectives
from qkv.search.hypothesis import Hypothesis
from qkv.search.refinement.base import readers
from qkv.search.refinement.nat import NatReader, NatReaderConfig


@decoders.register
class EchoConfig(NatConfig):
    kind: Literal["echo"] = "echo"

    def build(self, parts):
        return EchoModel(parts, opening(self.inputs, parts.d_model))


class EchoModel(NatModel):
    kind = "echo"


@readers.register
class EchoReaderConfig(NatReaderConfig):
    kind: Literal["echo"] = "echo"
    times: int = 1

    def build(self, model, wanted):
        return EchoReader(model, wanted, self.times)


class EchoReader(NatReader):
    def __init__(self, model, wanted, times):
        super().__init__(model, wanted)
        self.times = times

    def read(self, filled, row, length, limits):
        (said,) = super().read(filled, row, length, limits)
        return [Hypothesis(said.tokens * self.times, said.token_scores * self.times, said.score, said.ended)]


class Runtime(OnnxRuntime):
    name = "my_runtime"
    export = "my_format"


objectives.register("echo", Nat)
onnx_canvases.register("echo", Predicted())
engines.register("my_runtime", Runtime())
exporters.register("my_format", export_onnx)
"""

USE = """
import my_kinds
from qkv.engines.fast_engines import engine_for_export
from qkv.export.base import exporters
from qkv.models.saved.folder import save_model
from qkv.search.default import default_search
from qkv.translate.settings import translation_config
from qkv.translate.translator import Translator
from tests.support.exported import decided_model
from tests.support.parallel import decode, objective_of, parallel_model
from tests.support.small import batch_of

model = parallel_model("echo")
report = objective_of("echo").training_loss(model.train(), batch_of([(3, 4), (6, 5)]), 1)
report.sum.backward()
once, twice = (decode(model.eval(), [[7, 8, 9]], times=times)[0][0].tokens for times in (1, 2))
assert twice == 2 * once != []
assert translation_config(["search.kind=refine", "search.times=2"]).search.reader.times == 2

saved = decided_model(decoder={"kind": "echo"})
assert default_search(saved.config).kind == "refine"
texts = ["w005 w006", "w007"]
found = [Translator(saved, engine).translate(texts) for engine in ("torch", "my_runtime", "onnxruntime")]
assert [[each.text for each in own] for own in found] == [[each.text for each in found[0]]] * 3
exporters["my_format"](saved, __import__("pathlib").Path("exported"), None)
assert engine_for_export("my_format").name == "my_runtime"
print("done")
"""


def test_one_file_of_another_package_is_enough(tmp_path: Path) -> None:
    """In a fresh process: a registration cannot be taken back."""
    (tmp_path / "my_kinds.py").write_text(KINDS, encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-c", USE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": f"{Path(__file__).parents[2]}{os.pathsep}{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.stdout == "done\n", ended.stderr
