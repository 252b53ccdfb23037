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

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment.build import ensure
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.python_environment.record import RefusalError


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
