"""Which processes of a command are its ranks, read from a made-up /proc."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from recoverybench.external.expressions import compiled
from recoverybench.external.output import Output
from recoverybench.external.processes import (
    WRAPPERS,
    Found,
    by_rank,
    children,
    descendants,
    look,
    rank_of,
    started_ns,
)
from recoverybench.external.spec import Ranks


def process(
    proc: Path,
    pid: int,
    parent: int,
    *,
    program: str = "python3.11",
    environ: str = "",
    arguments: str = "",
    start: int | None = None,
    state: str = "S",
) -> None:
    """Writes what /proc says of a process, and that it is its parent's child."""
    folder = proc / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True)
    (folder / "task" / str(pid) / "children").write_text("")
    fields = [state, str(parent), *["0"] * 17, str(pid if start is None else start), *["0"] * 30]
    # A name may hold anything, brackets and blanks among it.
    (folder / "stat").write_text(f"{pid} (a) b) {' '.join(fields)}")
    (folder / "environ").write_bytes(environ.replace(" ", "\0").encode())
    (folder / "cmdline").write_bytes(arguments.replace(" ", "\0").encode())
    (folder / "exe").symlink_to(f"/usr/bin/{program}")
    above = proc / str(parent) / "task" / str(parent) / "children"
    if above.exists():
        above.write_text(f"{above.read_text()} {pid}")


def all_of(proc: Path, root: int, ranks: Ranks) -> list[Found]:
    found = [look(pid, ranks, proc) for pid in descendants([root], proc)]
    return [one for one in found if one is not None]


def test_descendants_are_found_parents_first(tmp_path: Path) -> None:
    for pid, parent in ((1, 0), (2, 1), (3, 1), (4, 2), (5, 9)):
        process(tmp_path, pid, parent)
    assert children(1, tmp_path) == [2, 3]
    assert list(descendants([1], tmp_path)) == [1, 2, 3, 4]
    assert children(77, tmp_path) == []
    assert look(77, Ranks(), tmp_path) is None


def test_a_name_with_brackets_is_read(tmp_path: Path) -> None:
    process(tmp_path, 7, 3, environ="A=1 RANK=2", arguments="python train.py")
    found = look(7, Ranks(), tmp_path)
    assert found == Found(7, 3, 7, "python3.11", "python train.py", 2)


def test_a_process_that_has_ended_is_nobody(tmp_path: Path) -> None:
    process(tmp_path, 7, 3, environ="RANK=2", state="Z")
    found = look(7, Ranks(), tmp_path)
    assert found is not None and found.zombie and found.rank is None
    assert by_rank([found], Ranks()) == {}


def test_the_worker_of_a_shell_loop_is_not_the_shell(tmp_path: Path) -> None:
    """The shell has the rank in its environment, and so have the worker and its helpers."""
    process(tmp_path, 1, 0, program="bash", environ="RECOVERYBENCH_RANK=1")
    process(tmp_path, 2, 1, environ="RECOVERYBENCH_RANK=1", arguments="python train.py")
    process(tmp_path, 3, 2, environ="RECOVERYBENCH_RANK=1", arguments="python loader")
    process(tmp_path, 4, 1, program="sleep", environ="RECOVERYBENCH_RANK=1")
    found = all_of(tmp_path, 1, Ranks())
    assert by_rank(found, Ranks())[1].pid == 2
    # Between two attempts there may be something else that is no shell.
    between = [one for one in found if one.pid in (1, 4)]
    assert by_rank(between, Ranks(), None, {1: "python3.11"}) == {}


def test_the_workers_of_a_launcher(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, arguments="python -m torch.distributed.run")
    for rank in range(3):
        process(tmp_path, 10 + rank, 1, environ=f"LOCAL_RANK=0 RANK={rank}")
    found = by_rank(all_of(tmp_path, 1, Ranks(environment=("RANK",))), Ranks(environment=("RANK",)))
    assert {rank: one.pid for rank, one in found.items()} == {0: 10, 1: 11, 2: 12}


def test_a_rank_on_the_command_line_and_a_program_by_its_words(tmp_path: Path) -> None:
    ranks = Ranks(arguments=compiled(r"--rank[= ](\d+)", "t"), process=compiled(r"train\.py", "t"))
    process(tmp_path, 1, 0, arguments="python launch.py --rank 1")
    process(tmp_path, 2, 1, arguments="python train.py --rank 1")
    assert by_rank(all_of(tmp_path, 1, ranks), ranks)[1].pid == 2


def test_what_a_process_said_of_itself_comes_first(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, environ="RANK=0")
    process(tmp_path, 2, 1)
    found = all_of(tmp_path, 1, Ranks())
    assert by_rank(found, Ranks(), {2: 0})[0].pid == 2


def test_of_two_with_one_rank_it_is_the_older(tmp_path: Path) -> None:
    process(tmp_path, 1, 0, program="bash")
    process(tmp_path, 20, 1, environ="RANK=0", start=500)
    process(tmp_path, 30, 1, environ="RANK=0", start=400)
    assert by_rank(all_of(tmp_path, 1, Ranks()), Ranks())[0].pid == 30


@given(st.binary(max_size=200))
def test_any_environment_can_be_read(environ: bytes) -> None:
    rank = rank_of(environ, "", Ranks())
    assert rank is None or rank >= 0


@given(st.integers(0, 99_999), st.sampled_from(Ranks().environment))
def test_a_rank_is_read_from_each_variable(rank: int, name: str) -> None:
    environ = f"A=b\0{name}={rank}\0C=".encode()
    assert rank_of(environ, "", Ranks()) == rank


def test_wrappers_are_programs_that_start_others() -> None:
    assert {"sh", "bash", "env", "timeout"} <= WRAPPERS
    assert "python3" not in WRAPPERS and "sleep" not in WRAPPERS


def test_this_process_is_read_as_it_is() -> None:
    import time

    found = look(os.getpid(), Ranks())
    assert found is not None and found.parent == os.getppid()
    assert started_ns(found) <= time.monotonic_ns()
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert child.pid in children(os.getpid())
    finally:
        child.kill()
        child.communicate()


def test_output_is_cut_into_lines_dated_and_kept(tmp_path: Path) -> None:
    heard: list[tuple[str, int]] = []
    output = Output(tmp_path / "log", lambda line, t: heard.append((line, t)), 0)
    try:
        os.write(output.writer, b"one\ntwo\r 3%\r 4%\r\nhal")
        assert output.read()
        assert [line for line, _ in heard] == ["one", "two", " 3%", " 4%"]
        os.write(output.writer, "f ü\n\n".encode())
        output.close_writer()
        assert not output.read()
    finally:
        output.close()
    assert [line for line, _ in heard] == ["one", "two", " 3%", " 4%", "half ü", ""]
    assert list(output.tail) == ["one", "two", "3%", "4%", "half ü"]
    assert [t for _, t in heard] == sorted(t for _, t in heard)
    assert len((tmp_path / "log").read_text().splitlines()) == 6


def test_a_last_line_without_an_end_is_heard(tmp_path: Path) -> None:
    heard: list[str] = []
    for terminal in (True, False):
        log = tmp_path / str(terminal)
        output = Output(log, lambda line, _: heard.append(line), 0, terminal=terminal)
        os.write(output.writer, b"bye")
        output.close_writer()
        assert not output.read()
        output.close()
    assert heard == ["bye", "bye"]
