"""Entry of a worker that is started cold: ``python -m recoverybench.worker SOCKET SLOT ATTEMPT``.

It connects before it imports, so that the job's description arrives meanwhile.
"""

from __future__ import annotations

import time

_STARTED_NS = time.monotonic_ns()

if __name__ == "__main__":
    import sys

    from recoverybench.worker import parenthood
    from recoverybench.worker.boot import main

    parenthood.die_with(parenthood.supervisor())
    main(sys.argv[1:], _STARTED_NS)
