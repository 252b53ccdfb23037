"""Starts and stops the hosts that stand in for EC2 instances in the background, and tracks their state."""

from __future__ import annotations

import base64
import logging
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from ...host_interface import HostSpec
from ..context import CLOUD, instances
from .images import missing_programs

LOG = logging.getLogger(__name__)
WORKERS = 16


class InstanceLifecycle:
    """Worker threads that start, stop, and remove hosts: one action at a time per instance, many instances in parallel.

    No thread holds the local cloud's lock while it waits for a host.
    """

    def __init__(self) -> None:
        self._workers = ThreadPoolExecutor(WORKERS, "host")
        self._probes = ThreadPoolExecutor(WORKERS, "probe")
        self._turns: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
        self._started: set[str] = set()
        """IDs of instances whose hosts were started and have not been stopped since."""
        self._next_health_check = 0.0

    def close(self) -> None:
        """Finish the actions that are running, and cancel all other actions. Hosts keep running."""
        self._workers.shutdown(cancel_futures=True)
        self._probes.shutdown(cancel_futures=True)

    def start(self, instance: Any) -> None:
        self._submit(self._start, instance)

    def stop(self, instance: Any) -> None:
        self._submit(self._stop, instance)

    def reboot(self, instance: Any) -> None:
        self._submit(self._reboot, instance)

    def remove(self, instance: Any) -> None:
        self._submit(self._remove, instance)

    def poll(self) -> None:
        """Update the instances whose hosts have booted and, at intervals, the instances whose hosts are lost."""
        with CLOUD.lock:
            pending = [each for each in instances() if each.state == "pending" and each.id in self._started]
        for instance, booted in zip(pending, self._ask(CLOUD.hosts.is_booted, pending)):
            if booted:
                self._become_running(instance)
        if time.monotonic() >= self._next_health_check:
            self._next_health_check = time.monotonic() + CLOUD.delays.health_check
            self._check_health()

    def recover(self) -> None:
        """Continue after a restart of the local cloud: repeat interrupted actions, and start hosts that are down."""
        self._started.clear()
        with CLOUD.lock:
            everything = list(instances())
        for instance in everything:
            if instance.state == "shutting-down":
                self.remove(instance)
            elif instance.state == "stopping":
                self.stop(instance)
            elif instance.state == "pending":
                self.start(instance)
        running = [each for each in everything if each.state == "running"]
        for instance, alive in zip(running, self._ask(CLOUD.hosts.is_alive, running)):
            if alive is False:
                self.reboot(instance)
            else:
                self._started.add(instance.id)

    def _submit(self, work: Callable[[Any], None], instance: Any) -> None:
        def in_turn() -> None:
            try:
                with self._turns[instance.id]:
                    work(instance)
            except Exception:
                LOG.exception("%s: %s", instance.id, work.__name__)

        self._workers.submit(in_turn)

    def _ask(self, question: Callable[[str], bool], about: Iterable[Any]) -> Iterable[bool | None]:
        """Call `question` for many instances in parallel. For a call that fails, the result is None."""

        def ask(instance: Any) -> bool | None:
            try:
                return question(instance.id)
            except Exception:
                LOG.exception("%s: The host did not respond", instance.id)
                return None

        return self._probes.map(ask, about)

    def _start(self, instance: Any) -> None:
        with CLOUD.lock:
            if instance.state != "pending":
                return
            spec = host_spec(instance)
        try:
            CLOUD.hosts.start(spec)
        except Exception as error:
            LOG.warning("%s: The host did not start: %s", instance.id, error)
            with CLOUD.lock:
                instance.lose(str(error) or type(error).__name__)
            return
        self._started.add(instance.id)
        if CLOUD.hosts.is_booted(instance.id):
            self._become_running(instance)

    def _stop(self, instance: Any) -> None:
        self._started.discard(instance.id)
        CLOUD.hosts.stop(instance.id)
        with CLOUD.lock:
            instance.become_stopped()

    def _reboot(self, instance: Any) -> None:
        with CLOUD.lock:
            if instance.state != "running":
                return
            spec = host_spec(instance)
        self._started.discard(instance.id)
        CLOUD.hosts.stop(instance.id)
        CLOUD.hosts.start(spec)
        self._started.add(instance.id)

    def _remove(self, instance: Any) -> None:
        self._started.discard(instance.id)
        CLOUD.hosts.remove(instance.id)
        with CLOUD.lock:
            instance.become_terminated()
        self._turns.pop(instance.id, None)

    def _become_running(self, instance: Any) -> None:
        with CLOUD.lock:
            instance.become_running()

    def _check_health(self) -> None:
        with CLOUD.lock:
            watched = [each for each in instances() if each.state in ("pending", "running") and each.id in self._started]
        for instance, alive in zip(watched, self._ask(CLOUD.hosts.is_alive, watched)):
            if alive is False:
                self._submit(self._lose, instance)

    def _lose(self, instance: Any) -> None:
        """Terminate an instance whose host is lost, unless a reboot or a stop is in progress.

        If a program on the host has requested a reboot, the host starts again with its disk and addresses, as on EC2.
        """
        if instance.id in self._started and not CLOUD.hosts.is_alive(instance.id):
            if instance.state == "running" and CLOUD.hosts.is_rebooting(instance.id):
                self._reboot(instance)
                return
            with CLOUD.lock:
                instance.lose("the host of the instance no longer exists")


def host_spec(instance: Any) -> HostSpec:
    """Return the host specification of an instance that has an address."""
    backend = instance.ec2_backend
    return HostSpec(
        instance_id=instance.id,
        network=instance.vpc_id,
        network_cidr=backend.get_vpc(instance.vpc_id).cidr_block,
        private_ip=instance.private_ip,
        public_ip=instance.public_ip,
        hostname="ip-" + instance.private_ip.replace(".", "-"),
        user_data=base64.b64decode(str(instance.user_data or "")),
        public_keys=instance.public_keys,
        image_id=instance.image_id,
        instance_type=instance.instance_type,
        zone=instance.availability_zone,
        region=instance.region_name,
        lacks=missing_programs(backend.amis.get(instance.image_id)),
    )
