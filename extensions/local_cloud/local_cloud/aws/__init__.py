"""The AWS API of the local cloud: moto, with the behaviour that moto lacks on top."""

from __future__ import annotations

import os

os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")  # moto reads it when it makes an account
