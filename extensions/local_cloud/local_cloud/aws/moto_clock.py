"""Lets moto's dates show the time of the local cloud's clock. Sessions keep this machine's time, as the clocks of their callers do."""

from __future__ import annotations

import sys
from types import SimpleNamespace

from moto.core.utils import utcnow
from moto.efs import models as efs_models
from moto.sts import models as sts_models

from .context import CLOUD
from .override import override

# Modules that are imported later import the replacement
for _name, _module in list(sys.modules.items()):
    if _name.startswith("moto.") and _module is not sts_models and vars(_module).get("utcnow") is utcnow:
        override(_module)(CLOUD.utcnow)
efs_models.time = SimpleNamespace(time=CLOUD.now)  # type: ignore[assignment]
