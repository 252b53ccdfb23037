"""Tests of the settings of others that contradict the SSH settings of the cluster."""

from __future__ import annotations

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._common.ssh_trust import conflicts

from .signing import PUBLIC, signed

ALGORITHMS = "ssh-ed25519-cert-v01@openssh.com,ssh-ed25519,rsa-sha2-512"
EFFECTIVE = {
    "hostkeyalgorithms": ALGORITHMS,
    "pubkeyacceptedalgorithms": ALGORITHMS,
    "casignaturealgorithms": "ssh-ed25519,rsa-sha2-512",
    "hostkey": conflicts.HOST_KEY,
}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Return a function that writes sshd's configuration and returns the conflicts."""
    monkeypatch.setattr(conflicts, "DAEMON", str(tmp_path / "sshd_config"))
    monkeypatch.setattr(conflicts, "CLIENT", str(tmp_path / "ssh_config"))

    def find(text, status=0, **effective):
        (tmp_path / "sshd_config").write_text(text)
        lines = "".join(f"{name} {value}\n" for name, value in {**EFFECTIVE, **effective}.items())

        def run(command):
            assert command[1] in ("-T", "-G")
            return (status, lines, "") if command[0] == "sshd" else (0, "hostkeyalgorithms " + ALGORITHMS + "\n", "")

        return [each.replace(str(tmp_path), "") for each in conflicts.find(run, "sshd", "ssh", "ubuntu", PUBLIC)]

    return find


@pytest.mark.parametrize(
    ("setting", "name"),
    [
        ("TrustedUserCAKeys /etc/ssh/org_ca.pub", "trustedusercakeys /etc/ssh/org_ca.pub"),
        ("revokedkeys=/etc/ssh/org_revoked", "revokedkeys /etc/ssh/org_revoked"),
        ("AuthorizedPrincipalsFile /etc/ssh/auth_principals/%u", "authorizedprincipalsfile /etc/ssh/auth_principals/%u"),
        ('\tAuthorizedPrincipalsCommand "/usr/bin/principals" %u # directory', "authorizedprincipalscommand /usr/bin/principals %u"),
    ],
)
@pytest.mark.parametrize("condition", ["", "Match all\n", "Match User ubuntu,ops\n", "Match User !root,*\n", "Match Group admins\n"])
def test_a_setting_of_others_is_named_with_its_line(host, setting, name, condition):
    (found,) = host(f"Port 22\n{condition}{setting}\n")
    assert found.startswith(f"/sshd_config:{3 if condition else 2}: {name} applies to ubuntu. ")


@pytest.mark.parametrize(
    "text",
    [
        "TrustedUserCAKeys none\n",
        "#TrustedUserCAKeys /etc/ssh/org_ca.pub\n",
        "Match User ops\n  TrustedUserCAKeys /etc/ssh/org_ca.pub\n",
        "Match User !ubuntu,*\n  AuthorizedPrincipalsFile /etc/ssh/principals\n",
        "Match User *,!ubuntu\n  RevokedKeys /etc/ssh/revoked\nMatch all\nPort 22\n",
    ],
)
def test_settings_that_do_not_concern_the_login_user(host, text):
    assert host(text) == []


def test_included_files_are_read_except_the_own_one(host, tmp_path):
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d/40-deeplearning.conf").write_text("Match User ubuntu\nTrustedUserCAKeys /etc/ssh/deeplearning/authority.pub\n")
    (tmp_path / "conf.d/60-org.conf").write_text("\nTrustedUserCAKeys /etc/ssh/org_ca.pub\n")
    text = f"Include {tmp_path}/conf.d/*.conf\nInclude {tmp_path}/sshd_config\n"
    conflicts_found = [each for each in host(text) if "60-org" in each]
    assert conflicts_found[0].startswith("/conf.d/60-org.conf:2: trustedusercakeys /etc/ssh/org_ca.pub applies to ubuntu.")
    found = conflicts.settings(str(tmp_path / "sshd_config"), skipped=str(tmp_path / "conf.d/40-deeplearning.conf"))
    assert {each.value for each in found if each.name == "trustedusercakeys"} == {"/etc/ssh/org_ca.pub"}


def test_another_certificate_of_the_same_host_key(host, tmp_path):
    (tmp_path / "same-cert.pub").write_text(signed("host"))
    (tmp_path / "rsa-cert.pub").write_text("ssh-rsa-cert-v01@openssh.com AAAA\n")
    lines = "".join(f"HostCertificate {tmp_path}/{name}\n" for name in ("missing-cert.pub", "rsa-cert.pub", "same-cert.pub"))
    (found,) = host(lines)
    assert found.startswith("/sshd_config:3: hostcertificate /same-cert.pub is a certificate of another authority for ")


@pytest.mark.parametrize(
    ("name", "value", "lacks"),
    [
        ("hostkeyalgorithms", "ssh-ed25519,rsa-sha2-512", conflicts.CERTIFICATE_TYPE),
        ("pubkeyacceptedalgorithms", "ssh-ed25519", conflicts.CERTIFICATE_TYPE),
        ("casignaturealgorithms", "rsa-sha2-512", "ssh-ed25519"),
        ("hostkey", "/etc/ssh/ssh_host_rsa_key", conflicts.HOST_KEY),
    ],
)
def test_lists_without_what_the_certificates_need(host, name, value, lacks):
    assert host(f"Port 22\n{name} {value}\n", **{name: value}) == [f"/sshd_config:2: {name} does not contain {lacks}. Add it to the list."]
    assert host("Port 22\n", **{name: value})[0].startswith(f"/sshd_config: {name} does not contain ")
    assert host("Port 22\n", status=255, **{name: value}) == [], "another step reports that sshd fails"


def test_a_host_without_a_client_has_only_the_settings_of_the_daemon(monkeypatch, tmp_path):
    monkeypatch.setattr(conflicts, "DAEMON", str(tmp_path / "missing"))
    calls = []

    def run(command):
        calls.append(command[0])
        return 0, "", ""

    assert conflicts.find(run, "sshd", None, "ubuntu", PUBLIC) == []
    assert calls == ["sshd"]


def test_a_usual_configuration_has_no_conflict(host):
    assert host("Include /nonexistent/*.conf\nUsePAM yes\nSubsystem sftp /usr/lib/openssh/sftp-server\n") == []
