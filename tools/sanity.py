"""Runs `ansible-test sanity` on a copy of the collection, with a separate home directory.

The only server that the tests contact is the Python package index. ansible-test needs three things that a checkout does not provide:

- A path that ends in ansible_collections/NAMESPACE/NAME, with the imported collections in the same tree.
- A pip bootstrap script. Otherwise, ansible-test would download one from its own server.
- A file with pip's configuration, because ansible-test drops environment variables.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

from ansible_test._util.target.common.constants import CONTROLLER_PYTHON_VERSIONS, REMOTE_ONLY_PYTHON_VERSIONS

ROOT = Path(__file__).resolve().parent.parent
WORK = ROOT / ".cache" / "sanity"
HOME = WORK / "home"
TREE = WORK / "ansible_collections"
COLLECTION = TREE / "deeplearning" / "cluster"
DEPENDENCIES = ("amazon.aws",)
# Separate Python packages, which the built collection does not contain. `make lint` checks these packages.
NOT_IN_THE_COLLECTION = ("extensions/local_cloud/",)

BOOTSTRAP = '''\
"""Installs pip {version} in an empty virtual environment with the copy of pip that comes with Python."""
import subprocess
import sys

subprocess.run([sys.executable, "-m", "ensurepip", "--default-pip"], check=True, stdout=subprocess.DEVNULL)
subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "pip=={version}"], check=True)
'''


def copy_collection() -> None:
    """Copy the files that git tracks or would track, because git decides which files belong to the collection."""
    shutil.rmtree(COLLECTION, ignore_errors=True)
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT, check=True, capture_output=True, text=True
    )
    for name in filter(None, listed.stdout.split("\0")):
        source, target = ROOT / name, COLLECTION / name
        if name.startswith(NOT_IN_THE_COLLECTION) or not source.exists():  # deleted in the working tree
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, target, follow_symlinks=False)


def link_dependencies() -> None:
    """Create links to the installed collections that this collection imports."""
    spec = find_spec("ansible_collections")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("Run this script with the Python interpreter of the virtual environment.")
    for dependency in DEPENDENCIES:
        part = Path(*dependency.split("."))
        source = next(path for where in spec.submodule_search_locations if (path := Path(where) / part).is_dir())
        target = TREE / part
        target.parent.mkdir(parents=True, exist_ok=True)
        target.unlink(missing_ok=True)
        target.symlink_to(source, target_is_directory=True)


def write_pip_bootstrap() -> None:
    """Write pip's bootstrap script to ansible-test's cache, so that ansible-test does not download it."""
    from ansible_test._internal.python_requirements import get_venv_packages

    version = get_venv_packages(SimpleNamespace(version=f"{sys.version_info.major}.{sys.version_info.minor}"))["pip"]
    cache = HOME / ".ansible" / "test" / "cache"
    cache.mkdir(parents=True, exist_ok=True)
    (cache / f"get_pip_{version.replace('.', '_')}.py").write_text(BOOTSTRAP.format(version=version))


def write_pip_configuration() -> None:
    """Write pip's effective configuration (from files and environment) to the file that pip reads in the separate home directory."""
    listed = subprocess.run([sys.executable, "-m", "pip", "config", "list"], check=True, capture_output=True, text=True)
    options = {"quiet": "2"}
    for line in listed.stdout.splitlines():
        name, value = line.split("=", 1)
        options[name.rsplit(".", 1)[-1]] = " ".join(value.strip("'\"").split("\\n"))
    path = HOME / ".config" / "pip" / "pip.conf"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(["[global]\n", *(f"{name} = {value}\n" for name, value in options.items())]))


def search_path() -> str:
    """Return the search path with this environment's tools first, and with the folders of pyenv versions instead of pyenv's shims.

    A shim runs only the versions that are selected in pyenv, but ansible-test tries all versions that it finds.
    """
    entries = [Path(entry) for entry in os.environ["PATH"].split(os.pathsep)]
    shims = [entry for entry in entries if entry.name == "shims" and (entry.parent / "versions").is_dir()]
    real = [version for entry in shims for version in sorted(entry.parent.glob("versions/*/bin"))]
    path = [Path(sys.executable).parent, *(entry for entry in entries if entry not in shims), *real]
    return os.pathsep.join(map(str, path))


def oldest_python(path: str) -> str:
    """Return the oldest installed version of Python that ansible-test supports on hosts or on the controller."""
    return next(each for each in (*REMOTE_ONLY_PYTHON_VERSIONS, *CONTROLLER_PYTHON_VERSIONS) if shutil.which(f"python{each}", path=path))


def main() -> int:
    """Run ansible-test sanity with the arguments, and return its exit status.

    The tests use each installed Python or, with the argument --oldest-python, only the oldest one.
    """
    copy_collection()
    link_dependencies()
    write_pip_bootstrap()
    write_pip_configuration()
    # ansible-test uses git to distinguish source files from build products.
    subprocess.run(["git", "init", "--quiet"], cwd=COLLECTION, check=True)
    path = search_path()
    python = oldest_python(path) if "--oldest-python" in sys.argv else "default"
    arguments = [argument for argument in sys.argv[1:] if argument != "--oldest-python"]
    command = [Path(sys.executable).with_name("ansible-test"), "sanity", "--color", "no", "--python", python, *arguments]
    environment = {**os.environ, "HOME": str(HOME), "PATH": path}
    return subprocess.run(command, cwd=COLLECTION, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
