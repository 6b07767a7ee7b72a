"""What this interpreter is, for a supervisor that runs on another: one line of JSON on stdout.

It is asked of releases that nobody has tried, so every import may fail, and the answer says which
did. The syntax is that of older versions of Python, so that these can say what they are.

``{"version", "release", "version_info", "packages": {name: version}, "edited": [name, …],
"lacks": {what: reason}}``; what a worker can lack is in `NEEDS`.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import platform
import re
import sys
from importlib import metadata

MODULES = ("numpy", "ml_dtypes", "jax", "optax", "flax.nnx", "orbax.checkpoint", "grain")
"""What no worker can do without, then what is ours; each built on those before it."""

OURS = ("life", "sizes", "contents")


def packages() -> dict[str, str]:
    """Every distribution that is installed, by the name that it gives itself; the first that is
    found is the one that is imported.
    """
    found: dict[str, str] = {}
    for each in metadata.distributions():
        name = each.metadata["Name"]
        if name:
            found.setdefault(str(name), str(each.version))
    return found


def edited() -> list[str]:
    """Distributions that are installed from a directory, whose files may change at any time."""
    found = []
    for each in metadata.distributions():
        text = each.read_text("direct_url.json")
        if text and "dir_info" in json.loads(text):
            found.append(str(each.metadata["Name"]))
    return sorted(found)


def lacks() -> dict[str, str]:
    """What cannot be done here, each with the reason; see `NEEDS`."""
    for module in (*MODULES, *("recoverybench.worker." + name for name in OURS)):
        try:
            importlib.import_module(module)
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            return {"workers": f"{module} cannot be imported ({_said(error)})"}
    return {what: reason for what, has in NEEDS.items() if (reason := has()) is not None}


def _said(error: BaseException) -> str:
    """An exception in a line, without the path of a module that Python puts behind it."""
    text = re.sub(r" \(/[^)]*\)?$", "", " ".join(str(error).split()))
    return f"{type(error).__name__}: {text[:160]}"


def _initialize() -> str | None:
    import jax

    wanted = ("heartbeat_timeout_seconds", "initialization_timeout", "coordinator_bind_address")
    known = inspect.signature(jax.distributed.initialize).parameters
    missing = [name for name in wanted if name not in known]
    return f"jax.distributed.initialize has no {missing[0]}" if missing else None


def _setting(name: str) -> str | None:
    import jax

    return None if hasattr(jax.config, name) else f"JAX has no setting {name}"


def _recoverability() -> str | None:
    return _setting("jax_enable_recoverability")


def _preemption() -> str | None:
    return _setting("jax_enable_preemption_service")


def _agreement() -> str | None:
    from jax._src.lib import _jax  # type: ignore[attr-defined]

    known = hasattr(_jax.DistributedRuntimeClient, "get_live_nodes")
    return None if known else "JAX's coordination service does not tell who is alive"


def _pathways() -> str | None:
    try:
        importlib.import_module("recoverybench.worker.pathways.controller")
    except Exception as error:
        return f"its pathwaysutils is another one ({_said(error)})"
    return None


NEEDS = {
    "workers": _initialize,
    "recoverability": _recoverability,
    "preemption": _preemption,
    "agreement": _agreement,
    "pathways": _pathways,
}
"""What some worker needs -> the reason why it is not there, or None."""


def main() -> None:
    """Answer; whatever the imports print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    answer = {
        "version": sys.version,
        "release": platform.python_version(),
        "version_info": list(sys.version_info[:3]),
        "packages": packages(),
        "edited": edited(),
        "lacks": {} if sys.version_info < (3, 11) else lacks(),
    }
    print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
