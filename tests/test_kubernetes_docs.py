"""What docs/kubernetes.md shows is valid, and grants what is asked for."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from recoverybench.launchers._kubernetes import access, settings
from tests.kubernetes_api import problems

yaml: Any = pytest.importorskip("yaml")


def blocks(repository: Path, language: str) -> list[str]:
    text = (repository / "docs" / "kubernetes.md").read_text(encoding="utf-8")
    found = re.findall(rf"^( *)```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)
    return ["\n".join(line[len(i) :] for line in body.splitlines()) for i, body in found]


def objects(repository: Path) -> list[dict[str, Any]]:
    return [item for text in blocks(repository, "yaml") for item in yaml.safe_load_all(text)]


def test_manifests_are_valid(repository: Path) -> None:
    found = objects(repository)
    kinds = ["PersistentVolumeClaim", "ServiceAccount", "Role", "RoleBinding", "Pod"]
    assert [item["kind"] for item in found] == kinds
    for item in found:
        assert problems(item) == [], item["kind"]


def test_the_role_grants_what_a_run_needs(repository: Path) -> None:
    (role,) = [item for item in objects(repository) if item["kind"] == "Role"]
    granted = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    for right in (*access.NEEDED, access.EVICT):
        name = "/".join(filter(None, (right.resource, right.subresource)))
        assert (right.group, name, right.verb) in granted, right.words


def test_the_file_is_read(repository: Path) -> None:
    (text,) = blocks(repository, "toml")
    found = settings.of(tomllib.loads(text), "kubernetes.toml")
    assert found.groups(8) == (2, 4)
    commented = re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE)
    every = tomllib.loads(commented)
    settings.of(every, "kubernetes.toml")
    assert set(every) == set(settings._READERS), "every key is shown"
