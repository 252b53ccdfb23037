"""The AWS API of the local cloud: moto, and the behavior of AWS that moto lacks."""

from __future__ import annotations

import os

os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")  # moto reads this variable when it creates an account
