"""A static site over all runs of a results directory: `publish`."""

from __future__ import annotations

from recoverybench.site.publish import Published, publish

__all__ = ["Published", "publish"]
