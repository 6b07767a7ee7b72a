"""A comparison as one HTML page, which runs no script and fetches nothing."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from recoverybench import __version__
from recoverybench.compare import words
from recoverybench.compare.forest import forest
from recoverybench.compare.model import Comparison
from recoverybench.visible import clean
from recoverybench.web.templating import asset


def to_html(comparison: Comparison) -> str:
    """The page. Every string of a run is text in it, wherever it stands."""
    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_visible,
    )
    template = environment.from_string(_text("recoverybench.compare", "compare.html.j2"))
    page: str = template.render(
        version=__version__,
        css=Markup(asset("web", "style", "base.css")),
        c=comparison,
        w=words,
        answer=words.answer(comparison),
        sides=(
            words.side_line("Base", comparison.base),
            words.side_line("New", comparison.new),
        ),
        versions=", ".join(words.version_lines(comparison)),
        forest=forest(comparison),
        level=f"{100 * comparison.confidence:.0f}",
        basis=words.basis(comparison),
        skipped=(*comparison.base.skipped, *comparison.new.skipped),
    )
    return page


def _visible(value: Any) -> Any:
    """Text of a run with its control characters as escapes; markup of ours as it is."""
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _text(package: str, name: str) -> str:
    return files(package).joinpath("templates", name).read_text("utf-8")
