"""Faster serialization has the same result as moto's."""

from __future__ import annotations

from typing import Any

import pytest
import xmltodict
from botocore.loaders import Loader
from local_cloud.aws import moto_serialization
from moto.core import serialize
from moto.core.model import ServiceModel


@pytest.mark.parametrize(
    "content",
    [
        {"@xmlns": "http://ec2.amazonaws.com/doc/2016-11-15/", "requestId": "1"},
        {"item": [{"name": "a & <b>", "size": 1.5, "on": True, "off": False}, "text", None, {}]},
        {"empty": "", "none": None, "list": [], "lists": {"item": []}, "of": ["", None]},
        {"@note": "a \"quoted\" & <marked> 'value'", "of": {"@a": "1", "b": 2}},
        {"unicode": "caf\u00e9", "lines": "one\ntwo"},
        "text",
        None,
        [],
        {},
    ],
)
def test_xml(content: Any) -> None:
    wanted = xmltodict.unparse({"root": content}, full_document=False, short_empty_elements=True)
    assert moto_serialization.element("root", content) == wanted


class Image:
    """An object with members under several of the names for which moto looks."""

    id = "ami-1"
    image_location = None
    creation_date = "2026-01-01T00:00:00Z"
    Public = True


class Listed(dict[str, Any]):
    pass


@pytest.mark.parametrize("transformers", [{}, {"Image.CreationDate": str}])
@pytest.mark.parametrize("image", [Image(), {"ImageId": "ami-2", "location": "here"}, Listed(image_id="ami-3", state="pending"), {}])
def test_members_of_structures(image: Any, transformers: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    model = ServiceModel(Loader().load_service_model("ec2", "service-2"), "ec2")
    operation = model.operation_model("DescribeImages")

    def serialized() -> Any:
        picker = serialize.XFormedAttributePicker(response_transformers=transformers)
        return serialize.EC2Serializer(operation, value_picker=picker).serialize({"Images": [image, image]})

    ours = serialized()
    monkeypatch.setattr(serialize.ResponseSerializer, "get_value", moto_serialization.moto_value)
    assert ours == serialized()
