"""The built collection: its contents, and its use by name in an empty project."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WANTED = {
    "CHANGELOG.rst",
    "CONTRIBUTING.md",
    "FILES.json",
    "LICENSE",
    "MANIFEST.json",
    "README.md",
    "SECURITY.md",
    "changelogs",
    "docs",
    "examples",
    "meta",
    "playbooks",
    "plugins",
    "roles",
}
PLAYBOOKS = sorted(path.stem for path in (ROOT / "playbooks").glob("*.yml"))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A directory that contains only the installed collection, as in a team's project."""
    folder = tmp_path_factory.mktemp("project")
    built = tmp_path_factory.mktemp("built")
    run(["ansible-galaxy", "collection", "build", str(ROOT), "--output-path", str(built)], folder)
    (archive,) = built.glob("deeplearning-cluster-*.tar.gz")
    # --force is necessary because the checkout itself is one of the collections in this virtual environment.
    run(["ansible-galaxy", "collection", "install", str(archive), "--offline", "--force", "-p", "collections"], folder)
    return folder


def run(command, folder):
    """Run a command in the folder, without the settings of this checkout, and return its output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ANSIBLE_")}
    environment["ANSIBLE_COLLECTIONS_PATH"] = str(folder / "collections")
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def installed(project):
    return project / "collections" / "ansible_collections" / "deeplearning" / "cluster"


def test_nothing_stray_is_installed(project):
    assert {path.name for path in installed(project).iterdir()} == WANTED
    listed = {entry["name"] for entry in json.loads((installed(project) / "FILES.json").read_text())["files"]}
    tracked = run(["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"], project).splitlines()
    files = {name for name in listed if (ROOT / name).is_file()}
    assert files <= set(tracked), "the collection contains build products"


def test_modules_come_from_the_installed_collection(project):
    modules = sorted(f"deeplearning.cluster.{path.stem}" for path in (ROOT / "plugins" / "modules").glob("[a-z]*.py"))
    documented = json.loads(run(["ansible-doc", "--json", *modules], project))
    assert sorted(documented) == modules
    for page in documented.values():
        assert Path(page["doc"]["filename"]).is_relative_to(installed(project))


def test_playbooks_are_found_by_name(project):
    (project / "site.yml").write_text("".join(f"- ansible.builtin.import_playbook: deeplearning.cluster.{name}\n" for name in PLAYBOOKS))
    assert "playbook: site.yml" in run(["ansible-playbook", "-i", "localhost,", "--list-tasks", "site.yml"], project)
