"""Spot Instances: prices and requests."""

from __future__ import annotations

from typing import Any

from moto.core.responses import ActionResult
from moto.ec2.exceptions import EC2ClientError
from moto.ec2.models import EC2Backend
from moto.ec2.models.core import TaggedEC2Resource
from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES
from moto.ec2.responses import EC2Response
from moto.ec2.utils import generic_filter, random_resource_id

from ..capacity import SPOT
from ..context import CLOUD
from ..override import override
from .instances import ENDING

# Fictitious prices in dollars per hour, similar to those of AWS. Larger types cost more.
PER_VCPU, PER_GPU = 0.02, 1.0
PAGE = 1000
PRODUCT = "Linux/UNIX"
PRODUCTS = (PRODUCT, f"{PRODUCT} (Amazon VPC)")


def price(instance_type: str) -> float:
    """Return the current price of an instance of the type, in dollars per hour."""
    record = INSTANCE_TYPES[instance_type]
    gpus = sum(each["Count"] for each in (record.get("GpuInfo") or {}).get("Gpus", []))
    usual: float = record["VCpuInfo"]["DefaultVCpus"] * PER_VCPU + gpus * PER_GPU
    return CLOUD.spot_prices.get(instance_type, usual)


def set_prices(prices: dict[str, float | None]) -> None:
    """Set the prices of instance types. None restores the default. Raises `ValueError`."""
    for instance_type, value in prices.items():
        if instance_type not in INSTANCE_TYPES:
            raise ValueError(f"Unknown instance type {instance_type!r}.")
        if value is None:
            CLOUD.spot_prices.pop(instance_type, None)
        elif isinstance(value, bool) or not isinstance(value, (int, float)) or value < 0:
            raise ValueError(f"Price of {instance_type}: {value!r} is not a number of at least 0. Use null for the default.")
        else:
            CLOUD.spot_prices[instance_type] = value


def check_price(instance_type: str, options: dict[str, Any]) -> None:
    """Raise `SpotMaxPriceTooLow` if the maximum price in the SpotOptions is below the current price."""
    offered, asked = options.get("MaxPrice"), price(instance_type)
    if offered is not None and float(offered) < asked:
        minimum = f"the minimum required Spot request fulfillment price of {asked:g}"
        raise EC2ClientError("SpotMaxPriceTooLow", f"Your Spot request price of {float(offered):g} is lower than {minimum}.")


class SpotRequest(TaggedEC2Resource):
    """The Spot Instance request of one instance."""

    product_description = PRODUCT
    instance_interruption_behavior = "terminate"

    def __init__(self, instance: Any, options: dict[str, Any], tags: dict[str, str]) -> None:
        self.ec2_backend = instance.ec2_backend
        self.id = self.spot_instance_request_id = f"sir-{random_resource_id(8)}"
        self.type = options.get("SpotInstanceType", "one-time")
        self.spot_price = options.get("MaxPrice") or f"{price(instance.instance_type):g}"
        self.create_time = CLOUD.utcnow()
        self.launched_availability_zone = instance.availability_zone
        self.launch_specification = {
            "ImageId": instance.image_id,
            "InstanceType": instance.instance_type,
            "Placement": {"AvailabilityZone": instance.availability_zone},
            "SubnetId": instance.subnet_id,
        }
        self._instance = instance
        self.add_tags(tags)
        self.ec2_backend.spot_instance_requests[self.id] = self

    @property
    def tags(self) -> list[dict[str, str]]:
        return self.get_tags()

    @property
    def instance_id(self) -> str:
        return str(self._instance.id)

    @property
    def state(self) -> str:
        return "closed" if self._instance.state in ENDING else "active"

    @property
    def status(self) -> dict[str, str]:
        if self._instance.state not in ENDING:
            return {"Code": "fulfilled", "Message": "Your spot request is fulfilled."}
        interrupted = self._instance.state_reason.code == "Server.SpotInstanceTermination"
        return {"Code": "instance-terminated-no-capacity" if interrupted else "instance-terminated-by-user"}


@override(EC2Backend)
def describe_spot_instance_requests(self: Any, filters: Any = None, spot_instance_ids: list[str] | None = None) -> list[Any]:
    """Return the requests with these IDs, or all requests. Raises `InvalidSpotInstanceRequestID.NotFound`."""
    for identifier in spot_instance_ids or []:
        if identifier not in self.spot_instance_requests:
            raise EC2ClientError("InvalidSpotInstanceRequestID.NotFound", f"The spot instance request ID '{identifier}' does not exist")
    wanted = spot_instance_ids or list(self.spot_instance_requests)
    return generic_filter(filters, [self.spot_instance_requests[identifier] for identifier in wanted])


@override(EC2Response)
def describe_spot_price_history(self: EC2Response) -> ActionResult:
    """Return the current prices in pages."""
    filters = self._filters_from_querystring()
    types = self._get_param("InstanceTypes") or filters.get("instance-type", INSTANCE_TYPES)
    products = self._get_param("ProductDescriptions") or filters.get("product-description", PRODUCTS)
    if zone := self._get_param("AvailabilityZone"):
        filters["availability-zone"] = [zone]
    found = [
        {
            "AvailabilityZone": offering["Location"],
            "InstanceType": offering["InstanceType"],
            "ProductDescription": PRODUCT,
            "SpotPrice": f"{price(offering['InstanceType']):.6f}",
            "Timestamp": CLOUD.utcnow(),
        }
        for offering in INSTANCE_TYPE_OFFERINGS["availability-zone"].get(self.region, [])
        if offering["InstanceType"] in types
        and offering["Location"] in filters.get("availability-zone", [offering["Location"]])
        and set(products).intersection(PRODUCTS)
        and SPOT in INSTANCE_TYPES.get(offering["InstanceType"], {}).get("SupportedUsageClasses", [])
    ]
    start = int(self._get_param("NextToken") or 0)
    end = start + min(self._get_int_param("MaxResults") or PAGE, PAGE)
    return ActionResult({"SpotPriceHistory": found[start:end], "NextToken": str(end) if end < len(found) else None})
