# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Defines Python environments: their paths in images, the text that identifies a build, and the commands of a build."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from typing import Any, Iterable, Mapping, NamedTuple, Sequence
from urllib.parse import unquote

from ... import _secret_forms
from .. import urls

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

# Paths of environments in Deep Learning AMIs: current AMIs, AMIs with conda, and the oldest AMIs (in the login user's home directory).
IMAGE_PLACES = ("/opt/{0}", "/opt/conda/envs/{0}", "~/anaconda3/envs/{0}", "~/miniconda3/envs/{0}")

# The project name at the beginning of a requirement, and the separators between the words of this name.
PROJECT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
SEPARATORS = re.compile(r"[-_.]+")

VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# A variable in place of a hidden part of a URL, and a line that names a package index.
HIDDEN = re.compile(r"\$\{([A-Z0-9_]+)\}")
INDEX = re.compile(r"-i|--(index|extra-index|pypi)")

# The number of lines to show from the end of an installer's output. These lines usually name the requirement that could not be installed,
# and the reason.
LAST_LINES = 12

# The beginnings of lines that pip prints about its sources and itself. These lines do not explain a failure.
NOISE = ("Looking in ", "WARNING: Location ", "[notice] ")

# The beginning of a line in which pip repeats the previous error.
REPETITION = "ERROR: No matching distribution found for "

# The last step of a build, and what to do if it fails.
REQUIREMENTS = "install the requirements"
CORRECTION = (
    "Correct the requirements file (python_environment_requirements). If the packages exist, check python_environment_index_url "
    "and python_environment_find_links. If a build could not import a package, see python_environment_no_build_isolation."
)

# The first step of a build, and what to do if it fails. The module venv of an interpreter that uv has installed fails behind a link.
CREATE = "create a virtual environment"
INTERPRETER = (
    "Check python_environment_python. This interpreter needs the module venv with ensurepip. If uv has installed it, specify its own path, "
    "and not a link to it."
)
ADVICE = {REQUIREMENTS: CORRECTION, CREATE: INTERPRETER}


class Interpreter(NamedTuple):
    path: str
    machine: str
    version: str


class BuildLocation(NamedTuple):
    """The location of one build of an environment.

    Builds for incompatible hosts are in separate folders. A build never changes once its record is complete, because a job may be
    using it. The link `current` points to the newest build.
    """

    folder: str
    digest: str

    @property
    def path(self) -> str:
        return os.path.join(self.folder, self.digest)

    @property
    def record(self) -> str:
        return self.path + ".json"

    @property
    def current(self) -> str:
        return os.path.join(self.folder, "current")


class BuildStep(NamedTuple):
    purpose: str
    argv: list[str]


def check_name(name: str) -> None:
    """Raise ValueError if the text is not a valid environment name."""
    if not NAME.fullmatch(name):
        raise ValueError("is not a valid name. Use letters, digits, '.', '_' and '-', and begin with a letter or digit.")


def executable(path: str) -> str:
    return os.path.join(path, "bin", "python")


def image_environment(name: str) -> str | None:
    """Return the path of the environment with the given name in the host's image, or None if the image has no such environment."""
    paths = (os.path.expanduser(place.format(name)) for place in IMAGE_PLACES)
    return next((path for path in paths if os.access(executable(path), os.X_OK)), None)


def image_environments() -> list[str]:
    found = (path for place in IMAGE_PLACES for path in glob.glob(executable(os.path.expanduser(place.format("*")))))
    return sorted({os.path.basename(os.path.dirname(os.path.dirname(path))) for path in found})


class Sources(NamedTuple):
    """How packages without a wheel are built.

    `variables` contains the environment variables of the installer. The packages in `last` are built without build isolation, after all
    other packages have been installed.
    """

    variables: Mapping[str, str] = {}
    last: Sequence[str] = ()


def read_sources(variables: Mapping[str, Any], last: Sequence[str], requirements: str) -> Sources:
    """Return how packages without a wheel are built. Raises ValueError for names and values that are not allowed."""
    for name, value in variables.items():
        if not VARIABLE.fullmatch(str(name)):
            raise ValueError(f"build_variables: {name!r} is not a valid variable name. Use letters, digits and '_'.")
        if isinstance(value, bool) or not isinstance(value, (str, int, float)) or re.search(r"[\n\0]", str(value)):
            raise ValueError(f"build_variables: {name}: the value {value!r} is not a single line of text or a number. Use quotes.")
    listed = {_project(line) for line in requirements.splitlines()}
    for name in last:
        if _canonical(str(name)) not in listed:
            raise ValueError(
                f"no_build_isolation: {name!r} is not in the requirements. Add the package to the requirements, or remove it. If its"
                f" requirement is a URL, write {f'{name} @ URL'!r}."
            )
    return Sources({str(name): str(value) for name, value in variables.items()}, sorted(_canonical(str(name)) for name in last))


def _canonical(name: str) -> str:
    return SEPARATORS.sub("-", name).lower()


def _project(line: str) -> str:
    """Return the canonical name of the project that a line requires, or an empty string if the line is an option."""
    found = PROJECT.match(line)
    return _canonical(found.group()) if found else ""


def without(requirements: str, projects: Sequence[str]) -> str:
    return "".join(line for line in requirements.splitlines(keepends=True) if _project(line) not in projects)


def specify(requirements: str, installer: str, interpreter: Interpreter, sources: Sources) -> str:
    """Return the text that identifies a build: the requirements, the installer, the Python interpreter, and how packages are built.

    The text is recorded and shown, so it omits what may be secret. See `hidden_identity`.
    """
    lines = [f"# installed by {installer} for {interpreter.path}\n"]
    lines += [f"# build variable {name}={value}\n" for name, value in sorted(sources.variables.items())]
    lines += [f"# without build isolation: {name}\n" for name in sources.last]
    return "".join(lines) + requirements


def hidden_identity(requirements: str, credentials: Mapping[str, str], index_url: str | None, find_links: Sequence[str]) -> str:
    """Return what also identifies a build but may contain secrets: the hidden parts of URLs, the package index, and `find_links`.

    The text is only a part of what the digest of a build is made of, and is neither recorded nor shown. It contains no credentials, because
    a token may change at each run. The path of an index selects packages, such as those for a version of CUDA. The query of an index does
    not: pip cannot use such a URL, and uv sends the query as it is, so that only tokens are there.
    """
    lines = [HIDDEN.sub(lambda found: credentials.get(found[1], found[0]), line) for line in requirements.splitlines() if "${" in line]
    lines += [f"--index-url {index_url}"] if index_url else []
    lines += [f"--find-links {each}" for each in find_links]
    return "".join(urls.without_credentials(line, has_query=not INDEX.match(line)) + "\n" for line in lines)


def place_of(directory: str, name: str, specification: str, interpreter: Interpreter, hidden: str = "") -> BuildLocation:
    """Return the location where the environment is built. `hidden` is what `hidden_identity` returns."""
    folder = os.path.join(directory, name, f"{interpreter.machine}-python{interpreter.version}")
    identity = specification + "\0" * bool(hidden) + hidden
    return BuildLocation(folder, hashlib.sha256(identity.encode()).hexdigest()[:12])


def install_arguments(requirements: str, first: str, sources: Sources) -> list[list[str]]:
    """Return a list of arguments for each call of the installer.

    `requirements` is a file with all requirements. `first` is a file with the requirements that are installed before packages are built
    without isolation. The installer's cache is not used if it may contain packages that were built with other variables, or for another
    version of a package.
    """
    cache = ["--no-cache-dir"] if sources.variables or sources.last else []
    calls = [[*cache, "--requirement", first]] if sources.last else []
    isolation = ["--no-build-isolation"] if sources.last else []
    return [*calls, [*cache, *isolation, "--requirement", requirements]]


def build_steps(installer: str, python: str, path: str, calls: Sequence[list[str]], uv: str | None, scratch: str) -> list[BuildStep]:
    """Return the commands that create the environment at `path` and call the installer once for each list of arguments in `calls`.

    `uv` is the path of the program uv on this host. If `uv` is None, the commands first install uv in `scratch`.
    """
    if installer == "pip":
        steps = [BuildStep(CREATE, [python, "-m", "venv", path])]
        return steps + [BuildStep(REQUIREMENTS, [executable(path), "-m", "pip", "install", *arguments]) for arguments in calls]
    steps = []
    if uv is None:
        own = os.path.join(scratch, "uv")
        uv = os.path.join(own, "bin", "uv")
        steps.append(BuildStep(f"{CREATE} for uv", [python, "-m", "venv", own]))
        steps.append(BuildStep("install uv (not needed with the installer pip)", [executable(own), "-m", "pip", "install", "uv"]))
    steps.append(BuildStep(CREATE, [uv, "venv", "--python", python, path]))
    # The users of an environment cannot write to it. Without --compile-bytecode, Python would compile the modules again at every import.
    install = [uv, "pip", "install", "--python", executable(path), "--compile-bytecode"]
    return steps + [BuildStep(REQUIREMENTS, [*install, *arguments]) for arguments in calls]


def installer_variables(index_url: str | None, find_links: Sequence[str]) -> dict[str, str]:
    """Return the environment variables that tell pip and uv where to find packages.

    Unlike command-line options, these variables are not visible to other users in the output of `ps`.
    """
    variables = {"PIP_NO_INPUT": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "UV_NO_PROGRESS": "1", "UV_PYTHON_DOWNLOADS": "never"}
    if index_url:
        variables.update(PIP_INDEX_URL=index_url, UV_DEFAULT_INDEX=index_url)
    if find_links:
        variables.update(PIP_FIND_LINKS=" ".join(find_links), UV_FIND_LINKS=",".join(find_links))
    return variables


def mask(text: str, secrets: Iterable[str]) -> str:
    """Return text from an installer with `***` in place of secrets, and of passwords in secrets such as `user:password`."""
    hidden = {part for secret in secrets for form in (secret, unquote(secret)) for part in (form, form.partition(":")[2])}
    return _secret_forms.mask(text, hidden, "***")


def describe_failure(step: BuildStep, output: str) -> str:
    lines = [line.rstrip() for line in output.splitlines() if line.strip() and not line.startswith(NOISE)]
    lines = [line for line in lines if not (line.startswith(REPETITION) and any("Could not find a version" in other for other in lines))]
    advice = [text for purpose, text in ADVICE.items() if step.purpose.startswith(purpose)]
    return "\n".join([f"could not {step.purpose}:", *lines[-LAST_LINES:], *advice])


def missing(status: int, report: Mapping[str, Any], errors: str) -> str:
    """Return a message that names the requirements that pip reports as missing, or an empty string if none is missing."""
    if status != 0:
        return (errors.strip().splitlines() or ["pip does not work in the environment"])[-1].replace("ERROR: ", "")
    names = [package["metadata"]["name"] for package in report.get("install", [])]
    return "it lacks " + ", ".join(names) if names else ""
