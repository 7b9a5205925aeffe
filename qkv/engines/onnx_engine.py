"""One pass of a non-autoregressive model by ONNX Runtime: a graph of `export/onnx.py`, and the reader of its output.

It supports what gives the same outputs as our own decoding, and rejects the rest.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import verify_folder
from qkv.engines.base import DecodeRequest
from qkv.export.int8 import sums_are_exact
from qkv.export.onnx import FORMAT, GRAPH, WHAT
from qkv.export.onnx_canvas import onnx_canvases
from qkv.kernels.threads import cores
from qkv.search.base import LengthLimits, SearchConfig
from qkv.search.hypothesis import Hypothesis, not_a_number
from qkv.search.refinement.base import ReaderConfig, reader_for, reader_of, reader_problem
from qkv.search.refinement.search import RefineConfig
from qkv.text.special import SPECIAL

if TYPE_CHECKING:
    from onnxruntime import InferenceSession


def onnx_search_obstacles(search: SearchConfig, kind: str) -> list[str]:
    """Reasons why one pass over one canvas cannot run a search."""
    if not isinstance(search, RefineConfig):
        return [f"it has no search kind {getattr(search, 'kind', type(search).__name__)}"]
    if problem := reader_problem(search.reader, kind):
        return [problem]
    reader = reader_for(search.reader, kind)
    reasons = {
        "it takes one pass: search.passes=1": (search.passes or reader.passes) > 1,
        "it takes no length or length_factor": search.length is not None or search.length_factor != 1.0,
        "it tries one length: search.length_beam=1": search.length_beam > 1,
        "no other model chooses: leave out search.rescore": search.rescore is not None,
    }
    inputs = onnx_canvases[kind].inputs if kind in onnx_canvases else ()
    for name, field in type(reader).model_fields.items():
        reasons[f"it takes no search.{name}"] = name not in inputs and getattr(reader, name) != field.default
    return [reason for reason, holds in reasons.items() if holds]


def onnx_request_obstacles(request: DecodeRequest, kind: str) -> list[str]:
    """The same for a whole request."""
    reasons = onnx_search_obstacles(request.search, kind)
    if request.nbest > 1:
        reasons.append(f"one pass gives one output, not {request.nbest}")
    if request.attention:
        reasons.append("it tells no alignment")
    if any(each.prefix or each.forbidden or each.required for each in request.constraints):
        reasons.append("it takes no prefix, forbidden or required words")
    return reasons


class OnnxEngine:
    """Made from a graph. `threads` calls of `decode` run at once, one thread each (None: the cores)."""

    name = "onnxruntime"
    batch_tokens = 256

    def __init__(self, graph: bytes, threads: int | None = None) -> None:
        self.parallel = threads or cores()
        self._session = _open(graph)
        about = self._session.get_modelmeta().custom_metadata_map
        if about.get("format") != FORMAT:
            raise UsageError("the ONNX graph was exported by another version of qkv; export the model again")
        self.kind = about["kind"]
        self.src_limit: int | None = int(about["src_limit"])
        self.tgt_limit = int(about["tgt_limit"])
        self._last_id = int(about["last_id"])
        inputs = {each.name for each in self._session.get_inputs()}
        self._settings = inputs & reader_of(self.kind).model_fields.keys()
        """Settings of the reader that are inputs of the graph."""

    @classmethod
    def from_folder(cls, folder: Path, threads: int | None = None) -> "OnnxEngine":
        if verify_folder(folder).get("what") != WHAT:
            raise CorruptFolder(f"{folder}: was not exported for ONNX Runtime; write one with qkv export")
        return cls((folder / GRAPH).read_bytes(), threads)

    def decode(self, sources: Sequence[list[int]], request: DecodeRequest) -> list[list[Hypothesis]]:
        if reasons := onnx_request_obstacles(request, self.kind):
            raise UsageError(f"ONNX Runtime cannot decode this way: {'; '.join(reasons)}; use the engine torch")
        if not sources:
            return []
        limits = [request.search.limits(len(ids), self.tgt_limit) for ids in sources]
        assert isinstance(request.search, RefineConfig)
        reader = reader_for(request.search.reader, self.kind)
        found_tokens, found_scores, lengths = self._run(sources, limits, reader)
        request.after_step()
        found = []
        for tokens, scores, length, own in zip(found_tokens, found_scores, lengths, limits, strict=True):
            said = scores[:length].tolist()
            if any(score != score for score in said):
                raise not_a_number()
            found.append([replace(reader.read_tokens(tokens[:length].tolist(), said, own, self._last_id), passes=1)])
        return found

    def _run(
        self, sources: Sequence[list[int]], limits: Sequence[LengthLimits], reader: ReaderConfig
    ) -> tuple[np.ndarray, np.ndarray, list[int]]:
        lengths = [len(ids) for ids in sources]
        src = np.full((len(sources), max(lengths)), SPECIAL.pad, dtype=np.int64)
        for row, ids in zip(src, sources, strict=True):
            row[: len(ids)] = ids
        given = {
            "src": src,
            "src_lengths": np.array(lengths, dtype=np.int64),
            "limits": np.array([own.max_length for own in limits], dtype=np.int64),
        }
        for name in self._settings:
            given[name] = np.array(getattr(reader, name), dtype=np.float32)
        try:
            tokens, log_probs, canvases = self._session.run(["tokens", "log_probs", "lengths"], given)
        except Exception as error:
            # The same error class as the other engines, for example when memory is short.
            raise RuntimeError(str(error)) from error
        return tokens, log_probs, canvases.tolist()


def _open(graph: bytes) -> "InferenceSession":
    try:
        import onnxruntime
    except ImportError as error:
        raise UsageError("the engine onnxruntime is not installed; install it with: pip install 'qkv[onnx]'") from error
    options = onnxruntime.SessionOptions()
    # Several batches at once with a thread each are faster than one batch with several.
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    # Every batch has its own shape: memory plans would be cached and never reused.
    options.enable_mem_pattern = False
    if not sums_are_exact():
        # Slower, but right on every processor.
        options.add_session_config_entry("session.x64quantprecision", "1")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        # Its errors have no class in common below this one.
        raise QkvError(f"ONNX Runtime cannot load the graph ({error}); export the model again") from error
