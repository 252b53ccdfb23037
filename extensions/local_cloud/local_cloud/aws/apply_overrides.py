"""Applies all overrides of moto: importing this module imports every module that overrides a part of moto."""

from __future__ import annotations

import importlib
import pkgutil

from . import autoscaling, cloudtrail, ec2, efs, emr, fsx, iam, kms, moto_caching, moto_serialization, s3, scheduler, servicequotas, ssm  # noqa: F401
from .access import policy_simulation  # noqa: F401

SERVICES = (autoscaling, cloudtrail, ec2, efs, emr, fsx, iam, kms, s3, scheduler, servicequotas, ssm)

for _service in SERVICES:
    for _module in pkgutil.iter_modules(_service.__path__, f"{_service.__name__}."):
        importlib.import_module(_module.name)
