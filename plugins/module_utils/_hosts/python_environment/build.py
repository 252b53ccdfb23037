# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Builds Python environments on shared storage, one for each combination of requirements, installer and interpreter."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import stat
import tempfile
from typing import Any
from urllib.parse import urlsplit

from ansible.module_utils.basic import AnsibleModule

from ..._common.python_environment.definition import (
    BuildLocation,
    Interpreter,
    Sources,
    build_steps,
    check_name,
    describe_failure,
    executable,
    hidden_identity,
    image_environment,
    image_environments,
    install_arguments,
    installer_variables,
    mask,
    missing,
    place_of,
    read_sources,
    specify,
    without,
)
from ..._files import parse_object, read_object
from .record import EnvironmentRefusalError, exclusive

PROBE = "import json, platform, sys; print(json.dumps([platform.machine(), '{0}.{1}'.format(*sys.version_info)]))"
# The arguments that make pip report missing requirements without contacting an index.
CHECK = ["-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--report", "-", "--no-index", "--no-deps", "--requirement"]


def from_image(name: str) -> dict[str, Any]:
    """Return the result for an environment in the host's image. Raises RefusalError if the image has no environment with that name."""
    path = image_environment(name)
    if path is None:
        there = ", ".join(image_environments()) or "none"
        raise EnvironmentRefusalError(
            f"this host's image has no environment with this name (available: {there}). Choose another name, or specify requirements."
        )
    return outcome(path, "image")


def outcome(path: str, origin: str, **others: Any) -> dict[str, Any]:
    return {"changed": False, "prefix": path, "python": executable(path), "origin": origin, **others}


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Find or build the environment. Raises RefusalError, ValueError or OSError."""
    params = module.params
    check_name(params["name"])
    if params["contents"] is None:
        return from_image(params["name"])
    requirements = params["contents"]
    interpreter = inspect_python(module)
    sources = read_sources(params["build_variables"], params["no_build_isolation"], requirements)
    specification = specify(requirements, params["installer"], interpreter, sources)
    hidden = hidden_identity(requirements, params["credentials"], params["index_url"], params["find_links"])
    place = place_of(params["directory"], params["name"], specification, interpreter, hidden)
    check_owner(params["directory"], place)
    if "specification" in read_object(place.record) and current_path(place) == place.path:
        return outcome(place.path, "built")
    reason = ""
    path = image_environment(params["name"])
    if path is not None:
        reason = lacks(module, executable(path), requirements)
        if not reason:
            return outcome(path, "image")
        reason = f"# {path} in the image is not used: {reason}\n"
    current = current_path(place) or place.path
    before = read_object(current + ".json").get("specification", "")
    if before == specification and current != place.path:
        reason += "# a part of a URL that is not shown, the package index or find_links has changed\n"
    header = "environment " + params["name"]
    diff = {"before_header": header, "after_header": header, "before": reason + before, "after": specification}
    changed = module.check_mode or provide(module, place, interpreter, sources, specification)
    return outcome(place.path, "built", changed=changed, diff=[diff] if changed else [])


def check_owner(directory: str, place: BuildLocation) -> None:
    """Raise RefusalError if other users can change the folders, because this user and other users' jobs run programs from these folders."""
    for folder in (directory, os.path.dirname(place.folder), place.folder, place.path):
        for look in (os.lstat, os.stat):
            try:
                status = look(folder)
            except FileNotFoundError:
                continue
            shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()))
            if status.st_uid not in (0, os.geteuid()) or (shared and not stat.S_ISLNK(status.st_mode)):
                raise EnvironmentRefusalError(
                    f"other users can change {folder}. Specify a directory that only this user or root can change."
                )


def inspect_python(module: AnsibleModule) -> Interpreter:
    """Return the Python interpreter to build with. Raises RefusalError if it does not exist or cannot be run."""
    wanted = module.params["python"]
    path = shutil.which(wanted)
    if path is None:
        raise EnvironmentRefusalError(f"python {wanted!r} does not exist. Specify a Python interpreter that is installed on this host.")
    status, output, errors = module.run_command([path, "-c", PROBE])
    if status != 0:
        reason = errors.strip().rstrip(".") or f"it ended with exit status {status}"
        raise EnvironmentRefusalError(f"python {wanted!r} cannot be run: {reason}. Specify a Python interpreter that works on this host.")
    machine, version = json.loads(output)
    return Interpreter(path, machine, version)


def current_path(place: BuildLocation) -> str | None:
    try:
        return os.path.join(place.folder, os.readlink(place.current))
    except OSError:
        return None


def lacks(module: AnsibleModule, python: str, requirements: str) -> str:
    """Return a message that names the missing requirements of an environment, or an empty string if none is missing."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8") as file:
        file.write(requirements)
        file.flush()
        # Jobs run as another user, who cannot import the packages in this user's home directory.
        environment = {"PIP_CONFIG_FILE": os.devnull, "PYTHONNOUSERSITE": "1", **module.params["credentials"]}
        status, output, errors = module.run_command([python, *CHECK, file.name], environ_update=environment)
    return mask(missing(status, parse_object(output), errors), secrets(module))


def secrets(module: AnsibleModule) -> list[str]:
    """Return the values that must not be in messages and records: an installer may print the URLs that contain them."""
    urls = [urlsplit(url) for url in (module.params["index_url"] or "", *module.params["find_links"])]
    return [*module.params["credentials"].values(), *(part for url in urls for part in (url.netloc.rpartition("@")[0], url.query))]


def provide(module: AnsibleModule, place: BuildLocation, interpreter: Interpreter, sources: Sources, specification: str) -> bool:
    """Build the environment if it is missing and make it the current one. Return whether this host changed anything.

    Raises RefusalError.
    """
    os.makedirs(place.folder, exist_ok=True)
    with exclusive(place.record, module.params["timeout"]) as record:
        known = record.read()
        if record.waited and known:
            # Another host has just built the environment and made it current, or has failed to do so. The other host's result also applies
            # to this host.
            if "error" in known:
                raise EnvironmentRefusalError(known["error"])
            return False
        built = "specification" not in known
        if built:
            record.write({})
            try:
                build(module, place, interpreter, sources, specification)
            except EnvironmentRefusalError as error:
                shutil.rmtree(place.path, ignore_errors=True)
                record.write({"error": str(error)})
                raise
            record.write({"specification": specification})
        return make_current(place) or built


def make_current(place: BuildLocation) -> bool:
    """Point the link `current` to the environment, and return whether the link changed."""
    if current_path(place) == place.path:
        return False
    unfinished = f"{place.current}.{place.digest}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    os.symlink(place.digest, unfinished)
    os.replace(unfinished, place.current)
    return True


def build(module: AnsibleModule, place: BuildLocation, interpreter: Interpreter, sources: Sources, specification: str) -> None:
    """Create the environment and install the requirements. If a command fails, raises RefusalError with the command's last output."""
    params = module.params
    shutil.rmtree(place.path, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as scratch:
        requirements, first = (os.path.join(scratch, name) for name in ("requirements.txt", "first.txt"))
        for file, contents in ((requirements, specification), (first, without(specification, sources.last))):
            with open(file, "w", encoding="utf-8") as stream:
                stream.write(contents)
        environment = {**installer_variables(params["index_url"], params["find_links"]), **sources.variables, **params["credentials"]}
        programs = os.path.dirname(executable(place.path))
        calls = install_arguments(requirements, first, sources)
        for step in build_steps(params["installer"], interpreter.path, place.path, calls, shutil.which("uv"), scratch):
            # Builds without isolation can use programs that other packages have installed, such as cmake.
            status, output, errors = module.run_command(step.argv, environ_update=environment, path_prefix=programs)
            if status != 0:
                # The message does not name this host, because the other hosts report the same failure.
                raise EnvironmentRefusalError(mask(describe_failure(step, output + errors), secrets(module)))
