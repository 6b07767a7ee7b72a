"""The commands in the documents are accepted: each is read and planned as `run` would do it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from recoverybench.campaign import launching
from recoverybench.cli import run
from recoverybench.plan.suite import DEFAULT_SUITE, load_suite

REPOSITORY = Path(__file__).resolve().parent.parent
PAGES = (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md")))
ELSEWHERE = ("--env", "--env-python", "--command", "path/to/")
"""What needs files or packages that are not here."""


def commands() -> list[tuple[str, str]]:
    """Page and arguments of each `recoverybench run` in a block of code."""
    found = []
    for page in PAGES:
        if page.name == "cli.md":
            continue
        for block in re.findall(r"^ *```\w*\n(.*?)^ *```", page.read_text(), re.DOTALL | re.M):
            for line in block.replace("\\\n", " ").splitlines():
                said = re.search(r"(?:^|\")\s*recoverybench run\b([^\"#]*)", line)
                if said and not any(word in said[1] for word in ELSEWHERE):
                    found.append((page.name, " ".join(said[1].split())))
    return found


def test_there_are_some() -> None:
    assert {page for page, _ in commands()} >= {"README.md", "kubernetes.md", "ray.md", "tpu.md"}


@pytest.mark.parametrize(("page", "text"), commands())
def test_a_documented_command_is_accepted(
    page: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAX_PLATFORMS", "tpu" if page in ("kubernetes.md", "tpu.md") else "cpu")
    monkeypatch.chdir(tmp_path)
    file = re.search(r"^```toml\n(.*?)^```", _text("kubernetes.md"), re.DOTALL | re.M)
    assert file is not None
    (tmp_path / "kubernetes.toml").write_text(file[1])
    options = run.command.make_context("run", shlex.split(text)).params
    launcher = options["launcher"] or "local"
    suite = load_suite(
        options["suite"] or DEFAULT_SUITE, run._overrides(options), launcher=launcher
    )
    assert suite.cells and not suite.unsupported, (page, suite.unsupported)
    if launcher.startswith("kubernetes"):
        pytest.importorskip("yaml")
        assert "kind: JobSet" in launching.manifests(launcher, suite)


def _text(name: str) -> str:
    return (REPOSITORY / "docs" / name).read_text()
