"""Files that commands write: never over another one, whole under their name or not there."""

from __future__ import annotations

import errno
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from recoverybench.errors import UsageError
from recoverybench.new_file import check_new, new_file


def write(path: Path, content: bytes = b"all") -> None:
    with new_file(path) as file:
        file.write(content)


def test_it_has_its_name_when_it_is_whole_and_its_folder_is_made(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "table.csv"
    with new_file(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    assert os.listdir(path.parent) == ["table.csv"]
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _file(path: Path) -> None:
    path.write_bytes(b"theirs")


def _link_to_nothing(path: Path) -> None:
    path.symlink_to("nowhere")


@pytest.mark.parametrize("make", [_file, Path.mkdir, _link_to_nothing])
@pytest.mark.parametrize("use", [write, check_new])
def test_what_is_there_stays(
    make: Callable[[Path], None], use: Callable[[Path], None], tmp_path: Path
) -> None:
    path = tmp_path / "x.html"
    make(path)
    before = path.lstat()
    with pytest.raises(UsageError, match=r"^--out = '.*x\.html': expected a file that does not"):
        use(path)
    assert path.lstat() == before and os.listdir(tmp_path) == ["x.html"]


def test_what_came_meanwhile_stays_too(tmp_path: Path) -> None:
    path = tmp_path / "x.html"
    with pytest.raises(UsageError, match="does not exist yet"), new_file(path):
        path.write_bytes(b"theirs")
    assert path.read_bytes() == b"theirs" and os.listdir(tmp_path) == ["x.html"]


def test_nothing_is_left_where_writing_failed(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), new_file(tmp_path / "x") as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []


def test_a_check_leaves_nothing(tmp_path: Path) -> None:
    check_new(tmp_path / "folder" / "x", "--report")
    assert os.listdir(tmp_path / "folder") == []


@pytest.mark.parametrize(
    ("name", "said"),
    [("x" * 300, "File name too long"), ("file/x", "Not a directory"), ("file/y/x", "Not a dir")],
)
def test_a_place_that_cannot_be_written_is_one_line(name: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for use in (write, check_new):
        with pytest.raises(UsageError) as caught:
            use(tmp_path / name)
        assert said in str(caught.value) and "\n" not in str(caught.value)
    assert os.listdir(tmp_path) == ["file"]


def test_a_file_system_without_links(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(*_: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuses)
    write(tmp_path / "x", b"all")
    assert (tmp_path / "x").read_bytes() == b"all" and os.listdir(tmp_path) == ["x"]


@pytest.mark.parametrize("size", [10, 3_000_000])
def test_a_file_that_may_not_grow_is_one_line(size: int, tmp_path: Path) -> None:
    """As on a full disk: the error comes with a write, or when the file is closed."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, limits[1]))
    try:
        with pytest.raises(UsageError, match="can be written \\(File too large"):
            write(tmp_path / "x", b"x" * size)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, before)
    assert os.listdir(tmp_path) == []


def test_an_error_of_another_file_is_not_called_one_of_this(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), new_file(tmp_path / "x"):
        (tmp_path / "another").read_bytes()
    assert os.listdir(tmp_path) == []
