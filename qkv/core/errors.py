"""Errors for users: one sentence that says what is wrong, where, and how to fix it."""


class QkvError(Exception):
    """Base class of the errors that qkv raises on purpose.

    The message is one sentence: what is wrong, where, and how to fix it. An argument of the wrong type is also a
    `TypeError`, a wrong configuration also a `ValueError`. The command line prints it and exits with `exit_code`.

    Examples:
        >>> from qkv import QkvError, load_model
        >>> try:
        ...     load_model("nowhere")
        ... except QkvError as error:
        ...     print(error)
        nowhere: ...
    """

    exit_code = 1


class UsageError(QkvError):
    """The command, its options or the configuration are wrong."""

    exit_code = 2


class ConfigError(UsageError, ValueError):
    """A configuration, from a file or built in code, has a wrong key or value; each line names one."""


class ArgumentError(UsageError, TypeError):
    """A Python function was called with something of the wrong type."""


class DataError(QkvError):
    """The user's files cannot be used as they are; the message starts with `file:line`."""


class TeamBroken(QkvError):
    """Another process of the same run has died."""


class CorruptFolder(QkvError):
    """A folder that qkv wrote is incomplete or has changed since."""


def error_text(error: Exception) -> str:
    """The message of one of our errors or of the system's; before that of any other, its type."""
    return str(error) if isinstance(error, QkvError | OSError) else f"{type(error).__name__}: {error}"
