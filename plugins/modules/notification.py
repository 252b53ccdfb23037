#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: notification
version_added: 0.2.0
short_description: Sends a notification about an event, or about the end of a job
description:
  - Sends a notification to each URL in the variable C(deeplearning_notify), with Apprise. Does nothing if this variable is empty.
  - This is an action plugin. It runs on the controller, and waits at most 10 seconds until the notifications of the run have been sent.
    For each URL that has not received a notification, it shows a warning with the number of the URL. Only O(event=test) fails because of
    that.
requirements:
  - C(apprise) on the controller, if C(deeplearning_notify) is not empty.
options:
  event:
    description:
      - Kind of the event. Of each kind except for the end of a job and O(event=nodes_kept), at most one notification per minute and ten per
        run are sent about a job. Without this option, the module sends notifications about the end of O(job).
    type: str
    choices:
      - job_started
      - job_restarted
      - job_succeeded
      - job_not_started
      - job_failed
      - job_stopped
      - job_unreachable
      - nodes_gone
      - nodes_replaced
      - nodes_ended
      - nodes_kept
      - cluster_destroyed
      - ends_removed
      - price_exceeded
      - nodes_short
      - test
  msg:
    description: A sentence about what has happened. Without O(event), the message about the failure of the job, or an empty string.
    type: str
    default: ""
  job:
    description: Name of the job.
    type: str
    default: ""
  note:
    description: A sentence that follows at the end of a job, and with O(event=nodes_kept). It must not contain what hosts have reported.
    type: str
    default: ""
  result:
    description: Without O(event), the result of M(deeplearning.cluster.training_job_wait).
    type: dict
    default: {}
  losses:
    description:
      - Without O(event), what explains the failure of a job - C(nodes), as the lookup P(deeplearning.cluster.nodes#lookup) returns them;
        C(former), the return value RV(deeplearning.cluster.former_nodes_info#module:nodes); and C(unreachable), the names of hosts.
    type: dict
    default: {}
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    description: Sends nothing.
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Send a test notification
  deeplearning.cluster.notification:
    event: test
    msg: This is a test.
"""

RETURN = r""" # """
