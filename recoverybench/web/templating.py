"""Templates: Jinja2 that escapes every value, over the templates of all parts that make pages."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from recoverybench import __version__
from recoverybench.visible import clean

_MAKERS = ("web", "report", "compare", "site")
"""Parts that have templates; ``web/base.html.j2`` is recoverybench/web/templates/base.html.j2."""


def render(template: str, **values: Any) -> str:
    """A template, filled; a value is text wherever it stands, unless it is `Markup`.

    Raises:
        jinja2.UndefinedError: a value is missing.
    """
    page: str = _environment().get_template(template).render(**values)
    return page


def asset(part: str, *names: str) -> str:
    """The text of a file of a part: ``asset("web", "style", "base.css")``."""
    text = files(f"recoverybench.{part}").joinpath(*names).read_text("utf-8")
    return text.rstrip("\n")


@cache
def _environment() -> Environment:
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_source),
        finalize=_visible,
    )
    environment.globals |= {
        "version": __version__,
        "css": Markup(asset("web", "style", "base.css")),
    }
    return environment


def _source(name: str) -> str | None:
    part, _, rest = name.partition("/")
    return asset(part, "templates", *rest.split("/")) if part in _MAKERS else None


def _visible(value: Any) -> Any:
    """Text of a run with its control characters as escapes; markup of ours as it is."""
    if isinstance(value, str) and not isinstance(value, Markup) and not value.isprintable():
        return clean(value)
    return value
