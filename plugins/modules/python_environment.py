#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: python_environment
version_added: 0.1.0
short_description: Provides a host with the Python environment of a framework
description:
  - Runs on the host. Finds the environment with the given name in the host's image, or builds an environment from a requirements file.
  - The module never changes an environment that it has built. If the requirements change, the module builds a new environment next to the
    existing one, so that running jobs keep the environment that they started with. The link C(current) next to the builds
    points to the newest build.
  - In a shared directory, one host builds the environment while the other hosts wait. Hosts with a different architecture or Python version
    build their own environments.
  - If a build fails, the existing environments do not change, and the error message contains the last lines of the installer's output.
notes:
  - The module never deletes an environment. See M(deeplearning.cluster.python_environment_cleanup).
  - The module does not rebuild an environment for the same requirements, installer, Python, O(index_url) and O(find_links). To make builds
    reproducible, pin exact versions in the requirements, for example with C(pip freeze) or C(uv pip compile).
  - User names, passwords, signatures and tokens in URLs are not part of the environment's identity. All other parts of URLs are, except the
    query of a package index.
  - The remote user builds the environment, and needs only write permission for O(directory). Root privileges are not required.
options:
  name:
    description:
      - Name of the environment.
      - The module searches C(/opt), C(/opt/conda/envs), C(~/anaconda3/envs) and C(~/miniconda3/envs), which contain the environments
        of AWS Deep Learning AMIs.
    type: str
    required: true
  requirements:
    description:
      - Path of a requirements file on the controller. The controller reads the file in the same way as C(pip), with its own environment
        variables. The file cannot refer to other files on the controller.
      - User names, passwords and queries in URLs are neither recorded nor shown.
      - Without this option, the image must contain an environment with this O(name). With this option, the image's environment is used
        only if it has all packages that the file lists.
    type: str
  contents:
    description: The requirements, one per line. The action plugin sets this option.
    type: str
  credentials:
    description: Environment variables in the URLs of O(contents). The action plugin sets this option.
    type: dict
    default: {}
  directory:
    description:
      - Directory in which environments are built, on shared storage or on the host's local disk.
      - Required with O(requirements).
    type: path
  installer:
    description:
      - Program that installs the packages. V(uv) is faster than V(pip). If uv is not installed on the host, pip installs it temporarily
        for the build.
      - uv does not read pip's configuration.
    type: str
    choices: [pip, uv]
    default: pip
  python:
    description: Python interpreter that creates the environment, as a path or as a name to look up in C(PATH).
    type: path
    default: python3
  index_url:
    description: URL of the package index, if it differs from the host's configuration. The URL may contain a password or token.
    type: str
  find_links:
    description:
      - Directories on the hosts, or URLs, that contain additional packages. To use only these packages, add C(--no-index)
        to O(requirements).
    type: list
    elements: str
    default: []
  build_variables:
    description:
      - Environment variables for the installer, such as build options of packages. The values are part of the environment's identity,
        so a changed value causes a new build.
      - The values are recorded in the environment's directory and shown by C(--diff), so they must not be secrets.
    type: dict
    default: {}
  no_build_isolation:
    description:
      - Names of packages in O(requirements) to build after all other packages have been installed. During the build, these packages can
        import the other packages, as with C(pip install --no-build-isolation).
      - O(requirements) must contain everything that these builds import, such as C(setuptools).
    type: list
    elements: str
    default: []
  timeout:
    description: Maximum time to wait for another host that is building the same environment, in seconds.
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
- name: Use the PyTorch environment of a Deep Learning AMI
  deeplearning.cluster.python_environment:
    name: pytorch

- name: Build one environment for all hosts on the shared storage
  deeplearning.cluster.python_environment:
    name: bert
    requirements: bert/requirements.txt
    directory: /efs/environments
    installer: uv
  register: environment

- name: Build Horovod for the PyTorch version in the same requirements file
  deeplearning.cluster.python_environment:
    name: horovod
    requirements: horovod/requirements.txt # torch, setuptools, horovod, ...
    directory: /efs/environments
    no_build_isolation: [horovod]
    build_variables:
      HOROVOD_WITH_PYTORCH: "1"
      HOROVOD_WITHOUT_TENSORFLOW: "1"
"""

RETURN = r"""
python:
  description: Path of the environment's Python interpreter.
  returned: success
  type: str
  sample: /efs/environments/bert/x86_64-python3.10/0f3c5e9a7b21/bin/python
prefix:
  description: The environment's directory.
  returned: success
  type: str
  sample: /efs/environments/bert/x86_64-python3.10/0f3c5e9a7b21
origin:
  description: V(image) if the environment is part of the host's image, or V(built) if it was built from the requirements.
  returned: success
  type: str
  sample: built
"""

import os

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._hosts.python_environment.build import ensure
from ..module_utils._hosts.python_environment.record import EnvironmentRefusalError


def main() -> None:
    os.umask(0o022)  # with a hardened host's umask, the jobs' user could not read these files
    module = AnsibleModule(
        argument_spec={
            "name": {"type": "str", "required": True},
            "requirements": {"type": "str"},
            "contents": {"type": "str"},
            "credentials": {"type": "dict", "default": {}, "no_log": True},
            "directory": {"type": "path"},
            "installer": {"type": "str", "choices": ["pip", "uv"], "default": "pip"},
            "python": {"type": "path", "default": "python3"},
            "index_url": {"type": "str", "no_log": True},
            "find_links": {"type": "list", "elements": "str", "default": []},
            "build_variables": {"type": "dict", "default": {}},
            "no_build_isolation": {"type": "list", "elements": "str", "default": []},
            "timeout": {"type": "int", "default": 3600},
        },
        required_by={"requirements": ["contents", "directory"]},
        supports_check_mode=True,
    )
    try:
        result = ensure(module)
    except (EnvironmentRefusalError, ValueError, OSError) as error:
        module.fail_json(msg="environment {!r}: {}".format(module.params["name"], error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
