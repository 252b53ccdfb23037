"""Instances as podman containers: systemd, cloud-init and sshd at the instance's own private address."""
