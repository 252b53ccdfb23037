# Copyright: Contributors to the deeplearning.cluster project
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""How modules that use AWS end."""

from __future__ import annotations

import json

import pytest
from ansible.module_utils.testing import patch_module_args
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import AnsibleAWSModule


@pytest.mark.parametrize("end", [lambda module: module.exit_json(), lambda module: module.fail_json(msg="no")], ids=["exit", "fail"])
def test_a_warning_is_returned_once_and_without_a_deprecation(capsys, end):
    with patch_module_args(), pytest.raises(SystemExit):
        module = AnsibleAWSModule(argument_spec={})
        module.warn("the master has no public address")
        end(module)
    result = json.loads(capsys.readouterr().out)
    assert len(result["warnings"]) == 1
    assert "the master has no public address" in str(result["warnings"])
    assert "deprecations" not in result
