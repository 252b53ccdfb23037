"""Hosts of instances: podman containers with systemd, cloud-init, and sshd at the private address of the instance."""
