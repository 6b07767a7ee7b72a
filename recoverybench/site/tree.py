"""The directory of a site: what is written into it, what is left as it is, and what goes.

* A file that this program did not write is never overwritten and never removed; neither is one
  that somebody changed since. An empty one is nobody's work: a cut of the power leaves those.
* A file is replaced by a rename: a reader, or a web server, sees the old one or the new one.
* Before a file is written for the first time, a journal says so. A publication that was ended
  anywhere, by whatever, is gone on with by the next one, which knows what is whole by its digest.
* One process at a time, by a lock on the directory.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from recoverybench.errors import UsageError, bad_value

MANIFEST: Final = ".recoverybench-site.json"
JOURNAL: Final = ".recoverybench-site.journal"
FORMAT: Final = "recoverybench site"
SCHEMA: Final = 1

_TEMPORARY: Final = ".recoverybench-tmp"
_OPTION: Final = "--out"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a site.

    Attributes:
        sha256: of its content. made_of: digest of what it was made from; empty: not known before
            it is made, so it is made every time.
    """

    sha256: str
    made_of: str


@dataclass(frozen=True, slots=True)
class Changes:
    """What a publication did to the files of a site, each a list of paths in it."""

    written: tuple[str, ...]
    kept: tuple[str, ...]
    removed: tuple[str, ...]


class Tree:
    """The directory, locked and open for one publication; use it in a with statement."""

    def __init__(self, root: Path) -> None:
        """Make the directory if it is not there, and lock it.

        Raises:
            UsageError: it is a file, holds something else, or is being written.
        """
        self.root = root
        self._fresh = not os.path.lexists(root)
        try:
            root.mkdir(parents=True, exist_ok=True)
            self._lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (FileExistsError, NotADirectoryError):
            why = "it is a link that leads to none" if root.is_symlink() else "it is a file"
            raise bad_value(_OPTION, str(root), f"a directory ({why})") from None
        except OSError as error:
            raise _unwritable(root, error) from None
        try:
            self._begin()
        except OSError as error:
            os.close(self._lock)
            raise _unwritable(root, error) from None
        except BaseException:
            os.close(self._lock)
            raise

    def _begin(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            allowed = "a site that no other process is writing"
            raise bad_value(_OPTION, str(self.root), allowed) from None
        self._ours = _known(self.root)
        self._known = {path: entries[-1] for path, entries in self._ours.items()}
        self._made = {(str(Path(p).parent), e.made_of): p for p, e in self._known.items()}
        self._new: dict[str, Entry] = {}
        self._written: list[str] = []
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        self._journal = os.fdopen(os.open(self.root / JOURNAL, flags, 0o666), "a", encoding="utf-8")
        if self._journal.tell():
            self._journal.write("\n")  # the last line may have no end: a full disk, or a kill

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        with contextlib.suppress(OSError):  # a line that did not fit on the disk, which was said
            self._journal.close()
        if not self._known and not self._new:  # nothing came of it
            (self.root / JOURNAL).unlink(missing_ok=True)
            if self._fresh:
                with contextlib.suppress(OSError):
                    self.root.rmdir()
        os.close(self._lock)

    def find(self, folder: str, made_of: str) -> str | None:
        """The file in a folder that was made of this, whole or not; None: there is none."""
        return self._made.get((folder, made_of))

    def peek(self, path: str, made_of: str) -> bytes | None:
        """A file that is there whole, and made of this; None: it has to be made."""
        entry = self._known.get(path)
        if entry is None or entry.made_of != made_of:
            return None
        content = self._content(path)
        return content if content is not None and _digest(content) == entry.sha256 else None

    def read(self, path: str, made_of: str) -> bytes | None:
        """The same, of a file that stays in the site."""
        content = self.peek(path, made_of)
        if content is not None:
            self._new[path] = self._known[path]
        return content

    def has(self, path: str, made_of: str) -> bool:
        """Whether `read` gives something; then it stays."""
        done = self._new.get(path)
        if done is not None and done.made_of == made_of:
            return True  # it was looked at, or written, before
        return self.read(path, made_of) is not None

    def write(self, path: str, content: bytes, made_of: str = "") -> None:
        """Put a file there, unless it is there with this content.

        Raises:
            UsageError: somebody else's file has that name, or somebody changed it.
            OSError: it cannot be written.
        """
        entry = Entry(_digest(content), made_of)
        target = self.root / path
        known = self._known.get(path)
        if known is not None and self._content(path) == content:
            self._new[path] = entry
            if known != entry:
                self._note(path, entry)
            return
        self._own_folder(path)
        if os.path.lexists(target) and not self._is_ours(path):
            what = "not a file of this site" if known is None else "not as publish wrote it"
            raise UsageError(f"{target}: {what}: move it away, or use another {_OPTION}")
        self._new[path] = entry
        self._note(path, entry)
        temporary = _temporary(target)
        temporary.unlink(missing_ok=True)
        try:
            with temporary.open("xb") as file:
                file.write(content)
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._written.append(path)

    def no_room(self, error: OSError) -> UsageError | None:
        """The error to raise where the site's place takes no more; None: it is another one."""
        full = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
        return _unwritable(self.root, error) if error.errno in full else None

    def finish(self) -> Changes:
        """Remove what was written earlier and does not belong any more, and close the books.

        What somebody changed since stays, and is no file of the site from now on.
        """
        stale = []
        for path in sorted(self._known.keys() - self._new.keys()):
            if not os.path.lexists(self.root / path) or self._is_ours(path):
                stale.append(path)
                if self._folder(path) is not None:
                    (self.root / path).unlink(missing_ok=True)
        for folder in sorted({str(Path(p).parent) for p in stale} - {"."}, reverse=True):
            for one in (folder, *map(str, Path(folder).parents)):
                with contextlib.suppress(OSError):  # it is not empty, or gone
                    if one != ".":
                        (self.root / one).rmdir()
        self._write_manifest()
        self._journal.close()
        (self.root / JOURNAL).unlink(missing_ok=True)
        written = set(self._written)
        kept = tuple(sorted(self._new.keys() - written))
        return Changes(tuple(sorted(written)), kept, tuple(stale))

    def _write_manifest(self) -> None:
        data = {
            "format": FORMAT,
            "schema": SCHEMA,
            "files": {
                path: {"sha256": entry.sha256, "made_of": entry.made_of}
                for path, entry in sorted(self._new.items())
            },
        }
        target = self.root / MANIFEST
        temporary = _temporary(target)
        temporary.unlink(missing_ok=True)
        with temporary.open("xb") as file:
            file.write(json.dumps(data, indent=1).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)

    def _note(self, path: str, entry: Entry) -> None:
        """Say in the journal that the file is ours, before it is."""
        self._journal.write(json.dumps([path, entry.sha256, entry.made_of]) + "\n")
        self._journal.flush()
        self._known[path] = entry
        self._ours.setdefault(path, []).append(entry)

    def _is_ours(self, path: str) -> bool:
        """Whether what is there is what this program wrote, now or before it was ended."""
        content = self._content(path)
        known = self._ours.get(path)
        if content is None or known is None:
            return False
        return not content or _digest(content) in {entry.sha256 for entry in known}

    def _content(self, path: str) -> bytes | None:
        folder = self._folder(path)
        target = self.root / path
        if folder is None or target.is_symlink() or not target.is_file():
            return None
        return target.read_bytes()

    def _folder(self, path: str) -> Path | None:
        """The folder of a file, if each on the way is a folder and leads nowhere else."""
        at = self.root
        for name in Path(path).parent.parts:
            at /= name
            if at.is_symlink() or not at.is_dir():
                return None
        return at

    def _own_folder(self, path: str) -> None:
        at = self.root
        for name in Path(path).parent.parts:
            at /= name
            if at.is_symlink() or (at.exists() and not at.is_dir()):
                raise UsageError(
                    f"{at}: not a folder of this site: move it away, or use another {_OPTION}"
                )
            at.mkdir(exist_ok=True)


def _unwritable(root: Path, error: OSError) -> UsageError:
    return bad_value(_OPTION, str(root), f"a place that can be written ({error.strerror})")


def _known(root: Path) -> dict[str, list[Entry]]:
    """The files that are ours, by the manifest and by the journal of a publication that was ended;
    of each all that it may hold, the latest last.

    Raises:
        UsageError: what is in the directory is not ours, or of a newer release.
    """
    content = sorted(os.listdir(root))
    if MANIFEST not in content and JOURNAL not in content:
        if content:
            held = f"it holds {content[0]!r}"
            allowed = f"a directory that is new, empty or made by publish ({held})"
            raise bad_value(_OPTION, str(root), allowed)
        return {}
    for name in (MANIFEST, JOURNAL):
        if (root / name).is_symlink():
            raise UsageError(f"{root / name}: {_OPTION}: a link: expected what publish wrote there")
    kept = _manifest(root / MANIFEST) if MANIFEST in content else {}
    known = {path: [entry] for path, entry in kept.items()}
    if JOURNAL in content:
        for noted in _lines(root / JOURNAL):
            for path, entry in noted.items():
                known.setdefault(path, []).append(entry)
                _temporary(root / path).unlink(missing_ok=True)
        _temporary(root / MANIFEST).unlink(missing_ok=True)
    return known


def _manifest(path: Path) -> dict[str, Entry]:
    try:
        data = json.loads(path.read_bytes())
        if data["format"] != FORMAT or not isinstance(data["schema"], int):
            raise ValueError
        if data["schema"] > SCHEMA:
            raise UsageError(f"{path}: schema = {data['schema']}: expected at most {SCHEMA}")
        return {
            name: Entry(str(entry["sha256"]), str(entry["made_of"]))
            for name, entry in data["files"].items()
            if _inside(name)
        }
    except (ValueError, KeyError, TypeError, AttributeError, OSError, RecursionError):
        allowed = "what publish wrote there: remove the directory, or use another"
        raise UsageError(f"{path}: {_OPTION}: expected {allowed}") from None


def _lines(path: Path) -> list[Mapping[str, Entry]]:
    """What the journal says; a half-written last line says nothing."""
    found: list[Mapping[str, Entry]] = []
    for line in path.read_bytes().split(b"\n"):
        with contextlib.suppress(ValueError, TypeError):
            name, digest, made_of = json.loads(line)
            if _inside(name):
                found.append({name: Entry(str(digest), str(made_of))})
    return found


def _inside(name: Any) -> bool:
    """Whether it is a path in the site, and one that can be removed with it."""
    if not isinstance(name, str) or "\0" in name or name in ("", MANIFEST, JOURNAL):
        return False
    parts = Path(name).parts
    return not Path(name).is_absolute() and ".." not in parts and bool(parts)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}{_TEMPORARY}")


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
