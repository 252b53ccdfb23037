"""Tests that the public key is read from a private key file without a passphrase, in every format that ssh-keygen writes."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.node_group.private_key import public_part, read_public_key


def generate(path, *arguments, passphrase=""):
    subprocess.run(["ssh-keygen", "-q", "-N", passphrase, "-f", str(path), *arguments], check=True)
    return public_part(path.with_name(path.name + ".pub").read_text())


@pytest.mark.parametrize("arguments", [["-t", "ed25519"], ["-t", "rsa", "-b", "2048"], ["-t", "rsa", "-b", "2048", "-m", "PEM"]])
@pytest.mark.parametrize("passphrase", ["", "secret"])
def test_the_public_key_of_a_file(tmp_path, arguments, passphrase):
    key = tmp_path / "key.pem"
    public = generate(key, *arguments, passphrase=passphrase)
    assert read_public_key(str(key)) == public
    (tmp_path / "key.pem.pub").unlink()
    encrypted_pem = passphrase and "PEM" in arguments
    assert read_public_key(str(key)) == (None if encrypted_pem else public)


def test_a_public_key_stands_for_one_in_an_agent(tmp_path):
    public = generate(tmp_path / "key", "-t", "ed25519")
    assert read_public_key(str(tmp_path / "key.pub")) == public


@pytest.mark.parametrize(
    "content",
    ["", "something", "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmU=\n-----END OPENSSH PRIVATE KEY-----\n"],
)
def test_a_file_without_a_key(tmp_path, content):
    key = tmp_path / "key"
    key.write_text(content)
    key.chmod(0o600)
    with pytest.raises(ValueError, match=rf"'{key}' is not a private key. Specify the path"):
        read_public_key(str(key))


def test_a_file_that_ssh_refuses(tmp_path):
    generate(tmp_path / "key", "-t", "ed25519")
    (tmp_path / "key").chmod(0o640)
    with pytest.raises(ValueError, match=r"has mode 0640, but ssh refuses keys that other users can read. Run chmod 600"):
        read_public_key(str(tmp_path / "key"))


def test_a_file_that_does_not_exist(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(ValueError, match=r"'~/key.pem' is not a file on the controller"):
        read_public_key("~/key.pem")
    public = generate(tmp_path / "key.pem", "-t", "ed25519")
    assert read_public_key("~/key.pem") == public
