"""From a config to a model: every part is made here and handed to the part that uses it."""

from qkv.layers.attention import MultiHeadAttention
from qkv.layers.embedding import TokenEmbedding
from qkv.layers.feed_forward import PositionWise
from qkv.layers.positions import Positions
from qkv.layers.residual import Residual
from qkv.models.config import ModelConfig
from qkv.models.decoder import Decoder, DecoderLayer
from qkv.models.encoder import Encoder, EncoderLayer
from qkv.models.head import LinearHead
from qkv.models.seq2seq import Embedder, Seq2Seq


def build_model(config: ModelConfig, src_vocab: int, tgt_vocab: int, pad: int) -> Seq2Seq:
    """A model with fresh weights; seed torch before for repeatable ones."""
    src_tokens = TokenEmbedding(src_vocab, config.d_model, pad)
    shared = config.share_embeddings == "all"
    if shared and src_vocab != tgt_vocab:
        raise ValueError(f"share_embeddings all needs one vocabulary, not {src_vocab} and {tgt_vocab} tokens")
    tgt_tokens = src_tokens if shared else TokenEmbedding(tgt_vocab, config.d_model, pad)
    out_tokens = TokenEmbedding(tgt_vocab, config.d_model, pad) if config.share_embeddings == "none" else tgt_tokens
    src_positions, tgt_positions = config.positions.build(config.d_model), config.positions.build(config.d_model)
    return Seq2Seq(
        Embedder(src_tokens, src_positions, config.dropout),
        Embedder(tgt_tokens, tgt_positions, config.dropout),
        _build_encoder(config, src_positions),
        _build_decoder(config, tgt_positions),
        LinearHead(out_tokens.weight),
    )


def _build_encoder(config: ModelConfig, positions: Positions) -> Encoder:
    def layer() -> EncoderLayer:
        return EncoderLayer(_attention(config, positions), _feed_forward(config), _residuals(config, 2))

    distinct = 1 if config.share_layers else config.encoder_layers
    final = config.residual.build_final(config.d_model)
    return Encoder([layer() for _ in range(distinct)], config.encoder_layers, final)


def _build_decoder(config: ModelConfig, positions: Positions) -> Decoder:
    def layer() -> DecoderLayer:
        cross = _attention(config, None)
        return DecoderLayer(_attention(config, positions), cross, _feed_forward(config), _residuals(config, 3))

    distinct = 1 if config.share_layers else config.decoder_layers
    final = config.residual.build_final(config.d_model)
    return Decoder([layer() for _ in range(distinct)], config.decoder_layers, final)


def _attention(config: ModelConfig, positions: Positions | None) -> MultiHeadAttention:
    return MultiHeadAttention(config.d_model, config.num_heads, config.attention_dropout, positions)


def _feed_forward(config: ModelConfig) -> PositionWise:
    return config.feed_forward.build(config.d_model, config.d_ff, config.feed_forward_dropout)


def _residuals(config: ModelConfig, count: int) -> list[Residual]:
    return [config.residual.build(config.d_model, config.dropout) for _ in range(count)]
