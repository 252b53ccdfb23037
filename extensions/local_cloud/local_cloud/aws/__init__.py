"""The AWS API of the local cloud: moto, and the behaviour of AWS that moto lacks."""

from __future__ import annotations

import os

os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")  # moto reads it when it creates an account
