"""The hosts that stand in for EC2 instances: podman containers with systemd, cloud-init and sshd at the instance's private address."""
