"""One registry for every kind of part."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest

from recoverybench.errors import HarnessError, UsageError
from recoverybench.plan import catalogue
from recoverybench.plan.catalogue import Kind


@pytest.fixture
def faults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of faults, importable, in place of the built-in one."""
    folder = tmp_path / "somefaults"
    folder.mkdir()
    for name, text in {
        "__init__.py": "",
        "base.py": '"""Not a fault."""',
        "_helper.py": '"""Not a fault."""',
        "cut_link.py": '"""The network is cut.\n\nMore."""\ncreate = print\n',
        "broken.py": "def create(:\n",
        "failing.py": '"""Fails at import."""\nraise RuntimeError("no such device")',
    }.items():
        (folder / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(catalogue.KINDS, "faults", Kind("fault", folder, "somefaults"))
    for name in [name for name in sys.modules if name.startswith("somefaults")]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def test_parts_are_files_and_their_names_have_hyphens(faults: Path) -> None:
    found = {entry.name: entry for entry in catalogue.entries("faults")}
    assert list(found) == ["broken", "cut-link", "failing"]
    assert found["cut-link"].summary == "The network is cut."
    assert found["cut-link"].path == faults / "cut_link.py"
    assert found["broken"].summary.startswith("cannot be read: ")
    assert catalogue.load("faults", "cut-link").__name__ == "somefaults.cut_link"


@pytest.mark.parametrize(
    ("name", "words"),
    [("failing", "RuntimeError: 'no such device'"), ("broken", "SyntaxError")],
)
def test_a_part_that_cannot_be_imported_is_named(faults: Path, name: str, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        catalogue.load("faults", name)
    assert f"fault {name!r} (" in str(caught.value)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_unknown_name_gets_the_nearest_known_one(faults: Path) -> None:
    with pytest.raises(UsageError, match="--fault = 'cut-lnik': did you mean 'cut-link'"):
        catalogue.find("faults", "cut-lnik", "--fault")
    with pytest.raises(UsageError, match="fault = 3: known: broken, cut-link, failing"):
        catalogue.find("faults", 3)


def test_a_missing_folder_is_an_incomplete_installation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(catalogue.KINDS, "faults", Kind("fault", tmp_path / "none", "x"))
    with pytest.raises(HarnessError, match="installation is incomplete"):
        catalogue.entries("faults")


def test_third_party_parts_are_entry_points(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, faults: Path
) -> None:
    package = tmp_path / "vendor_pkg"
    (package / "parts").mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported while listing')")
    (package / "parts" / "__init__.py").write_text("")
    (package / "parts" / "quake.py").write_text('"""The earth shakes."""')
    (package / "parts" / "weekly.toml").write_text('[suite]\ndescription = "every week"\n')

    def point(name: str, module: str, group: str) -> EntryPoint:
        made = EntryPoint(name, module, f"recoverybench.{group}")
        object.__setattr__(made, "dist", SimpleNamespace(name="vendor"))
        return made

    points = {
        "recoverybench.faults": (
            point("quake", "vendor_pkg.parts.quake", "faults"),
            point("cut-link", "vendor_pkg.parts.quake", "faults"),
            point("gone", "vendor_pkg.absent", "faults"),
        ),
        "recoverybench.suites": (point("weekly", "vendor_pkg.parts", "suites"),),
    }
    monkeypatch.setattr(catalogue, "_entry_points", lambda group: points.get(group, ()))
    found = {entry.name: entry for entry in catalogue.entries("faults")}
    assert found["quake"].summary == "The earth shakes."
    assert found["quake"].source == "vendor_pkg.parts.quake (vendor)"
    assert found["cut-link"].summary == "The network is cut.", "a built-in part keeps its name"
    assert found["gone"].summary == "cannot be found: vendor_pkg.absent"
    weekly = catalogue.find("suites", "weekly")
    assert (weekly.summary, weekly.module) == ("every week", None)
    assert weekly.path == package / "parts" / "weekly.toml"


def test_presets_are_read_and_never_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "good.py").write_text('raise SystemExit\nPRESETS: dict = {"a": {"batch_size": 6}}')
    (tmp_path / "computed.py").write_text('PRESETS = dict(a={"batch_size": 6})')
    (tmp_path / "without.py").write_text("x = 1")
    monkeypatch.setitem(catalogue.KINDS, "workloads", Kind("workload", tmp_path, "w"))
    assert catalogue.presets("good") == {"a": {"batch_size": 6}}
    with pytest.raises(HarnessError, match="PRESETS is not a literal"):
        catalogue.presets("computed")
    with pytest.raises(HarnessError, match="needs a literal dictionary PRESETS"):
        catalogue.presets("without")


def test_suites_are_not_modules() -> None:
    with pytest.raises(ValueError, match="not modules"):
        catalogue.load("suites", "quick")


def test_every_built_in_part_says_what_it_is_for() -> None:
    for kind in catalogue.KINDS:
        for entry in catalogue.entries(kind):
            assert entry.summary, f"{kind}: {entry.source} has no first line"
            assert not entry.summary.startswith("cannot"), entry
    for name in catalogue.names("workloads"):
        presets = catalogue.presets(name)
        assert all(isinstance(preset["batch_size"], int) for preset in presets.values()), name


def test_listing_and_suites_import_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from recoverybench.analysis import journal\n"
        "from recoverybench.plan import catalogue, suite\n"
        "from recoverybench.results import store\n"
        "for kind in catalogue.KINDS: catalogue.entries(kind)\n"
        "suite.load_suite('quick', device_limit=64)\n"
        "heavy = {'jax', 'numpy', 'pandas', 'plotly', 'orbax', 'flax'} & set(sys.modules)\n"
        "sys.exit(f'imported {sorted(heavy)}' if heavy else 0)\n"
    )
    root = Path(catalogue.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
