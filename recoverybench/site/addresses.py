"""Where each page of a site is: a function of what it shows and of nothing else. Pure.

So an address does not move when more runs come. A name that can be a file's on every system, and
in every address, is itself; any other one is as much of it as can, and eight bytes of its SHA-256.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any, Final

INDEX: Final = "index.html"
NOT_FOUND: Final = "404.html"
FEED: Final = "feed.xml"
MACHINES: Final = "index.json"
NO_JEKYLL: Final = ".nojekyll"
"""Without this file GitHub Pages leaves out what begins with ``_`` or ``.``."""

FOLDERS: Final = ("runs", "workloads", "compare", "data", "assets")
"""What a site has beside these, each one level deep; ``data`` has ``runs`` and ``compare``."""

_PLAIN: Final = re.compile(r"[a-z0-9](?:[a-z0-9._+-]{0,78}[a-z0-9])?")
_OTHER: Final = re.compile(r"[^a-z0-9._+-]+")


def name_of(text: str, *, plain: bool = True) -> str:
    """A file's name, without its ending, for any text; two texts never have the same.

    Lower-case letters, digits, ``.``, ``_``, ``+`` and ``-`` stay, a colon becomes ``__``. Capitals
    do not count as plain, for there are file systems that do not tell them apart; ``..`` does not,
    because it stands between the two sides of a comparison.

    Args:
        text: what is named. plain: False gives the form with the digest even to a plain name.
    """
    spelled = text.replace(":", "__")
    whole = "__" not in text and "___" not in spelled and ".." not in spelled
    if plain and whole and _PLAIN.fullmatch(spelled):
        return spelled
    kept = _OTHER.sub("-", text.lower()).replace("..", "-")[:48].strip("._+-")
    return f"{kept}~{_digest(text)}"


def run_page(run_id: str) -> str:
    """The report of a run."""
    return f"runs/{name_of(run_id)}.html"


def run_data(run_id: str) -> str:
    """What a run comes to, for machines."""
    return f"data/runs/{name_of(run_id)}.json"


def workload_page(workload: str) -> str:
    """All cells of a workload."""
    return f"workloads/{name_of(workload)}.html"


def label_name(label: str) -> str:
    """A label in the address of a comparison."""
    return name_of(label, plain=not label.startswith("run-"))


def unlabelled_name(run_id: str) -> str:
    """A run without a label in such an address; no label has the same."""
    return f"run-{name_of(run_id)}"


def comparison_page(base: str, new: str, part: str | None = None) -> str:
    """A comparison.

    Args:
        base, new: as `label_name` or `unlabelled_name` give them.
        part: which one, where two releases have several, see `part_name`.
    """
    return f"compare/{base}..{new}{'' if part is None else '@' + part}.html"


def comparison_data(page: str) -> str:
    """The same for machines."""
    return f"data/{page.removesuffix('.html')}.json"


def part_name(value: Any) -> str:
    """A short name for plain data that says what one comparison of several is of."""
    return _digest(json.dumps(value, sort_keys=True, default=str))


def anchor(cell: str) -> str:
    """The id of a cell (`Cell.key`, or one with an environment after it) on a page."""
    return f"cell-{_digest(cell)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
