"""The local cloud does not give web pages, other users or programs on its hosts access to its machine (H3, L14)."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.exceptions import ClientError
from local_cloud.control_signature import signature
from local_cloud.manager import CloudError, CloudManager
from local_cloud.testing import BareHost, LocalCloud, bare_hosts

SIGNED = "AWS4-HMAC-SHA256 Credential=NOBODY/20260101/us-east-1/ec2/aws4_request, SignedHeaders=host, Signature=0"
DESCRIBE = "Action=DescribeVpcs&Version=2016-11-15"
FORM = "application/x-www-form-urlencoded"
PRIVATE = ["administrator.json", "control-token", "id_ed25519", "server.log", "setup.json", "state.pickle"]


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCloud]:
    with LocalCloud(tmp_path_factory.mktemp("machine") / "cloud", hosts=False) as started:
        yield started


def ask(
    cloud: LocalCloud, method: str = "POST", path: str = "/", body: str = DESCRIBE, **headers: str
) -> tuple[int, http.client.HTTPMessage, str]:
    """Send a request and return the status, headers and body of the response. `headers` override the default headers."""
    usual = {"Authorization": SIGNED, "Content-Type": FORM}
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", cloud.cloud.setup.port, timeout=120)) as connection:
        connection.request(method, path, body, {**usual, **{name.replace("_", "-"): value for name, value in headers.items()}})
        answer = connection.getresponse()
        return answer.status, answer.headers, answer.read().decode()


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:8000", "http://localhost"])
def test_a_web_page_gets_no_answer(cloud: LocalCloud, origin: str) -> None:
    status, headers, body = ask(cloud, Origin=origin)
    assert (status, "<Vpcs>" in body) == (403, False)
    assert [name for name in headers if name.lower().startswith("access-control")] == []


def test_a_browser_is_told_that_no_page_may_ask(cloud: LocalCloud) -> None:
    asked = {"Access_Control_Request_Method": "POST", "Access_Control_Request_Headers": "authorization"}
    status, headers, _body = ask(cloud, "OPTIONS", body="", Origin="https://evil.example", **asked)
    assert status == 403
    assert [name for name in headers if name.lower().startswith("access-control")] == []


def test_no_answer_is_meant_for_other_origins(cloud: LocalCloud) -> None:
    """By default, every response of moto has headers that allow other origins to read the response."""
    for service, call in (("ec2", "describe_vpcs"), ("s3", "list_buckets"), ("iam", "list_roles"), ("ssm", "describe_parameters")):
        headers = getattr(cloud.client(service), call)()["ResponseMetadata"]["HTTPHeaders"]
        assert [name for name in headers if name.lower().startswith("access-control")] == []


@pytest.mark.parametrize("site", ["cross-site", "same-site", "same-origin"])
def test_a_browser_that_leaves_out_the_origin_gets_no_answer(cloud: LocalCloud, site: str) -> None:
    assert ask(cloud, "GET", "/", "", Sec_Fetch_Site=site)[0] == 403


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "127.0.0.1:1", "127.0.0.1", "127.0.0.1:{port}.evil.example", ""])
def test_a_name_that_leads_here_is_no_name_of_the_cloud(cloud: LocalCloud, host: str) -> None:
    """Other host names are refused. Otherwise, a web page could rebind its own host name to this machine's address, and have the same
    origin as the local cloud.
    """
    assert ask(cloud, Host=host.format(port=cloud.cloud.setup.port))[0] == 403


def test_the_cloud_s_own_names_are_let_in(cloud: LocalCloud) -> None:
    """Requests with the local cloud's own host names reach the signature check, which fails."""
    for name in ("127.0.0.1", "localhost"):
        status, _headers, body = ask(cloud, Host=f"{name}:{cloud.cloud.setup.port}")
        assert (status, "<Code>IncompleteSignature</Code>" in body) == (400, True)


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "reset"), ("DELETE", "calls"), ("GET", "calls"), ("GET", "health"), ("PUT", "faults"), ("POST", "no-such-thing")],
)
@pytest.mark.parametrize(
    "authorization", ["", SIGNED, "Bearer ", "Bearer made-up", "Basic Og==", "HMAC-SHA256 {now} 00", "HMAC-SHA256 - 00"]
)
def test_control_needs_a_signature(cloud: LocalCloud, method: str, path: str, authorization: str) -> None:
    authorization = authorization.format(now=int(time.time()))
    status, _headers, body = ask(cloud, method, f"/_local_cloud/{path}", "[]", Authorization=authorization, Content_Type="application/json")
    assert (status, json.loads(body)) == (401, {"error": "Requests to the control API need a signature with this local cloud's token."})


def test_a_signature_is_valid_for_one_request_and_a_short_time(cloud: LocalCloud) -> None:
    token, now = cloud.cloud.home.control_token(), time.time()
    for method, name, body, signed_at, status in (
        ("GET", "calls", b"", now, 200),
        ("GET", "health", b"", now, 401),
        ("DELETE", "calls", b"", now, 401),
        ("GET", "calls", b"{}", now, 401),
        ("GET", "calls", b"", now - 3600, 401),
        ("GET", "calls", b"", now + 3600, 401),
    ):
        signed = signature(token, "GET", "calls", b"", signed_at)
        given = {"Authorization": signed, "Content_Type": "application/json"}
        assert ask(cloud, method, f"/_local_cloud/{name}", body.decode(), **given)[0] == status, (method, name, body, signed_at)


def test_a_user_who_takes_the_port_does_not_get_the_token(tmp_path: Path) -> None:
    with LocalCloud(tmp_path / "home", hosts=False) as cloud:
        token, keys = cloud.cloud.home.control_token(), cloud.cloud.home.administrator
        cloud.cloud.stop()
        with socket.create_server(("127.0.0.1", cloud.cloud.setup.port)) as listener:
            received: list[str] = []

            def record() -> None:
                for _request in range(2):
                    connection = listener.accept()[0]
                    received.append(connection.recv(1 << 16).decode())
                    connection.sendall(
                        b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"
                    )
                    connection.close()

            thread = threading.Thread(target=record, daemon=True)
            thread.start()
            with pytest.raises(KeyError):
                cloud.control.calls()
            with pytest.raises(ClientError):
                cloud.client("ssm").describe_parameters()
            thread.join(60)
        assert "GET /_local_cloud/calls " in received[0]
        assert [text for text in received if token in text or keys.secret_access_key in text] == []


@pytest.mark.parametrize("content", ["text/plain", FORM, "multipart/form-data; boundary=x", ""])
def test_control_takes_nothing_that_a_form_can_send(cloud: LocalCloud, content: str) -> None:
    token, body = cloud.cloud.home.control_token(), '{"file_system": 99}'
    for method, path in (("POST", "reset"), ("PUT", "delays")):
        given = {"Authorization": signature(token, method, path, body.encode(), time.time()), "Content_Type": content}
        status, _headers, _body = ask(cloud, method, f"/_local_cloud/{path}", body, **given)
        assert status == 415
    cloud.control.forget_calls()


@pytest.mark.parametrize("path", ["/moto-api/reset", "/moto-api/state-manager/get-transition", "/moto-api/", "/latest/meta-data/"])
def test_what_moto_serves_beside_the_api_is_not_there(cloud: LocalCloud, path: str) -> None:
    vpcs = len(cloud.client("ec2").describe_vpcs()["Vpcs"])
    assert ask(cloud, "POST" if path.endswith("reset") else "GET", path, "")[0] == 404
    assert len(cloud.client("ec2").describe_vpcs()["Vpcs"]) == vpcs > 0


def test_each_cloud_has_a_token_of_its_own(cloud: LocalCloud, tmp_path: Path) -> None:
    with LocalCloud(tmp_path / "other", hosts=False) as other:
        tokens = {(each.cloud.home.folder / "control-token").read_text().strip() for each in (cloud, other)}
        assert len(tokens) == 2
        assert min(len(token) for token in tokens) >= 40
        other.restart()
        assert (other.cloud.home.folder / "control-token").read_text().strip() in tokens


def test_nobody_else_can_read_what_the_cloud_keeps(tmp_path: Path) -> None:
    """Files are private, regardless of the umask."""
    home, before = tmp_path / "home", os.umask(0)
    try:
        with LocalCloud(home, hosts=False) as cloud:
            cloud.client("ec2").create_vpc(CidrBlock="10.0.0.0/16")
            cloud.restart()
            assert stat.S_IMODE(home.stat().st_mode) == 0o700
            modes = {each.name: oct(stat.S_IMODE(each.stat().st_mode)) for each in home.iterdir() if each.is_file()}
            assert set(PRIVATE) <= modes.keys()
            assert {name: mode for name, mode in modes.items() if mode != "0o600"} == {"id_ed25519.pub": "0o644"}
    finally:
        os.umask(before)


def test_a_cloud_of_before_is_closed_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    (home / "setup.json").write_text("{}")
    (home / "server.log").write_text("")
    with LocalCloud(home, hosts=False):
        assert stat.S_IMODE(home.stat().st_mode) == 0o700
        assert [stat.S_IMODE((home / name).stat().st_mode) for name in ("setup.json", "server.log")] == [0o600, 0o600]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("theirs", ["state.pickle", "."])
def test_state_that_somebody_else_wrote_is_not_loaded(tmp_path: Path, theirs: str) -> None:
    """Loading a pickle runs code that it contains."""
    home, proof = tmp_path / "home", tmp_path / "proof"
    home.mkdir()
    (home / "state.pickle").write_bytes(f"cposix\nsystem\n(S'touch {proof}'\ntR.".encode())
    os.chown(home / theirs, 65534, 65534)
    cloud = CloudManager(home, progress=lambda _step: None)
    with pytest.raises(CloudError, match="belongs to nobody, not to root"):
        cloud.start(hosts=False)
    assert not proof.exists()


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BareHost]:
    with bare_hosts(tmp_path_factory.mktemp("hosts")) as (_runtime, (host,)):
        yield host


# Opens the file for writing, but writes nothing to it. A host that can open this file can set the program that the machine's kernel runs as
# root after a crash.
KERNEL_SETTINGS = """
import os, subprocess
os.makedirs("/mnt/proc", exist_ok=True)
subprocess.run(["mount", "-t", "proc", "proc", "/mnt/proc"], check=False)
names = ("kernel/core_pattern", "kernel/modprobe", "kernel/hotplug", "vm/overcommit_memory", "fs/suid_dumpable")
for name in names:
    for folder in ("/proc/sys", "/mnt/proc/sys"):
        try:
            os.close(os.open(f"{folder}/{name}", os.O_WRONLY))
        except OSError:
            continue
        print(folder, name)
for name in ("/proc/sysrq-trigger", "/mnt/proc/sysrq-trigger", "/sys/kernel/uevent_helper", "/dev/mem", "/dev/vda", "/dev/sda"):
    try:
        os.close(os.open(name, os.O_WRONLY))
    except OSError:
        continue
    print(name)
"""


def test_root_of_a_host_cannot_set_what_the_machine_s_kernel_runs(host: BareHost) -> None:
    assert host.ssh(f"sudo python3 - <<'END'\n{KERNEL_SETTINGS}\nEND").stdout == ""


def test_root_of_a_host_is_not_root_of_the_machine(host: BareHost) -> None:
    """Neither remounted file systems nor device files give access to the machine."""
    inside, outside, _count = map(int, host.ssh("cat /proc/self/uid_map").stdout.splitlines()[0].split())
    assert inside == 0
    assert outside != 0
    made = host.ssh("sudo mknod /root/disk b 254 0 && sudo dd if=/root/disk of=/dev/null bs=512 count=1", check=False)
    assert made.returncode != 0
