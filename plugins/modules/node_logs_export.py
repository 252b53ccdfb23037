#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: node_logs_export
version_added: 0.2.0
short_description: Uploads the boot and set-up logs of a node to S3
description:
  - Runs on the host. Uploads the logs of cloud-init, the kernel messages, the log of the service that mounts shared storage at boot, and
    the logs of M(deeplearning.cluster.node_setup).
  - The AWS CLI uploads the logs with the credentials of the instance role. Each run uploads all logs, and overwrites their earlier copies.
  - Never deletes objects at the destination.
options:
  name:
    description: Name under which the node's logs are stored at the destination, such as the host name followed by the instance ID.
    type: str
    required: true
  destination:
    description: Bucket or prefix such as C(s3://bucket/prefix). The logs are uploaded to C(s3://bucket/prefix/nodes/NAME/).
    type: str
    required: true
  region:
    description: Region for the requests to S3. The default is the region of the host.
    type: str
notes:
  - The module needs root privileges to read the logs.
requirements:
  - AWS CLI on the host
attributes:
  check_mode:
    description: Lists the logs that a run would upload.
    support: full
  diff_mode:
    description: The module shows no differences.
    support: none
  idempotent:
    description: Each run uploads all logs, regardless of existing objects, because jobs can also write to the destination.
    support: none
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
seealso:
  - module: deeplearning.cluster.training_job_export
"""

EXAMPLES = r"""
- name: Upload the boot and set-up logs
  deeplearning.cluster.node_logs_export:
    name: "{{ deeplearning_hostname }}-{{ deeplearning_instance_id }}"
    destination: s3://my-results/logs
  become: true
"""

RETURN = r"""
destination:
  description: Prefix of the node's logs.
  returned: success
  type: str
  sample: s3://my-results/logs/nodes/bert-worker2-i-0123456789abcdef0/
logs:
  description: The logs that were uploaded or, in check mode, that a run would upload, as paths relative to RV(destination).
  returned: success
  type: list
  elements: str
  sample: [cloud-init-output.log, cloud-init.log, kernel.log, setup/tools.log]
"""

from ansible.module_utils.basic import AnsibleModule

from ..module_utils._common.dataset.source import DataError
from ..module_utils._hosts.node_logs.export import ARGUMENTS, export, prefix


def main() -> None:
    module = AnsibleModule(argument_spec=ARGUMENTS, supports_check_mode=True)
    try:
        destination = prefix(module.params["destination"], module.params["name"])
        result = export(module.run_command, destination, module.params["region"] or "", check_mode=module.check_mode)
    except (DataError, OSError, ValueError) as error:
        module.fail_json(msg=f"node logs: {error}")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
