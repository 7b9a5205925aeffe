"""The axis letters and tensor aliases, once for the whole repository.

B batch        S source length     T target length   Q query length   K key length
H heads        E head width        D model width     F feed-forward width
V vocabulary   N hypotheses        R rows being decoded   W new positions of a row
L layers       M memory width      G global tokens        U labels of a target

Public tensor functions carry these annotations. The tests switch the checks on (jaxtyping with
beartype); in production they cost nothing.
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor

Heads = Float[Tensor, "B H Q E"]
"""Queries, or the result of attention, split by heads."""
KeyHeads = Float[Tensor, "B H K E"]
"""Keys, split by heads."""
ValueHeads = Float[Tensor, "B H K Ev"]
"""Values, split by heads; usually as wide as the keys."""
ContextHeads = Float[Tensor, "B H Q Ev"]
AttentionWeights = Float[Tensor, "B H Q K"]
Mask = Bool[Tensor, "#B #H #Q K"]
"""True = may attend."""
Bias = Float[Tensor, "#B #H Q K"]
"""Added to the logits; never holds -inf."""
Hidden = Float[Tensor, "*batch D"]
"""Any stack of vectors of the model's width."""
SrcIds = Int[Tensor, "B S"]
SrcKeep = Bool[Tensor, "B S"]
"""True = a real token, False = padding."""
TgtIds = Int[Tensor, "B T"]
TgtWeight = Float[Tensor, "B T"]
"""How much each target token counts in the loss; 0 on padding."""
Memory = Float[Tensor, "B S M"]
"""The encoder's output; M is D unless a wiring exposes more than its last layer."""
Decoded = Float[Tensor, "B T D"]
LogProbs = Float[Tensor, "*batch V"]
