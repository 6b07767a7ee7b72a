"""Entry of a worker that is started cold: ``python -m recoverybench.worker SOCKET SLOT ATTEMPT``.

A fourth argument is the network namespace that it is to live in. It connects before it
imports, so that the job's description arrives meanwhile.
"""

from __future__ import annotations

import time

_STARTED_NS = time.monotonic_ns()

if __name__ == "__main__":
    import sys

    from recoverybench import parenthood
    from recoverybench.worker.boot import main

    if parenthood.near():
        parenthood.die_with(parenthood.supervisor())
    if len(sys.argv) > 4:
        from recoverybench.worker import links

        links.enter(sys.argv[4])
    main(sys.argv[1:4], _STARTED_NS)
