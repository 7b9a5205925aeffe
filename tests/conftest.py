"""Shape checks on: every annotated tensor of these packages is checked when its function is called."""

import os
import signal

from jaxtyping import install_import_hook

# Two workers are tested on a machine with one core, too.
os.environ.setdefault("QKV_MAX_WORKERS", "2")

# A shell lets its background jobs ignore Ctrl-C, and so would the programs that tests start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

CHECKED = ["qkv.functional", "qkv.kernels", "qkv.layers", "qkv.models"]

# Before any test module imports them; the hook must stay for the whole session.
install_import_hook(CHECKED, "beartype.beartype")

from qkv.export.int8 import choose_backend  # noqa: E402  # after the hook

# Before any test module imports ctranslate2, as qkv itself does it.
choose_backend()
