"""Lets unit tests run in another time zone than that of AWS, so that they notice times without one."""

from __future__ import annotations

import os
import time

os.environ["TZ"] = "Asia/Kolkata"
time.tzset()
