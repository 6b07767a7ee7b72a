"""What several tests need, and which of them may run beside each other."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tests.sharing import Sharing, turn_of

if TYPE_CHECKING:
    from tests.desk import Desk

# The same examples every time where it counts for everybody, and no time limit of one
# example: two slow cores are not a defect of the code.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", parent=settings.get_profile("default"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "default")

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the checkout."""
    return REPOSITORY


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    """A supervisor's end of the control channel over TCP."""
    from tests.desk import desk_at

    with desk_at(tmp_path / "d") as made:
        yield made


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What takes longest comes first; a file's tests stay in their order."""
    items.sort(key=lambda item: turn_of(item.nodeid))


def pytest_configure(config: pytest.Config) -> None:
    """What tests find is the same wherever they run.

    Folders of tests have short names in each of several processes, as they have in one: the name
    of a Unix socket has to fit in, and messages to users leave out the middle of a long path. And
    an interrupt ends a process, which it does not where a shell has begun the tests behind it.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    within = Path(config.option.basetemp or "")
    if "PYTEST_XDIST_WORKER" in os.environ and within.parent.name.startswith("pytest-"):
        config.option.basetemp = None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Where there are several processes, how tests are shared out among them."""
    return Sharing(config, log)
