"""A saved model: what comes back, and what is refused with a sentence."""

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from qkv.config.yaml import read_yaml
from qkv.core.errors import CorruptFolder, QkvError, UsageError
from qkv.core.files import MANIFEST, verify_folder, write_manifest
from qkv.models.base import Model
from qkv.models.heads.linear import output_matrix
from qkv.models.saved.folder import CONFIG, WEIGHTS, SavedConfig, SavedModel, load_model, save_model
from qkv.models.transformer.build import build_model
from qkv.models.transformer.model import Transformer
from qkv.text import TextConfig, TokenizerPair
from tests.support.small import batch_of, decode, small_config, small_text, stir, transformer

TEXT, TOKENIZERS = small_text()
SIZE = len(TOKENIZERS.tgt)


def saved(seed: int = 0, **changes: object) -> SavedModel:
    torch.manual_seed(seed)
    config = small_config(encoder_layers=1, decoder_layers=1, **changes)
    model = config.build(TOKENIZERS)
    stir(model)
    return SavedModel(model, TOKENIZERS, SavedConfig(model=config, text=TEXT))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "model"
    save_model(folder, saved(), {"updates": 7})
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to be damaged."""
    return Path(shutil.copytree(made, tmp_path / "model"))


def output(model: Model) -> torch.Tensor:
    batch = batch_of([(3, 4), (1, 2)], vocab=SIZE)
    return decode(model.eval(), batch.src, batch.src_keep, batch.tgt_in)


def test_the_folder_of_a_run_stands_for_its_best_model(made: Path, tmp_path: Path) -> None:
    shutil.copytree(made, tmp_path / "run" / "best")
    assert torch.equal(output(load_model(tmp_path / "run").model), output(load_model(made).model))
    assert torch.equal(output(load_model(str(tmp_path / "run")).model), output(load_model(made).model))


@pytest.mark.parametrize("sharing", ["all", "target", "none", None])
@pytest.mark.parametrize("share_layers", [True, False])
def test_what_was_saved_comes_back(tmp_path: Path, sharing: str | None, share_layers: bool) -> None:
    """Bit for bit, with the same parameters tied, each written once."""
    original = saved(share_embeddings=sharing, share_layers=share_layers, positions="learned")
    save_model(tmp_path / "model", original)
    loaded = load_model(tmp_path / "model")
    assert torch.equal(output(loaded.model), output(original.model))
    assert loaded.config == original.config
    assert loaded.tokenizers.shared
    names = [name for name, _ in original.model.named_parameters()]
    assert [name for name, _ in loaded.model.named_parameters()] == names
    assert sorted(load_file(tmp_path / "model" / WEIGHTS)) == sorted(names)


def test_a_loaded_model_does_not_drop(folder: Path) -> None:
    assert not load_model(str(folder)).model.training


def test_two_tokenizers_come_back(tmp_path: Path) -> None:
    text = TextConfig(src={"kind": "whitespace"}, tgt={"kind": "char"})
    pair = text.train(lambda: ["aa ab ac"], lambda: ["xyz"])
    config = small_config()
    model = config.build(pair)
    assert model.src_embedder.tokens.weight.shape[0] == len(pair.src) == 8
    assert output_matrix(model.head).shape[0] == len(pair.tgt) == 8
    assert model.src_embedder.tokens.weight is not model.tgt_embedder.tokens.weight
    assert model.tgt_embedder.tokens.weight is output_matrix(model.head)
    save_model(tmp_path / "model", SavedModel(model, pair, SavedConfig(model=config, text=text)))
    loaded = load_model(tmp_path / "model").tokenizers
    assert (loaded.src.encode("ab"), loaded.tgt.encode("yz")) == (pair.src.encode("ab"), pair.tgt.encode("yz"))


def test_one_tokenizer_ties_all_embeddings() -> None:
    model = small_config().build(TOKENIZERS)
    assert model.src_embedder.tokens.weight is model.head.weight
    separate = TokenizerPair(TOKENIZERS.src, small_text()[1].tgt)
    assert small_config().build(separate).src_embedder.tokens.weight.shape[0] == SIZE


def test_saving_again_replaces_the_folder(tmp_path: Path) -> None:
    first, second = saved(1), saved(2)
    save_model(tmp_path / "model", first)
    save_model(tmp_path / "model", second)
    assert torch.equal(output(load_model(tmp_path / "model").model), output(second.model))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_an_interrupted_save_leaves_the_old_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = saved(1)
    save_model(tmp_path / "model", first)

    def full(path: Path, tensors: object) -> None:
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("qkv.models.saved.folder.write_tensors", full)
    with pytest.raises(QkvError, match=r"model: cannot be written \(No space left on device\)"):
        save_model(tmp_path / "model", saved(2))
    assert torch.equal(output(load_model(tmp_path / "model").model), output(first.model))
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_the_manifest_tells_what_it_is_about(folder: Path) -> None:
    manifest = verify_folder(folder)
    assert (manifest["what"], dict(manifest)["updates"]) == ("model", 7)
    assert {WEIGHTS, CONFIG, "tokenizer/text.json"} < set(manifest["files"])


def files_of(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)


def test_one_changed_byte_anywhere_is_seen(folder: Path) -> None:
    for path in files_of(folder):
        content = path.read_bytes()
        for place in {0, len(content) // 2, len(content) - 1}:
            damaged = bytearray(content)
            damaged[place] ^= 1
            path.write_bytes(bytes(damaged))
            with pytest.raises(CorruptFolder, match=rf"{path.name}: has changed since it was written"):
                load_model(folder)
        path.write_bytes(content)
    load_model(folder)


def test_a_cut_off_file_is_seen(folder: Path) -> None:
    for path in files_of(folder):
        content = path.read_bytes()
        path.write_bytes(content[:-1])
        with pytest.raises(CorruptFolder, match=rf"{path.name}: has changed"):
            load_model(folder)
        path.write_bytes(content)


def test_a_missing_file_is_named(folder: Path) -> None:
    for path in files_of(folder):
        content = path.read_bytes()
        path.unlink()
        with pytest.raises(CorruptFolder, match=rf"{path.name}: is missing"):
            load_model(folder)
        path.write_bytes(content)


def test_without_a_manifest_a_folder_is_not_whole(folder: Path) -> None:
    (folder / MANIFEST).unlink()
    with pytest.raises(CorruptFolder, match=r"no manifest\.json"):
        load_model(folder)


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(CorruptFolder, match="nowhere: no such folder"):
        load_model(tmp_path / "nowhere")


def test_a_flipped_bit_anywhere_in_the_manifest_is_seen(folder: Path) -> None:
    path = folder / MANIFEST
    content = path.read_bytes()
    for place in range(0, len(content), 3):
        damaged = bytearray(content)
        damaged[place] ^= 2
        path.write_bytes(bytes(damaged))
        with pytest.raises(CorruptFolder):
            verify_folder(folder)
    path.write_bytes(content)
    verify_folder(folder)


NO_MANIFESTS = [
    "",
    "\udcff",
    "[]",
    "3",
    "{}",
    '{"format": 1}',
    '{"format": "one", "files": {}}',
    '{"format": 1, "files": ["config.yaml"]}',
    '{"format": 1, "files": {"config.yaml": 3}}',
    '{"format": 1, "files": {"config.yaml": {"size": 1}}}',
]


@pytest.mark.parametrize("manifest", NO_MANIFESTS)
def test_a_manifest_of_another_shape_is_refused(folder: Path, manifest: str) -> None:
    (folder / MANIFEST).write_bytes(manifest.encode(errors="surrogateescape"))
    with pytest.raises(CorruptFolder, match=r"manifest.json: is not a manifest"):
        verify_folder(folder)


def rewrite_manifest(folder: Path, **changes: Any) -> None:
    """With a checksum that fits, as another program might have written it."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    content = {key: value for key, value in {**manifest, **changes}.items() if key != "checksum"}
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / MANIFEST).write_text(json.dumps({**content, "checksum": digest}), encoding="utf-8")


def test_a_rewritten_manifest_is_as_good_as_the_first(folder: Path) -> None:
    """Else the two tests below would be about the checksum."""
    rewrite_manifest(folder, what="anything")
    assert verify_folder(folder)["what"] == "anything"


def test_a_newer_format_asks_for_an_update(folder: Path) -> None:
    rewrite_manifest(folder, format=99)
    with pytest.raises(CorruptFolder, match=r"format 99.*update qkv"):
        load_model(folder)


@pytest.mark.parametrize("name", ["../outside", "/etc/hostname"])
def test_a_manifest_cannot_name_a_file_outside(folder: Path, name: str) -> None:
    rewrite_manifest(folder, files={name: {"size": 0, "sha256": ""}})
    with pytest.raises(CorruptFolder, match="outside its folder"):
        load_model(folder)


def test_a_manifest_of_an_earlier_version_is_read(folder: Path) -> None:
    """Its own checksum was called seal."""
    manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    manifest["seal"] = manifest.pop("checksum")
    (folder / MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")
    assert verify_folder(folder)["checksum"] == manifest["seal"]
    (folder / MANIFEST).write_text(json.dumps({**manifest, "seal": "0" * 64}), encoding="utf-8")
    with pytest.raises(CorruptFolder, match="has changed since it was written"):
        verify_folder(folder)


def refresh_manifest(folder: Path) -> None:
    """A manifest that fits what is there now."""
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})


def rewrite_weights(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    """Change one tensor and write the manifest again, as a foreign program might have written it."""
    tensors = load_file(folder / WEIGHTS)
    tensors.pop(name, None)
    if tensor is not None:
        tensors[name] = tensor
    save_file(tensors, folder / WEIGHTS)
    refresh_manifest(folder)


NAME = "encoder.layers.0.attention.query.weight"


def test_a_wrong_shape_is_refused(folder: Path) -> None:
    rewrite_weights(folder, NAME, torch.zeros(16, 15))
    with pytest.raises(CorruptFolder, match=r"query.weight has shape \[16, 15\], not \[16, 16\]"):
        load_model(folder)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf")])
def test_a_number_that_is_not_finite_is_refused(folder: Path, value: float) -> None:
    weights = torch.zeros(16, 16)
    weights[3, 4] = value
    rewrite_weights(folder, NAME, weights)
    with pytest.raises(CorruptFolder, match=r"query.weight holds values that are not finite"):
        load_model(folder)


@pytest.mark.parametrize(("name", "tensor"), [(NAME, None), ("encoder.layers.7.x", torch.zeros(1))])
def test_a_missing_or_unknown_parameter_is_named(folder: Path, name: str, tensor: torch.Tensor | None) -> None:
    rewrite_weights(folder, name, tensor)
    with pytest.raises(CorruptFolder, match=f"does not fit the model of its config.*{name}"):
        load_model(folder)


def test_weights_that_are_no_safetensors_file(folder: Path) -> None:
    (folder / WEIGHTS).write_bytes(b"not weights")
    refresh_manifest(folder)
    with pytest.raises(CorruptFolder, match=r"model.safetensors: is not a safetensors file"):
        load_model(folder)


def test_a_config_of_another_size_does_not_fit(folder: Path) -> None:
    config = (folder / CONFIG).read_text(encoding="utf-8")
    assert "d_ff: 24" in config
    (folder / CONFIG).write_text(config.replace("d_ff: 24", "d_ff: 25"), encoding="utf-8")
    refresh_manifest(folder)
    with pytest.raises(CorruptFolder, match=r"has shape \[24.*not \[25.*another model"):
        load_model(folder)


def test_an_unknown_key_in_the_config_is_named(folder: Path) -> None:
    config = (folder / CONFIG).read_text(encoding="utf-8")
    (folder / CONFIG).write_text(config.replace("d_ff:", "d_fff:"), encoding="utf-8")
    refresh_manifest(folder)
    with pytest.raises(UsageError, match=r"config.yaml:\d+: model.d_fff.*d_ff"):
        load_model(folder)


def test_learned_positions_have_an_end() -> None:
    """The last position is used, the one after it is refused with a sentence, on either side."""
    model = saved(positions={"kind": "learned", "max_length": 5}).model
    fits = batch_of([(4, 4)], vocab=SIZE)
    decode(model, fits.src, fits.src_keep, fits.tgt_in)
    for lengths in ((5, 4), (4, 5)):
        long = batch_of([lengths], vocab=SIZE)
        with pytest.raises(QkvError, match="6 tokens does not fit learned positions up to 5; shorten it, raise"):
            decode(model, long.src, long.src_keep, long.tgt_in)


def test_learned_positions_learn_only_where_they_are_used() -> None:
    model = transformer(saved(positions={"kind": "learned", "max_length": 9}).model)
    batch = batch_of([(4, 2)], vocab=SIZE)
    model.states(batch.src, batch.src_keep, batch.tgt_in).square().sum().backward()
    for embedder, used in ((model.src_embedder, 5), (model.tgt_embedder, 3)):
        gradient = embedder.get_parameter("positions.weight").grad
        assert gradient is not None
        assert bool(gradient[:used].any(dim=1).all())
        assert not gradient[used:].any()


def with_config(folder: Path, **changes: object) -> None:
    """Change keys of the model in config.yaml, and write the manifest again as an attacker would."""
    config: dict[str, Any] = read_yaml(folder / CONFIG).data
    config["model"] |= changes
    (folder / CONFIG).write_text(json.dumps(config))
    (folder / MANIFEST).unlink()
    write_manifest(folder, {"what": "model"})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 4_000_000}, "d_model: must be at most"),
        ({"d_model": 1 << 19, "d_ff": 1 << 23}, "has shape .* the weights belong to another model"),
        ({"d_ff": 1 << 24}, "has shape .* the weights belong to another model"),
        ({"encoder_layers": 1_000_000}, "encoder_layers: must be at most"),
        ({"encoder_layers": 10_000, "decoder_layers": 10_000}, "too few for the 20,000 layers of its config"),
        ({"positions": {"kind": "learned", "max_length": 10**12}}, "max_length: must be at most"),
        ({"positions": {"kind": "learned", "max_length": 1 << 30}}, "first differing parameter"),
        ({"positions": {"kind": "t5", "longest": 10**12}}, "longest: must be at most"),
        ({"draft": {"kind": "source", "layers": 100}}, "first differing parameter"),
        ({"num_heads": 10**9}, "num_heads: must be at most"),
    ],
    ids=str,
)
def test_absurd_sizes_are_refused_before_anything_is_allocated(
    changes: dict[str, Any], words: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By comparison with the shapes of the tensors, which cost nothing to read."""
    made: list[str] = []

    def build(*given: Any) -> Transformer:
        made.append(str(torch.empty(0).device))
        return build_model(*given)

    monkeypatch.setattr("qkv.models.transformer.build.build_model", build)
    with_config(folder, **changes)
    with pytest.raises(QkvError, match=words):
        load_model(folder)
    assert set(made) <= {"meta"}, "a model of that size was made in memory"


def test_the_tables_of_a_shared_stack_count(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They are no weights, so no tensor in the file says how large they are."""
    save_model(tmp_path / "deep", saved(stack="universal"))
    with_config(tmp_path / "deep", encoder_layers=9999)
    load_model(tmp_path / "deep")
    monkeypatch.setattr("qkv.models.saved.folder.available_memory", lambda: 100_000)
    with pytest.raises(CorruptFolder, match="tables of its config"):
        load_model(tmp_path / "deep")
