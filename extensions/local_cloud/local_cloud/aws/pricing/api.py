"""The Price List Query API, which moto lacks."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from ..requests import calls, errors
from ..requests.refusal import Refusal
from . import products

SERVICE = "pricing"
# The regions that have an endpoint. AWS General Reference, "AWS Price List endpoints and quotas"
ENDPOINTS = ("ap-south-1", "eu-central-1", "us-east-1")
PAGE = 100
PUBLISHED = "2026-11-02T00:00:00Z"
ON_DEMAND, HOURLY = "JRTCKXETXF", "6YS6EN2CT7"  # the same codes in the price list of all services


def answer(environ: dict[str, Any], start: Callable[..., Any]) -> Iterable[bytes]:
    """Respond to a request to the Price List service, as a WSGI application."""
    call = calls.identify(environ)
    if call.region not in ENDPOINTS:
        message = f"The service has no endpoint in {call.region}, only in {', '.join(ENDPOINTS)}."
        return errors.send(start, environ, call, "UnrecognizedClientException", message, 400)
    result = _answer(call.action, json.loads(calls.read_body(environ) or b"{}"))
    if isinstance(result, Refusal):
        return errors.send(start, environ, call, *result)
    body = json.dumps(result).encode()
    start("200 OK", [("Content-Type", "application/x-amz-json-1.1"), ("Content-Length", str(len(body)))])
    return [body]


def _answer(action: str, parameters: Mapping[str, Any]) -> dict[str, Any] | Refusal:
    if action != "GetProducts":
        return Refusal("InvalidAction", f"The action {action} is not available in the local cloud.", 400)
    if parameters["ServiceCode"] not in products.services():
        return Refusal("NotFoundException", f"Invalid service code: {parameters['ServiceCode']}", 400)
    token = parameters.get("NextToken") or "0"
    if not token.isdigit():
        return Refusal("InvalidNextTokenException", "The pagination token is invalid. Try again without a pagination token.", 400)
    first, size = int(token), min(parameters.get("MaxResults") or PAGE, PAGE)
    found = list(islice(_matching(parameters["ServiceCode"], parameters.get("Filters", [])), first, first + size + 1))
    more = {"NextToken": str(first + size)} if len(found) > size else {}
    return {"FormatVersion": "aws_v1", "PriceList": [json.dumps(_described(each)) for each in found[:size]], **more}


def _matching(service: str, filters: list[Mapping[str, str]]) -> Iterator[products.Product]:
    terms = {each["Field"]: each["Value"] for each in filters if each["Type"] in ("TERM_MATCH", "EQUALS")}
    for product in products.products(service, terms):
        attributes = {**product.attributes, "servicecode": service, "productFamily": product.family}
        lowered = {name.lower(): value for name, value in attributes.items()}
        if all(_matches(each["Type"], each["Value"], lowered.get(each["Field"].lower())) for each in filters):
            yield product


def _matches(kind: str, wanted: str, value: str | None) -> bool:
    listed = wanted.split(",")
    if value is None:
        return kind == "NONE_OF"
    return {
        "ANY_OF": value in listed,
        "CONTAINS": wanted in value,
        "EQUALS": value == wanted,
        "NONE_OF": value not in listed,
        "TERM_MATCH": value == wanted,
    }[kind]


def _described(product: products.Product) -> dict[str, Any]:
    """Return the product as in the price list, with the terms of its On-Demand price."""
    identity = json.dumps([product.service, product.attributes], sort_keys=True)
    sku = hashlib.sha256(identity.encode()).hexdigest()[:16].upper()
    rate = f"{sku}.{ON_DEMAND}.{HOURLY}"
    dimension = {
        "unit": product.unit,
        "beginRange": "0",
        "endRange": "Inf",
        "description": f"${product.price:.10f} per {product.unit}",
        "appliesTo": [],
        "rateCode": rate,
        "pricePerUnit": {"USD": f"{product.price:.10f}"},
    }
    term = {
        "priceDimensions": {rate: dimension},
        "sku": sku,
        "effectiveDate": PUBLISHED,
        "offerTermCode": ON_DEMAND,
        "termAttributes": {},
    }
    about = {"attributes": {**product.attributes, "servicecode": product.service}, "sku": sku}
    return {
        "product": {**about, **({"productFamily": product.family} if product.family else {})},
        "serviceCode": product.service,
        "terms": {"OnDemand": {f"{sku}.{ON_DEMAND}": term}},
        "version": "20261102000000",
        "publicationDate": PUBLISHED,
    }
