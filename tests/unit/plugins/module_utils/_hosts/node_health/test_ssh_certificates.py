"""Tests of the findings about SSH certificates."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.node_health.check import CheckedNode
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust.certificates import DAY, parse_certificate
from ansible_collections.deeplearning.cluster.plugins.module_utils._hosts.node_health import ssh_certificates

from unit.plugins.module_utils._common.ssh_trust.signing import signed

from .problems import severities

NODE = CheckedNode("ubuntu")


@pytest.mark.parametrize(
    ("moment", "severity"),
    [
        ("before - 1.1 * DAY", []),
        ("before - 0.9 * DAY", ["monitor"]),
        ("before", ["restart"]),
        ("before + 9 * DAY", ["restart"]),
        ("after", []),
        ("after - 1", ["restart"]),
    ],
)
def test_certificates_are_valid(moment, severity):
    text = signed("host", validity_days=9)
    certificate = parse_certificate(text)
    now = eval(moment, {"after": certificate.valid_after, "before": certificate.valid_before, "DAY": DAY})
    assert severities(ssh_certificates.decide_certificates({"/etc/x-cert.pub": text}, NODE, now)) == severity


def test_a_damaged_certificate():
    assert severities(ssh_certificates.decide_certificates({"/etc/x-cert.pub": "nonsense"}, NODE)) == ["restart"]
    assert ssh_certificates.decide_certificates({}, NODE) == []
