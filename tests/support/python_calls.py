"""Every public function, called with what it does not take; in a process without the checks of shapes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import qkv
from qkv.core.errors import QkvError

WRONG: list[Any] = [
    None,
    3,
    -1,
    2.5,
    float("nan"),
    True,
    b"x",
    "",
    "nowhere",
    [],
    ["a", 3],
    {},
    object(),
    Path("nowhere"),
]


MODEL: Any = None


def calls(run: str, out: str) -> dict[str, Callable[[Any], object]]:
    """By name, functions of the one argument that is wrong."""
    config = f"{run}/config.yaml"
    recipe = qkv.load_config(qkv.Recipe, config)
    translator = qkv.Translator(run, engine="torch")
    return {
        "load_model": qkv.load_model,
        "save_model folder": lambda wrong: qkv.save_model(wrong, MODEL),
        "save_model model": lambda wrong: qkv.save_model(out, wrong),
        "load_config class": lambda wrong: qkv.load_config(wrong, config),
        "load_config path": lambda wrong: qkv.load_config(qkv.Recipe, wrong),
        "load_config overrides": lambda wrong: qkv.load_config(qkv.Recipe, config, wrong),
        "Recipe data": lambda wrong: qkv.Recipe(data=wrong, text=recipe.text),
        "Recipe text": lambda wrong: qkv.Recipe(data=recipe.data, text=wrong),
        "Recipe key": lambda wrong: recipe.model_copy(update={"model": wrong}),
        "Recipe copy": lambda wrong: recipe.model_copy(update=wrong),
        "Recipe from data": qkv.Recipe.model_validate,
        "Recipe from JSON": qkv.Recipe.model_validate_json,
        "Trainer": qkv.Trainer,
        "resume": qkv.Trainer.resume,
        "resume overrides": lambda wrong: qkv.Trainer.resume(run, wrong),
        "Translator": qkv.Translator,
        "Translator engine": lambda wrong: qkv.Translator(run, engine=wrong),
        "Translator search": lambda wrong: qkv.Translator(run, "torch", search=wrong),
        "Translator workers": lambda wrong: qkv.Translator(run, workers=wrong),
        "Translator batch_tokens": lambda wrong: qkv.Translator(run, batch_tokens=wrong),
        "Translator max_src_tokens": lambda wrong: qkv.Translator(run, max_src_tokens=wrong),
        "Translator draft": lambda wrong: qkv.Translator(run, "torch", "greedy", draft=wrong).translate("abc"),
        "translate": translator.translate,
        "translate nbest": lambda wrong: translator.translate("abc", nbest=wrong),
        "translate prefixes": lambda wrong: translator.translate(["abc"], prefixes=wrong),
        "translate prefix": lambda wrong: translator.translate("abc", prefixes=wrong),
        "translate required": lambda wrong: translator.translate(["abc"], required=wrong),
        "translate required words": lambda wrong: translator.translate("abc", required=wrong),
        "translate forbidden": lambda wrong: translator.translate("abc", forbidden=wrong),
        "stream": lambda wrong: list(translator.stream(wrong)),
        "score": translator.score,
    }


def refuse_wrong(run: str, out: str) -> None:
    """Each call either works or fails with one of qkv's own sentences."""
    found = []
    for name, call in calls(run, out).items():
        for wrong in WRONG:
            try:
                call(wrong)
            except QkvError as error:
                if not str(error) or "pydantic" in str(error):
                    found.append(f"{name}({wrong!r}): {error}")
            except Exception as error:
                found.append(f"{name}({wrong!r}): {type(error).__name__}: {error}")
    assert not found, "\n".join(found)
