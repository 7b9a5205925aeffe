"""The same `tiny` Transformer, data and batches, said in each peer's own configuration.

Where the peers cannot be made equal, the difference is in their design: eole's layers are pre-norm; JoeyNMT also drops
attention weights and fills batches in random order, without sorting by length.
"""

from pathlib import Path
from typing import Any

LAYERS, D_MODEL, D_FF, HEADS = 4, 128, 256, 4
DROPOUT, LABEL_SMOOTHING, BATCH_TOKENS = 0.3, 0.1, 4096
LEARNING_RATE = 0.0005


def eole_config(data: Path, run: Path, updates: int, precision: str = "fp32") -> dict[str, Any]:
    training = {
        "train_steps": updates,
        "valid_steps": updates + 1,
        "save_checkpoint_steps": updates + 1,
        "model_path": str(run / "model"),
        "batch_type": "tokens",
        "batch_size": BATCH_TOKENS,
        "batch_size_multiple": 1,
        "normalization": "tokens",
        "bucket_size": 29_000,
        "num_workers": 0,
        "optim": "adam",
        "adam_beta2": 0.98,
        "learning_rate": LEARNING_RATE,
        "max_grad_norm": 1.0,
        "dropout": [DROPOUT],
        "attention_dropout": [0.0],
        "label_smoothing": LABEL_SMOOTHING,
        "param_init_method": "xavier_uniform",
        "compute_dtype": precision,
        "log_attention_entropy": False,  # on by default, costs time and trains nothing
        "world_size": 1,
        "gpu_ranks": [],
    }
    model = {
        "architecture": "transformer",
        "layers": LAYERS,
        "hidden_size": D_MODEL,
        "transformer_ff": D_FF,
        "heads": HEADS,
        "add_qkvbias": True,
        "add_ffnbias": True,
        "share_embeddings": True,
        "share_decoder_embeddings": True,
        "embeddings": {"word_vec_size": D_MODEL, "position_encoding_type": "SinusoidalInterleaved"},
    }
    corpus = {"path_src": str(data / "train.en"), "path_tgt": str(data / "train.de"), "transforms": []}
    return {
        "seed": 1,
        "report_every": 10,
        "share_vocab": True,
        "src_vocab": str(data / "vocabulary.txt"),
        "vocab_size_multiple": 1,
        "data": {"train": corpus},
        "training": training,
        "model": model,
    }


def joeynmt_config(data: Path, run: Path, updates: int) -> dict[str, Any]:
    side = {"level": "word", "lowercase": False, "voc_file": str(data / "vocabulary.txt")}
    stack = {
        "type": "transformer",
        "num_layers": LAYERS,
        "num_heads": HEADS,
        "embeddings": {"embedding_dim": D_MODEL, "scale": True},
        "hidden_size": D_MODEL,
        "ff_size": D_FF,
        "dropout": DROPOUT,
        "layer_norm": "post",
    }
    training = {
        "random_seed": 1,
        "optimizer": "adam",
        "adam_betas": [0.9, 0.98],
        "learning_rate": LEARNING_RATE,
        "scheduling": "exponential",
        "decrease_factor": 1.0,  # that is, constant; it has no schedule of that name
        "clip_grad_norm": 1.0,
        "normalization": "tokens",
        "label_smoothing": LABEL_SMOOTHING,
        "batch_size": BATCH_TOKENS,
        "batch_type": "token",
        "epochs": 1000,
        "updates": updates,
        "logging_freq": 10,
        "validation_freq": 1_000_000,
        "overwrite": True,
    }
    return {
        "name": "tiny",
        "joeynmt_version": "2.3.0",
        "model_dir": str(run / "model"),
        "use_cuda": False,
        "fp16": False,
        "data": {
            "train": str(data / "train"),
            "dev": str(data / "val"),
            "dataset_type": "plain",
            "src": {"lang": "en", **side},
            "trg": {"lang": "de", **side},
        },
        "training": training,
        "testing": {"beam_size": 1},
        "model": {"tied_embeddings": True, "tied_softmax": True, "encoder": stack, "decoder": stack},
    }
