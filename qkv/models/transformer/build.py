"""From a config to a model: every part is made here and handed to the part that uses it."""

from torch import nn

from qkv.layers.attention import Attention
from qkv.layers.attention.gates import add_gates
from qkv.layers.attention.pruning import keep_heads
from qkv.layers.attention.recording import name_attentions
from qkv.layers.feed_forward import PositionWise
from qkv.layers.positions import Positions
from qkv.layers.residual import Place, Residual
from qkv.models.transformer.config import TransformerConfig
from qkv.models.transformer.decoder import Decoder, DecoderLayer
from qkv.models.transformer.encoder import Encoder, EncoderLayer
from qkv.models.transformer.model import Embedder, Transformer, TransformerParts
from qkv.models.transformer.wirings import Wiring


def build_model(config: TransformerConfig, src_vocab: int, tgt_vocab: int, pad: int) -> Transformer:
    """A model with fresh weights; seed torch before for repeatable ones."""
    shared = config.share_embeddings == "all"
    if shared and src_vocab != tgt_vocab:
        raise ValueError(f"share_embeddings all needs one vocabulary, not {src_vocab} and {tgt_vocab} tokens")
    tgt_vocab += config.decoder.own_ids
    src_tokens = config.embedding(tgt_vocab if shared else src_vocab, pad)
    tgt_tokens = src_tokens if shared else config.embedding(tgt_vocab, pad)
    out_tokens = config.embedding(tgt_vocab, pad) if config.share_embeddings == "none" else tgt_tokens
    src_positions, tgt_positions = (
        config.positions.build(config.d_model, config.num_heads, causal)
        for causal in (False, config.decoder.autoregressive)
    )
    wiring = build_wiring(config)
    parts = TransformerParts(
        Embedder(src_tokens, src_positions, config.dropout, config.position_offsets.build()),
        Embedder(tgt_tokens, tgt_positions, config.dropout, config.position_offsets.build()),
        build_encoder(config, src_positions, wiring),
        build_decoder(config, tgt_positions, wiring),
        config.head.build(out_tokens.weight),
    )
    model = config.decoder.build(parts)
    if config.draft is not None:
        model.draft_head = config.draft.build(config.d_model, config.num_heads, config.d_ff, config.dropout)
    name_attentions(model)
    return model


def build_encoder(config: TransformerConfig, positions: Positions, wiring: Wiring) -> Encoder:
    def layer(depth: int) -> EncoderLayer:
        attention = _attention(config, "encoder", positions, depth)
        made = EncoderLayer(attention, _feed_forward(config), _residuals(config, 2, place))
        config.residual.prepare(made, place)
        return made

    place = Place(config.encoder_layers, config.decoder_layers, in_decoder=False)
    layers = [layer(depth) for depth in range(config.distinct(config.encoder_layers))]
    final = config.residual.build_final(config.d_model)
    walk = config.stack.build(config.encoder_layers, config.d_model, positions)
    return Encoder(layers, config.encoder_layers, final, walk, wiring)


def build_decoder(config: TransformerConfig, positions: Positions, wiring: Wiring) -> Decoder:
    def layer(depth: int) -> DecoderLayer:
        cross = _attention(config, "cross", None, depth)
        attention = _attention(config, "decoder", positions, depth)
        made = DecoderLayer(attention, cross, _feed_forward(config), _residuals(config, 3, place))
        config.residual.prepare(made, place)
        return made

    place = Place(config.encoder_layers, config.decoder_layers, in_decoder=True)
    layers = [layer(depth) for depth in range(config.distinct(config.decoder_layers))]
    final = config.residual.build_final(config.d_model)
    walk = config.stack.build(config.decoder_layers, config.d_model, positions)
    return Decoder(layers, config.decoder_layers, final, walk, wiring)


def build_wiring(config: TransformerConfig) -> Wiring:
    def norm() -> nn.Module:
        return config.residual.build_final(config.d_model)

    return config.wiring.build(config.encoder_layers, config.decoder_layers, config.d_model, norm)


def _attention(config: TransformerConfig, side: str, positions: Positions | None, depth: int) -> Attention:
    scheme = None if positions is None else positions.for_layer()
    made = config.sides[side][0].build(config.d_model, config.num_heads, config.attention_dropout, scheme, depth)
    kept = config.pruned_heads.kept(side, depth, config.num_heads)
    if len(kept) < config.num_heads:
        keep_heads(made, kept)
    if config.head_gates is not None:
        add_gates(made, config.head_gates)
    return made


def _feed_forward(config: TransformerConfig) -> PositionWise:
    made = config.feed_forward.build(config.d_model, config.d_ff, config.feed_forward_dropout)
    made.chunk = config.feed_forward_chunk
    return made


def _residuals(config: TransformerConfig, count: int, place: Place) -> list[Residual]:
    return [config.residual.build(config.d_model, config.dropout, place) for _ in range(count)]
