#!/usr/bin/python
# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

from __future__ import annotations

DOCUMENTATION = r"""
module: confirmation
version_added: 0.2.0
short_description: Shows what a play is about to do and, on a terminal, asks whether to continue
description:
  - Runs on the controller. Shows O(msg). On a terminal, the module then asks O(question), and fails unless the answer is V(yes).
  - Without a terminal, for example in a pipeline or a service, the module does not ask, and the play continues.
  - Under ansible-runner, as in AWX and ansible-navigator, a question would wait for an answer forever. The module fails there unless
    O(ask=false).
options:
  msg:
    description: What the play is about to do.
    type: str
    required: true
  question:
    description: The question. The module adds instructions on how to answer.
    type: str
    required: true
  ask:
    description: Whether to ask. With V(false), the module only shows O(msg), even on a terminal.
    type: bool
    default: true
author:
  - Contributors to the deeplearning.cluster project (@deeplearning-cluster)
extends_documentation_fragment:
  - ansible.builtin.action_common_attributes
attributes:
  check_mode:
    support: full
    description: Shows O(msg) and does not ask.
  diff_mode:
    support: none
  platform:
    support: full
    platforms: posix
"""

EXAMPLES = r"""
- name: Ask before the data is deleted
  deeplearning.cluster.confirmation:
    msg: "The next task deletes fs-0123456789abcdef0."
    question: "Delete it?"
  run_once: true
"""

RETURN = r"""
asked:
  description: Whether the question was asked and answered with V(yes).
  returned: success
  type: bool
"""
