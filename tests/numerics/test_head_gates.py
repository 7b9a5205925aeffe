"""Gates on heads: the distribution, finite gradients, the penalty, and closed gates equal removed heads."""

import math
from pathlib import Path

import pytest
import torch

from qkv.core.errors import ConfigError
from qkv.functional.heads.gates import drawn_gates, open_probability, settled_gates
from qkv.functional.losses import no_smoothing
from qkv.inference.transformer import TransformerInference
from qkv.layers.attention.gates import GatedLinear
from qkv.models.saved.folder import SavedConfig, SavedModel, load_model, save_model
from qkv.models.transformer.head_ids import HeadId, own_attentions
from qkv.models.transformer.pruning import prune_heads, without_gates
from qkv.objectives.teacher_forcing import TeacherForcing
from tests.support.small import VOCAB, batch_of, small_config, small_model, small_text, stir, transformer

GATES = {"penalty": 0.1}


def test_the_rate_of_open_gates_is_the_formula() -> None:
    log_a = torch.tensor([0.3], dtype=torch.float64)
    assert open_probability(log_a).item() == pytest.approx(0.7486, abs=5e-5)
    # Every gate is increasing in u: the share of a fine grid is the probability.
    grid = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    for value in (-3.0, 0.3, 2.0):
        drawn = drawn_gates(torch.full_like(grid, value), grid)
        expected = open_probability(torch.tensor([value], dtype=torch.float64)).item()
        assert (drawn > 0).double().mean().item() == pytest.approx(expected, abs=1e-5)
        assert drawn.min() >= 0
        assert drawn.max() <= 1


def test_a_gate_is_its_definition() -> None:
    for u, log_a in ((0.2, -0.4), (0.6, 0.5), (0.5, 0.0)):
        s = 1 / (1 + math.exp(-(math.log(u) - math.log(1 - u) + log_a) / 0.33))
        found = drawn_gates(torch.tensor([log_a]).double(), torch.tensor([u]).double()).item()
        assert found == pytest.approx(min(1, max(0, 1.2 * s - 0.1)), abs=1e-12)
    assert settled_gates(torch.tensor([-5.0, 0.0, 5.0])).tolist() == pytest.approx([0, 0.5, 1])


def test_gradients_are_finite_at_the_ends() -> None:
    log_a = torch.tensor([-10.0, 0.0, 10.0], requires_grad=True)
    for u in (1e-6, 0.5, 1 - 1e-6):
        total = drawn_gates(log_a, torch.full((3,), u)).sum() + open_probability(log_a).sum()
        (gradient,) = torch.autograd.grad(total, log_a)
        assert gradient.isfinite().all()


def gated(seed: int = 0) -> SavedModel:
    """Four heads; one of the encoder and all of one cross-attention are closed, the others half open."""
    text, tokenizers = small_text()
    config = SavedConfig(model=small_config(num_heads=4, head_gates=GATES), text=text)
    torch.manual_seed(seed)
    model = config.model.build(tokenizers)
    stir(model)
    with torch.no_grad():
        for place in own_attentions(transformer(model)):
            assert isinstance(place.attention.output, GatedLinear)
            place.attention.output.log_a.copy_(torch.tensor([-6.0, 0.5, 1.0, 9.0]))
            if place.side == "cross" and place.layer == 2:
                place.attention.output.log_a.fill_(-9)
    return SavedModel(model.double().eval(), tokenizers, config)


def test_closed_gates_are_the_pruned_model_also_in_cached_decoding() -> None:
    saved = gated()
    batch = batch_of([(3, 2), (6, 5)], vocab=len(saved.tokenizers.src))
    plain, closed = without_gates(saved)
    assert HeadId("encoder", 1, 1) in closed
    assert len(closed) == 5 + 3, "one head of the attention that is closed altogether is left, and gives 0"
    pruned = prune_heads(saved, closed)
    assert pruned.config.model == small_config(
        num_heads=4,
        pruned_heads={"encoder": [[1], [1]], "decoder": [[1], [1]], "cross": [[1], [2, 3, 4]]},
    )
    with torch.no_grad():
        whole = saved.model(batch).states
        for other in (plain, pruned):
            torch.testing.assert_close(other.model(batch).states, whole, atol=1e-12, rtol=0)
        inference = TransformerInference(transformer(saved.model))
        state, found = inference.start(batch.src, batch.src_keep), []
        for at in range(batch.tgt_in.shape[1]):
            output, state = inference.extend(batch.tgt_in[:, at : at + 1], state)
            found.append(output.states)
        keep = batch.tgt_weight > 0
        torch.testing.assert_close(torch.cat(found, 1)[keep], whole[keep], atol=1e-12, rtol=0)


def test_the_penalty_is_part_of_the_training_loss_only() -> None:
    model, plain = small_model(head_gates=GATES), small_model()
    assert not isinstance(next(own_attentions(plain)).attention.output, GatedLinear)
    batch = batch_of([(3, 2), (4, 5)])
    for module in model.modules():
        if isinstance(module, GatedLinear):
            module.eval()  # settled gates: the same loss twice
    objective = TeacherForcing(no_smoothing(VOCAB))
    learnt, asked = objective.training_loss(model, batch, 1).sum, objective.validation_loss(model, batch).sum
    gates = [module for module in model.modules() if isinstance(module, GatedLinear)]
    open_heads = sum(float(open_probability(gate.log_a.detach()).sum()) for gate in gates)
    tokens = float(batch.tgt_weight.sum())
    assert float((learnt - asked).detach()) == pytest.approx(0.1 * open_heads * tokens, rel=1e-4)
    learnt.backward()
    assert all(gate.log_a.grad is not None and gate.log_a.grad.isfinite().all() for gate in gates)


def test_gates_are_drawn_in_training_for_each_pass_and_repeat_by_the_seed() -> None:
    model, batch = small_model(head_gates={"penalty": 0.1, "start": 0.0}), batch_of([(3, 2)])
    torch.manual_seed(1)
    first, second = model(batch).states, model(batch).states
    assert not torch.equal(first, second)
    torch.manual_seed(1)
    assert torch.equal(model(batch).states, first)


def test_a_gated_model_is_saved_and_loaded(tmp_path: Path) -> None:
    saved = gated()
    save_model(tmp_path / "gated", SavedModel(saved.model.float(), saved.tokenizers, saved.config))
    assert without_gates(load_model(tmp_path / "gated"))[1] == without_gates(saved)[1]


def test_gates_are_for_autoregressive_models() -> None:
    with pytest.raises(ConfigError, match="head_gates are for the autoregressive decoder"):
        small_config(head_gates=GATES, decoder="nat")
