"""Following pods: a list, then a watch from there, for as long as it takes.

A stream that ends or breaks is begun again from the last version that was seen; where the server
no longer has that one (410), everything is listed anew, and what is missing then is deleted.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from recoverybench.launchers._kubernetes.api import Api, ApiError, Stream

_READ_S: Final = 90.0
_STREAM_S: Final = "60"
_LASTED_S: Final = 1.0
_GONE: Final = 410
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 5.0
PATIENCE: Final = 30
"""Failures in a row, with nothing heard in between, after which the server counts as lost: with
the pauses between them more than two minutes."""


class _Expired(Exception):
    """The version that a watch was to begin at is gone."""


class Watching:
    """Hears of every change to the pods of a selector, on a thread of its own.

    Args:
        api: the server. path: of the list. selector: labels.
        heard: called with a pod's object, and whether it is deleted. Never twice at once.
        lost: called once, with why, if the server cannot be followed any more.

    Raises:
        ApiError: the first list fails.
    """

    def __init__(
        self,
        api: Api,
        path: str,
        selector: str,
        heard: Callable[[dict[str, Any], bool], None],
        lost: Callable[[str], None],
    ) -> None:
        self._api, self._path, self._selector = api, path, selector
        self._heard, self._lost = heard, lost
        self._known: dict[str, dict[str, Any]] = {}
        self._stop = threading.Event()
        self._stream: Stream | None = None
        self._failures = 0
        self._version = self._list()
        self._thread = threading.Thread(target=self._run, name="rb-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop, and wait for the thread."""
        self._stop.set()
        if self._stream is not None:
            with suppress(Exception):
                self._stream.close()
        self._thread.join(5.0)

    def _run(self) -> None:
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            before = self._failures
            try:
                self._follow()
            except _Expired:
                self._version = ""
                self._stop.wait(_FIRST_PAUSE_S)  # a server that says so of every version it gives
            except ApiError as error:
                self._failures += 1
                if error.status in (401, 403) or self._failures > PATIENCE:
                    self._lost(str(error))
                    return
            pause_s = pause_s * 2 if self._failures > before > 0 else _FIRST_PAUSE_S
            if self._failures and self._stop.wait(min(pause_s, _LONGEST_PAUSE_S)):
                return

    def _follow(self) -> None:
        """One stream, to its end.

        Raises:
            _Expired: it can go on only from a new list. ApiError: the server refuses.
        """
        if not self._version:
            self._version = self._list()
            self._failures = 0
        try:
            stream = self._api.stream(
                self._path,
                _READ_S,
                watch="1",
                resourceVersion=self._version,
                labelSelector=self._selector,
                allowWatchBookmarks="true",
                timeoutSeconds=_STREAM_S,
            )
        except ApiError as error:
            if error.status == _GONE:
                raise _Expired from None
            raise
        self._stream = stream
        if self._stop.is_set():
            stream.close()
        began, heard = time.monotonic(), False
        for line in stream.lines():
            if line.strip():
                heard = True
                self._event(line)
        # A stream that ends at once with nothing said, again and again, must not become a busy
        # loop; one on which nothing happens for a minute is as it should be.
        healthy = heard or time.monotonic() - began > _LASTED_S
        self._failures = 0 if healthy else self._failures + 1
        if self._failures > PATIENCE and not self._stop.is_set():
            raise ApiError("every watch ends at once", 0)

    def _event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            kind, item = event["type"], event["object"]
        except (ValueError, KeyError, TypeError):
            raise ApiError(f"{self._path}: a watch says what is no event", 0) from None
        if kind == "ERROR":
            if item.get("code") == _GONE:
                raise _Expired
            raise ApiError(f"{self._path}: {item.get('message')}", int(item.get("code") or 0))
        metadata = item.get("metadata") or {}
        self._version = str(metadata.get("resourceVersion") or self._version)
        if kind != "BOOKMARK":
            self._tell(item, deleted=kind == "DELETED")

    def _tell(self, item: dict[str, Any], *, deleted: bool) -> None:
        uid = str(item["metadata"]["uid"])
        if deleted:
            self._known.pop(uid, None)
        else:
            self._known[uid] = item
        self._heard(item, deleted)

    def _list(self) -> str:
        """Tell of all that is there, and of what no longer is; returns the list's version."""
        found = self._api.get(self._path, labelSelector=self._selector)
        items = {str(item["metadata"]["uid"]): item for item in found.get("items") or ()}
        for uid in [uid for uid in self._known if uid not in items]:
            self._tell(self._known[uid], deleted=True)
        for item in items.values():
            self._tell(item, deleted=False)
        return str((found.get("metadata") or {}).get("resourceVersion") or "")
