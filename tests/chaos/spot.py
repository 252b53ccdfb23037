"""The metadata service of hosts that were booted without an AWS API, as if each of them were a Spot Instance."""

from __future__ import annotations

import contextlib
import time

from local_cloud.aws.ec2.instance_metadata import InstanceMetadata, spot_notice
from local_cloud.host_sockets import HostSocket


class SpotMetadata(InstanceMetadata):
    """The metadata of one host."""

    def __init__(self, instance_id):
        super().__init__(instance_id)
        self._items = {"instance-life-cycle": "spot"}

    def _documents(self):
        return {"latest": {"meta-data": self._items}}

    def announce(self, seconds):
        """Announce that AWS interrupts the instance after some seconds."""
        self._items["spot"] = spot_notice(time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + seconds)))

    def withdraw(self):
        """Withdraw the announcement, so that the next test can use the host."""
        self._items.pop("spot", None)


class SpotHosts:
    """The metadata services of the hosts. At the end of a `with` block, they end."""

    def __init__(self, runtime):
        self._runtime = runtime
        self._open = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._stack.close()

    def open(self, host):
        """Start the service of a host. If the host has been replaced, start the service again."""
        self._open[host.name] = SpotMetadata(host.name)
        socket = HostSocket(self._runtime.socket(host.name), host.name, self._open[host.name])
        self._stack.callback(socket.close)

    def __getitem__(self, host):
        return self._open[host.name]
