"""Shape checks on: every annotated tensor of these packages is checked when its function is called."""

from jaxtyping import install_import_hook

CHECKED = ["qkv.functional", "qkv.kernels", "qkv.layers", "qkv.models"]

# Before any test module imports them; the hook must stay for the whole session.
install_import_hook(CHECKED, "beartype.beartype")
