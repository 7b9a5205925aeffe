"""A model written as one ONNX graph is the same model; what cannot be written so is refused by name."""

from pathlib import Path
from typing import Any

import onnx
import pytest

from qkv.core.errors import UsageError
from qkv.core.files import sha256_of, verify_folder
from qkv.export.onnx import GRAPH, ROWS, as_graph, export_onnx, longest_source, onnx_obstacles
from qkv.layers.feed_forward import feed_forwards
from qkv.layers.positions import positions
from qkv.layers.residual import residuals
from qkv.models.decoders import decoders
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import SavedConfig, load_model, save_model
from qkv.models.saved.weights import named_weights
from qkv.models.transformer.config import TransformerConfig
from tests.support.attentions import UNLIKE_THE_PAPER
from tests.support.exported import decided_model

CTC = {"kind": "ctc"}


def config_of(**changes: Any) -> SavedConfig:
    return SavedConfig.model_construct(model=TransformerConfig(**{"decoder": CTC, **changes}))


@pytest.mark.parametrize("kind", decoders.names())
def test_the_graph_is_valid_and_has_no_loop(kind: str) -> None:
    if kind == "autoregressive":
        assert onnx_obstacles(config_of(decoder={"kind": kind})) == [
            "an autoregressive model is a loop, not one graph; export it to ctranslate2"
        ]
        return
    if kind == "dag":
        assert onnx_obstacles(config_of(decoder=kind)) == ["ONNX has no form of model.decoder.kind dag"]
        return
    graph = onnx.load_from_string(as_graph(decided_model(decoder={"kind": kind})))
    onnx.checker.check_model(graph)
    assert not {node.op_type for node in graph.graph.node} & {"Loop", "Scan", "If"}
    assert [one.name for one in graph.graph.output] == ["tokens", "log_probs", "lengths"]
    for axis in (graph.graph.input[0].type.tensor_type.shape.dim, graph.graph.output[0].type.tensor_type.shape.dim):
        assert all(dimension.dim_param for dimension in axis), "every axis may have any length"


def test_int8_takes_a_byte_for_a_weight_and_leaves_the_embedding() -> None:
    saved = decided_model(decoder=CTC, d_model=64, d_ff=512)
    types = {
        int8: {
            (tensor.data_type, tuple(tensor.dims))
            for tensor in onnx.load_from_string(as_graph(saved, int8)).graph.initializer
        }
        for int8 in (False, True)
    }
    one_byte, four = onnx.TensorProto.INT8, onnx.TensorProto.FLOAT
    assert (one_byte, (64, 512)) in types[True]
    assert (four, (64, 512)) not in types[True]
    assert (four, (64, 512)) in types[False]
    # A single number may be wider: the factor by which a canvas is longer.
    assert {kind for kind, shape in types[False] if shape != (1,)} == {four, onnx.TensorProto.INT64}
    assert (four, tuple(output_matrix(saved.model.head).shape)) in types[True] & types[False], (
        "the embedding is looked up"
    )


def test_a_layer_that_stands_at_several_depths_is_stored_once() -> None:
    sizes = [
        len(as_graph(decided_model(decoder=CTC, share_layers=shared, encoder_layers=4, decoder_layers=4)))
        for shared in (True, False)
    ]
    layers = decided_model(decoder=CTC).model.get_submodule("decoder.layers")
    assert sizes[1] - sizes[0] > 2 * sum(weight.nbytes for weight in layers.parameters())


def test_every_registered_kind_is_exported_or_refused() -> None:
    """A new kind must be looked at: it is refused until the export knows it. The engine's tests run what is taken."""
    taken = {"residual": {"post", "pre"}, "positions": {"sinusoidal", "learned"}}
    for part, kinds in (("residual", residuals), ("positions", positions), ("feed_forward", feed_forwards)):
        for kind in kinds.names():
            reason = f"ONNX has no form of model.{part}.kind {kind}"
            allowed = taken.get(part, {"relu", "gelu", "swiglu"})
            assert onnx_obstacles(config_of(**{part: {"kind": kind}})) == ([] if kind in allowed else [reason])


@pytest.mark.parametrize(("setting", "name"), UNLIKE_THE_PAPER, ids=str)
def test_attention_that_has_no_form_there_is_refused_by_name(setting: dict[str, Any], name: str) -> None:
    reason = f"ONNX has no form of model.encoder_attention.{name}"
    assert onnx_obstacles(config_of(encoder_attention=setting)) == [reason]


def test_the_folder_has_a_manifest_and_the_model_left_as_it_was(tmp_path: Path) -> None:
    saved = decided_model(decoder=CTC)
    save_model(tmp_path / "model", saved)
    files = {path: sha256_of(path) for path in (tmp_path / "model").rglob("*") if path.is_file()}
    loaded = load_model(tmp_path / "model")
    before = {name: weight.clone() for name, weight in named_weights(loaded.model).items()}
    for quantization in (None, "int8"):
        export_onnx(loaded, tmp_path / "fast", quantization)
        manifest = verify_folder(tmp_path / "fast")
        assert (manifest["what"], manifest["quantization"]) == ("onnx", quantization)
        assert {GRAPH, "config.yaml"} < manifest["files"].keys()
    assert {path: sha256_of(path) for path in (tmp_path / "model").rglob("*") if path.is_file()} == files
    assert all(weight.equal(before[name]) for name, weight in named_weights(loaded.model).items())


def test_all_reasons_are_given_at_once(tmp_path: Path) -> None:
    saved = decided_model(decoder=CTC, residual={"kind": "sandwich"}, positions={"kind": "rope"})
    with pytest.raises(UsageError, match=r"residual\.kind sandwich; .*kind rope; quantization int3 is unknown, choose"):
        export_onnx(saved, tmp_path / "fast", "int3")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "longest"),
    [
        ({}, ROWS // 2),
        ({"decoder": {"kind": "ctc", "upsample": 3}}, ROWS // 3),
        ({"decoder": {"kind": "canvas", "factor": 1.5, "extra": 5}}, 2727),
        ({"decoder": {"kind": "nat"}}, ROWS),
        ({"positions": {"kind": "learned", "max_length": 10}}, 5),
    ],
    ids=str,
)
def test_the_longest_source_is_one_whose_canvas_has_positions(changes: dict[str, Any], longest: int) -> None:
    assert longest_source(config_of(**changes)) == longest
