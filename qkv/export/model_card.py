"""The README.md of an exported model: what it is and how to run it."""

from qkv.export.hf_tokenizer import TARGET
from qkv.export.output_bias import NEVER
from qkv.models.saved.folder import SavedModel

HEAD = """---
library_name: transformers
pipeline_tag: translation
tags:
- qkv
---

# A sequence-to-sequence Transformer trained with qkv

The weights are in the form of `{architecture}`. `config.yaml` and `tokenizer/` are the configuration and the
tokenizers that it was trained with.

```python
import torch
from transformers import AutoModelForSeq2SeqLM{import_tokenizer}

model = AutoModelForSeq2SeqLM.from_pretrained(".")
{code}```

`generate` starts from `<s>` (id 2) and ends with `</s>` (id 3); a source ends with `</s>` and has no `<s>`. The padding
is id 0. An output bias of {never:.0f} keeps `<pad>`, `<s>` and `<mask>` out of the output.
"""
WITH_TOKENIZER = """tokenizer = AutoTokenizer.from_pretrained(".")
{target}batch = tokenizer(["a text"], return_tensors="pt", padding=True, return_token_type_ids=False)
print({decoder}.batch_decode(model.generate(**batch), skip_special_tokens=True))
"""
WITHOUT_TOKENIZER = """tokenizers = load_tokenizers(Path("tokenizer"))
ids = torch.tensor([[*tokenizers.src.encode("a text"), tokenizers.src.special.eos]])
print(tokenizers.tgt.decode(model.generate(ids)[0].tolist()))
"""


def model_card(saved: SavedModel, architecture: str, has_tokenizer: bool) -> str:
    if not has_tokenizer:
        needed = "\nfrom pathlib import Path\n\nfrom qkv.text import load_tokenizers"
        return HEAD.format(architecture=architecture, never=NEVER, import_tokenizer=needed, code=WITHOUT_TOKENIZER)
    target, decoder = "", "tokenizer"
    if not saved.tokenizers.shared:
        target = f'tgt_tokenizer = AutoTokenizer.from_pretrained("{TARGET}")\n'
        decoder = "tgt_tokenizer"
    code = WITH_TOKENIZER.format(target=target, decoder=decoder)
    return HEAD.format(architecture=architecture, never=NEVER, import_tokenizer=", AutoTokenizer", code=code)
