#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
version_added: 0.1.0
short_description: Provide a host with the Python environment of a framework
description:
  - Runs on the host. Finds the environment that the host's image has under a name, or makes one from a requirements file.
  - An environment that was made is never changed. Other requirements make another one beside it, so that a job that runs keeps
    what it has begun with. C(current) in the folder of the environment is a link to the newest.
  - In a folder that hosts share, one of them builds and the others wait for it. Hosts with another architecture or version of
    Python build one of their own.
  - When a build fails nothing changes, and the end of what the installer printed is in the message.
notes:
  - No environment is ever deleted. Delete the folders of old ones when no job uses them.
  - An environment counts as built once there is one for the same requirements, installer and Python. Give versions in the requirements,
    as C(pip freeze) or C(uv pip compile) write them, so that it is the same whenever it is built.
  - The user of the connection builds, and needs no rights but to write to O(directory).
options:
  name:
    description:
      - Name of the environment.
      - It is looked for in C(/opt), C(/opt/conda/envs), C(~/anaconda3/envs) and C(~/miniconda3/envs), where the AWS deep
        learning images have theirs.
    type: str
    required: true
  requirements:
    description:
      - A requirements file on the controller. It cannot refer to other files.
      - When omitted, the image must have an environment with that O(name). When given, the image's environment is used if it has
        all that the file lists.
    type: str
  contents:
    description:
      - What is in O(requirements). The action plugin sets it.
    type: str
  directory:
    description:
      - Where environments are built, on storage that all hosts share or on the host's own.
      - Required with O(requirements).
    type: path
  installer:
    description:
      - What installs the packages. V(uv) is quicker than V(pip). Where a host does not have uv it is installed by pip for the time of
        the build.
      - uv does not read the configuration of pip.
    type: str
    choices: [pip, uv]
    default: pip
  python:
    description:
      - The Python to make the environment with, a path or a name to look for in C(PATH).
    type: path
    default: python3
  index_url:
    description:
      - The package index, when it is not the one that the host is configured for. It may hold a password or token.
    type: str
  find_links:
    description:
      - Folders on the hosts, or addresses, with packages beside those of the index. For these alone write C(--no-index) into
        O(requirements).
    type: list
    elements: str
    default: []
  timeout:
    description:
      - Seconds to wait for another host that builds the same environment.
    type: int
    default: 3600
author:
  - The deeplearning.cluster contributors (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: full
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Use the environment of the deep learning image
  deeplearning.cluster.python_environment:
    name: pytorch

- name: Build an environment on the shared storage, once for all hosts
  deeplearning.cluster.python_environment:
    name: bert
    requirements: bert/requirements.txt
    directory: /efs/environments
    installer: uv
  register: environment
"""

RETURN = r"""
python:
  description: The environment's Python.
  returned: success
  type: str
  sample: /efs/environments/bert/x86_64-python3.10/0f3c5e9a7b21/bin/python
prefix:
  description: The environment's folder.
  returned: success
  type: str
  sample: /efs/environments/bert/x86_64-python3.10/0f3c5e9a7b21
origin:
  description: V(image) when the host's image has the environment, V(built) when it was made from the requirements.
  returned: success
  type: str
  sample: built
"""

import contextlib
import fcntl
import json
import os
import shutil
import socket
import stat
import tempfile
import time
from typing import Any, Iterator, NamedTuple, TextIO

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment.definition import (
    Interpreter,
    Place,
    build_steps,
    check_name,
    describe_failure,
    executable,
    image_environment,
    image_environments,
    installer_variables,
    missing,
    normalise,
    place_of,
    specify,
)

PROBE = "import json, platform, sys; print(json.dumps([platform.machine(), '{0}.{1}'.format(*sys.version_info)]))"
#: What has pip tell what it would install, were there an index.
CHECK = ["-m", "pip", "--isolated", "install", "--quiet", "--dry-run", "--report", "-", "--no-index", "--no-deps", "--requirement"]
#: Seconds between two looks at a build of another host.
PAUSE = 1.0


class RefusalError(Exception):
    """There is no such environment here; the text says why and what to do."""


class Record(NamedTuple):
    """The record of a build, locked, and whether another host had to be waited for."""

    file: TextIO
    waited: bool

    def read(self) -> dict[str, Any]:
        """Return what the record says: nothing before the build is complete, C(error) when it has failed."""
        self.file.seek(0)
        return parse(self.file.read())

    def write(self, contents: dict[str, Any]) -> None:
        self.file.truncate(0)
        json.dump(contents, self.file)
        self.file.flush()
        os.fsync(self.file.fileno())


def parse(text: str) -> dict[str, Any]:
    """Return a record from its text, which may be half written."""
    try:
        return dict(json.loads(text))
    except ValueError:
        return {}


def read(path: str) -> dict[str, Any]:
    """Return the record at I(path) without waiting for a build."""
    try:
        with open(path, encoding="utf-8") as file:
            return parse(file.read())
    except FileNotFoundError:
        return {}


@contextlib.contextmanager
def exclusive(path: str, timeout: float) -> Iterator[Record]:
    """Open and lock a record. Raises RefusalError when another host keeps it longer than I(timeout).

    Record and lock are one file because hosts see the same of it: NFS asks the server when a file is opened or locked, and answers
    most other questions from what it has heard up to half a minute ago. The lock of a host that dies goes away.
    """
    end = time.monotonic() + timeout
    waited = False
    with open(path, "a+", encoding="utf-8") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > end:
                    raise RefusalError(f"another host still builds it after {timeout:.0f} s: wait, or give a longer timeout") from None
                waited = True
                time.sleep(PAUSE)
        yield Record(file, waited)


def from_image(name: str) -> dict[str, Any]:
    """Return the image's environment. Raises RefusalError when it has none of that name."""
    path = image_environment(name)
    if path is None:
        there = ", ".join(image_environments()) or "none"
        raise RefusalError(f"the image of this host does not have it (it has {there}): choose another, or give requirements to build it")
    return outcome(path, "image")


def outcome(path: str, origin: str, **others: Any) -> dict[str, Any]:
    return {"changed": False, "prefix": path, "python": executable(path), "origin": origin, **others}


def ensure(module: AnsibleModule) -> dict[str, Any]:
    """Find or build the environment. Raises RefusalError, ValueError, OSError."""
    params = module.params
    check_name(params["name"])
    if params["contents"] is None:
        return from_image(params["name"])
    requirements = normalise(params["contents"])
    interpreter = inspect_python(module)
    specification = specify(requirements, params["installer"], interpreter)
    place = place_of(params["directory"], params["name"], specification, interpreter)
    check_owner(params["directory"], place)
    if "specification" in read(place.record) and current_path(place) == place.path:
        return outcome(place.path, "built")
    reason = ""
    path = image_environment(params["name"])
    if path is not None:
        reason = lacks(module, executable(path), requirements)
        if not reason:
            return outcome(path, "image")
        reason = f"# {path} of the image is not used: {reason}\n"
    before = read((current_path(place) or place.path) + ".json").get("specification", "")
    header = "environment " + params["name"]
    diff = {"before_header": header, "after_header": header, "before": reason + before, "after": specification}
    changed = module.check_mode or provide(module, place, interpreter, specification)
    return outcome(place.path, "built", changed=changed, diff=[diff] if changed else [])


def check_owner(directory: str, place: Place) -> None:
    """Raises RefusalError for folders that other users can change: what they put there would run as this user, and in jobs of others."""
    for folder in (directory, os.path.dirname(place.folder), place.folder, place.path):
        for look in (os.lstat, os.stat):
            try:
                status = look(folder)
            except FileNotFoundError:
                continue
            shared = status.st_mode & stat.S_IWOTH or (status.st_mode & stat.S_IWGRP and status.st_gid not in (0, os.getegid()))
            if status.st_uid not in (0, os.geteuid()) or (shared and not stat.S_ISLNK(status.st_mode)):
                raise RefusalError(f"other users can change {folder}: give a directory that is this user's or root's alone")


def inspect_python(module: AnsibleModule) -> Interpreter:
    """Return the Python to build with. Raises RefusalError when there is none."""
    wanted = module.params["python"]
    path = shutil.which(wanted)
    if path is None:
        raise RefusalError(f"python {wanted!r} is not there: name a Python that this host has")
    status, output, errors = module.run_command([path, "-c", PROBE])
    if status != 0:
        raise RefusalError(f"python {wanted!r} does not work: {errors.strip()}")
    machine, version = json.loads(output)
    return Interpreter(path, machine, version)


def current_path(place: Place) -> str | None:
    """Return the build that C(current) leads to."""
    try:
        return os.path.join(place.folder, os.readlink(place.current))
    except OSError:
        return None


def lacks(module: AnsibleModule, python: str, requirements: str) -> str:
    """Return what an environment lacks of the requirements, in words; nothing when it has them all."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", dir=module.tmpdir) as file:
        file.write(requirements)
        file.flush()
        status, output, errors = module.run_command([python, *CHECK, file.name], environ_update={"PIP_CONFIG_FILE": os.devnull})
    return missing(status, parse(output), errors)


def provide(module: AnsibleModule, place: Place, interpreter: Interpreter, specification: str) -> bool:
    """Build what is missing and make it the current one; return whether this host did. Raises RefusalError."""
    os.makedirs(place.folder, exist_ok=True)
    with exclusive(place.record, module.params["timeout"]) as record:
        known = record.read()
        if record.waited and known:
            # What the other host came to holds for this one too. It has made the environment the current one already.
            if "error" in known:
                raise RefusalError(known["error"])
            return False
        built = "specification" not in known
        if built:
            record.write({})
            try:
                build(module, place, interpreter, specification)
            except RefusalError as error:
                shutil.rmtree(place.path, ignore_errors=True)
                record.write({"error": str(error)})
                raise
            record.write({"specification": specification})
        return make_current(place) or built


def make_current(place: Place) -> bool:
    """Let C(current) lead to the environment; return whether it led elsewhere."""
    if current_path(place) == place.path:
        return False
    unfinished = f"{place.current}.{place.digest}"
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    os.symlink(place.digest, unfinished)
    os.replace(unfinished, place.current)
    return True


def build(module: AnsibleModule, place: Place, interpreter: Interpreter, specification: str) -> None:
    """Make the environment and install the requirements. Raises RefusalError with the end of the output of the command that fails."""
    params = module.params
    shutil.rmtree(place.path, ignore_errors=True)
    with tempfile.TemporaryDirectory(dir=module.tmpdir) as scratch:
        file = os.path.join(scratch, "requirements.txt")
        with open(file, "w", encoding="utf-8") as stream:
            stream.write(specification)
        uv = shutil.which("uv")
        environment = installer_variables(params["index_url"], params["find_links"])
        for step in build_steps(params["installer"], interpreter.path, place.path, file, uv, scratch):
            status, output, errors = module.run_command(step.argv, environ_update=environment)
            if status != 0:
                raise RefusalError(f"{socket.gethostname()} {describe_failure(step, output + errors)}")


def main() -> None:
    os.umask(0o022)  # on hardened hosts it would hide from the jobs' user what is made here
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "requirements": {"type": "str"},
            "contents": {"type": "str"},
            "directory": {"type": "path"},
            "installer": {"type": "str", "choices": ["pip", "uv"], "default": "pip"},
            "python": {"type": "path", "default": "python3"},
            "index_url": {"type": "str", "no_log": True},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 3600},
        },
        required_by={"requirements": ["contents", "directory"]},
        supports_check_mode=True,
    )
    try:
        result = ensure(module)
    except (RefusalError, ValueError, OSError) as error:
        module.fail_json(msg="environment {!r}: {}".format(module.params["name"], error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
