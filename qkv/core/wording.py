"""What pydantic finds wrong with a value, in plain words."""

from pydantic import ValidationError
from pydantic_core import ErrorDetails

BOUNDS = {
    "greater_than": ("greater than", "gt"),
    "greater_than_equal": ("at least", "ge"),
    "less_than": ("less than", "lt"),
    "less_than_equal": ("at most", "le"),
    "multiple_of": ("a multiple of", "multiple_of"),
}
"""By type of error: the words before the bound, and where its context has the bound."""
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "text",
    "list": "a list",
    "dict": "a group of keys",
}


def first_problem(error: ValidationError) -> str:
    """The first problem and where it is."""
    problem = error.errors(include_url=False, include_input=False)[0]
    place = ".".join(str(part)[:40] for part in problem["loc"][:8])
    if problem["type"] == "missing":
        return f"the key {place} is missing"
    if problem["type"] == "extra_forbidden":
        return f"the key {place} is unknown"
    return f"{place}: {in_plain_words(problem)}" if place else in_plain_words(problem)


def in_plain_words(problem: ErrorDetails) -> str:
    """What is wrong with the value, without its place."""
    found, context = problem["type"], problem.get("ctx", {})
    if found in ("value_error", "assertion_error"):
        return str(context.get("error", problem["msg"]))
    if found in BOUNDS:
        words, limit = BOUNDS[found]
        return f"must be {words} {context[limit]}"
    if found == "json_invalid":
        return f"is not valid JSON: {context['error']}"
    wanted = _TYPES.get(found.partition("_")[0])
    if wanted and found.endswith(("_type", "_parsing", "_from_float")):
        return f"must be {wanted}"
    return problem["msg"].replace("Input should", "must")
