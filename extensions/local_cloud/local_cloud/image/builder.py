"""Builds the node image and the framework environments once per machine.

A digest of the inputs identifies the image and each environment.
"""

from __future__ import annotations

import ast
import fcntl
import hashlib
import os
import platform
import shutil
import ssl
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlparse

from ..hosts.podman import LABEL, Podman, as_root, remove_as_root

SOURCES = Path(__file__).parent
SUITE = "bookworm"
REPOSITORY = "localhost/deeplearning-node"
BASE = f"localhost/deeplearning-base:{SUITE}"
INPUTS_LABEL = f"{LABEL}.inputs"
IMAGE_FILES = ("Containerfile", "files")
ENVIRONMENTS = SOURCES / "environments"
KEYRING = "/usr/share/keyrings/debian-archive-keyring.gpg"
# For machines that do not run Debian SUITE and therefore lack the keys of this release.
PUBLIC_SOURCES = [
    f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE} main",
    f"deb [signed-by={KEYRING}] http://deb.debian.org/debian {SUITE}-updates main",
    f"deb [signed-by={KEYRING}] http://deb.debian.org/debian-security {SUITE}-security main",
]
# The file in which programs on hosts find the certificate authorities.
CERTIFICATE_AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"
BUILD_TIMEOUT = 1800.0
# The settings of pip that hosts need to reach the machine's package indexes. Other settings are not copied.
PIP_SETTINGS = frozenset(
    ("cert", "extra-index-url", "find-links", "index-url", "no-index", "proxy", "retries", "timeout", "default-timeout", "trusted-host")
)
# Settings that apt needs to reach the machine's package mirrors. Other settings are not copied.
APT_SETTINGS = ("Acquire::http", "Acquire::https", "Acquire::Check-", "Acquire::Retries")

Progress = Callable[[str], None]


def cache_directory() -> Path:
    """Return the folder of environments, which all local clouds share."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "deeplearning-local-cloud"


def node_image(podman: Podman, progress: Progress = print) -> str:
    """Return the name of the node image, and build the image if it is missing. Raises `PodmanError`."""
    name = f"{REPOSITORY}:{digest(IMAGE_FILES)}"
    with _locked("image"):
        if not podman.succeeds("image", "exists", name):
            _build_image(podman, name, progress)
    return name


def environment_names() -> list[str]:
    """Return the names of environments that can be built."""
    return sorted(path.stem for path in ENVIRONMENTS.glob("*.txt"))


def environment(podman: Podman, image: str, name: str, progress: Progress = print) -> Path:
    """Return the folder of an environment that hosts see as /opt/<name>. If the folder is missing, a container of `image` builds it.

    Raises `ValueError` for a name that is not in `environment_names()`.
    """
    if name not in environment_names():
        raise ValueError(f"Unknown environment {name!r}. Choose from {', '.join(environment_names())}.")
    inputs = ("build-environment", *(f"environments/{path.name}" for path in sorted(ENVIRONMENTS.glob(f"{name}.*"))))
    place = cache_directory() / f"{name}-{SUITE}-{platform.machine()}-{digest(inputs)}"
    with _locked(name):
        if not place.is_dir():
            progress(f"building the {name} environment for hosts (once, takes a minute or more)")
            _build_environment(podman, image, name, place)
    return place


def digest(names: tuple[str, ...]) -> str:
    """Return a digest of the paths and contents of files and folders in this module's folder, as twelve hex digits."""
    total = hashlib.sha256(SUITE.encode())
    for name in names:
        top = SOURCES / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            if path.is_file() and "__pycache__" not in path.parts:
                total.update(f"\0{path.relative_to(SOURCES)}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]


def _build_image(podman: Podman, name: str, progress: Progress) -> None:
    with tempfile.TemporaryDirectory(prefix="deeplearning-node-") as scratch:
        context = Path(scratch) / "context"
        shutil.copytree(SOURCES / "files", context / "files", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy(SOURCES / "Containerfile", context)
        _write_apt_configuration(context / "apt")
        _make_readable(context)
        if not podman.succeeds("image", "exists", BASE):
            progress("fetching Debian for the node image")
            _make_base(podman, context)
        podman.configure(BASE)
        progress("building the node image")
        podman(
            *("build", "--quiet", "--network=host", f"--build-arg=BASE={BASE}", f"--label={INPUTS_LABEL}={name.rpartition(':')[2]}"),
            *(f"--tag={name}", str(context)),
            timeout=BUILD_TIMEOUT,
        )


def _make_readable(folder: Path) -> None:
    """Set the modes of system files, so that they do not depend on the umask at checkout."""
    for path in folder.rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)


def _make_base(podman: Podman, context: Path) -> None:
    """Create the base image with mmdebstrap, or pull it from a registry if mmdebstrap is missing."""
    if not shutil.which("mmdebstrap"):
        podman("pull", "--quiet", "docker.io/library/debian:12", timeout=BUILD_TIMEOUT)
        podman("tag", "docker.io/library/debian:12", BASE)
        return
    archive = context.parent / "base.tar"
    sources = context / "apt" / "machine.list"
    aptopt = f"--aptopt={context / 'apt/apt.conf.d/90machine'}"
    mirrors = [str(sources)] if sources.exists() else PUBLIC_SOURCES
    # This command runs as root, as podman does, because an ordinary user would need user namespaces and a range of IDs.
    command = as_root("mmdebstrap", "--quiet", "--variant=minbase", "--include=ca-certificates", aptopt, SUITE, str(archive), *mirrors)
    subprocess.run(command, check=True, timeout=BUILD_TIMEOUT)
    podman("import", "--quiet", str(archive), BASE, timeout=BUILD_TIMEOUT)


def _write_apt_configuration(folder: Path) -> None:
    """Write this machine's settings for package sources, if the machine runs the same release of Debian."""
    (folder / "apt.conf.d").mkdir(parents=True)
    settings = _output("apt-config", "dump").splitlines()
    wanted = [line for line in settings if line.startswith(APT_SETTINGS) and not line.endswith(' "";')]
    (folder / "apt.conf.d" / "90machine").write_text("".join(line + "\n" for line in wanted))
    source = f"deb [signed-by={KEYRING}] $(REPO_URI) $(CODENAME) $(COMPONENT)"
    lines = _output("apt-get", "indextargets", "--format", source, "Created-By: Packages", "Origin: Debian").splitlines()
    sources = [line for line in dict.fromkeys(lines) if line.split()[3].partition("-")[0] == SUITE]
    if sources:
        (folder / "machine.list").write_text("".join(line + "\n" for line in sources))


def _build_environment(podman: Podman, image: str, name: str, place: Path) -> None:
    unfinished = place.with_suffix(".unfinished")
    remove_as_root(unfinished)
    unfinished.mkdir(parents=True)
    unfinished.chmod(0o755)
    with tempfile.TemporaryDirectory(prefix="deeplearning-pip-") as scratch:
        configuration, folders = pip_configuration(_output(sys.executable, "-m", "pip", "config", "list"))
        (Path(scratch) / "pip.conf").write_text(configuration)
        volumes = {
            **{folder: f"{folder}:ro" for folder in folders},
            scratch: "/etc/pip:ro",
            str(SOURCES): "/build:ro",
            str(unfinished): f"/opt/{name}",
        }
        podman(
            *("run", "--rm", "--network=host", "--env=PIP_CONFIG_FILE=/etc/pip/pip.conf", f"--label={LABEL}=build"),
            *(f"--volume={source}:{target}" for source, target in volumes.items()),
            *(image, "sh", "/build/build-environment", name),
            timeout=BUILD_TIMEOUT,
        )
    unfinished.rename(place)


def machine_settings(own: Path, authorities: str | None = None) -> dict[str, str]:
    """Return the files and folders of this machine with which hosts install packages as this machine does, and their places on hosts.

    These are the certificate authorities (by default those of Python's ssl module), the settings for pip's indexes, which are written to
    the file `own`, and the folders that these settings name.
    """
    configuration, paths = pip_configuration(_output(sys.executable, "-m", "pip", "config", "list"), PIP_SETTINGS)
    own.write_text(configuration)
    own.chmod(0o644)
    # Debian's OpenSSL has no default file.
    authorities = authorities or ssl.get_default_verify_paths().cafile or CERTIFICATE_AUTHORITIES
    files = {authorities: CERTIFICATE_AUTHORITIES} if os.path.exists(authorities) else {}
    return {**{path: path for path in paths if path != CERTIFICATE_AUTHORITIES}, str(own): "/etc/pip.conf", **files}


def pip_configuration(listed: str, wanted: Collection[str] = ()) -> tuple[str, list[str]]:
    """Return a pip.conf with the settings of `pip config list`, and the local paths in it (for a file:// index, the parent folder).

    If `wanted` is not empty, other settings are left out.
    """
    sections: dict[str, dict[str, str]] = {"global": {}}
    environment: dict[str, str] = {}
    for line in listed.splitlines():
        name, _, value = line.partition("=")
        section, _, option = name.rpartition(".")
        if wanted and option not in wanted:
            continue
        settings = environment if section == ":env:" else sections.setdefault(section, {})
        settings[option] = " ".join(str(ast.literal_eval(value)).split())
    environment.pop("config-file", None)
    sections["global"] |= environment
    text = "".join(f"[{section}]\n" + "".join(f"{key} = {value}\n" for key, value in each.items()) for section, each in sections.items())
    return text, sorted({str(path) for path in map(_local_path, text.split()) if path and path.exists()})


def _local_path(word: str) -> Path | None:
    if word.startswith("file://"):
        # The pages of an index link to files next to the index: <folder>/simple, <folder>/files.
        return Path(unquote(urlparse(word).path)).parent
    return Path(word) if word.startswith("/") else None


def _output(*command: str) -> str:
    """Return the output of a command, or '' if the command fails or is missing."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""


@contextmanager
def _locked(name: str) -> Iterator[None]:
    """Hold a lock, so that only one process at a time builds on this machine."""
    folder = cache_directory()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
