"""Applies all overrides of moto: importing this module imports every module that overrides a part of moto."""

from __future__ import annotations

import importlib
import pkgutil

from . import (
    autoscaling,
    cloudtrail,
    ec2,
    efs,
    emr,
    fsx,
    iam,
    kms,
    lambda_,
    moto_caching,  # noqa: F401
    moto_clock,  # noqa: F401
    moto_serialization,  # noqa: F401
    s3,
    scheduler,
    servicequotas,
    ssm,
)
from .access import policy_simulation  # noqa: F401

SERVICES = (autoscaling, cloudtrail, ec2, efs, emr, fsx, iam, kms, lambda_, s3, scheduler, servicequotas, ssm)

for _service in SERVICES:
    for _module in pkgutil.iter_modules(_service.__path__, f"{_service.__name__}."):
        importlib.import_module(_module.name)
