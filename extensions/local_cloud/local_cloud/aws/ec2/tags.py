"""The limit on the number of tags that an EC2 resource can have."""

from __future__ import annotations

from moto.ec2.exceptions import InvalidParameterValueErrorTagNull, TagLimitExceeded
from moto.ec2.models.tags import TagBackend

from ..context import CLOUD
from ..override import override
from ..tags import RESERVED

# The maximum number of user-defined tags per resource.
LIMIT = 50


@override(TagBackend)
def create_tags(self: TagBackend, resource_ids: list[str], tags: dict[str, str]) -> bool:
    """Set tags. Raises `TagLimitExceeded`. Tags with the prefix `aws:` do not count toward the limit."""
    if None in tags.values():
        raise InvalidParameterValueErrorTagNull
    for resource_id in resource_ids:
        together = {*self.tags.get(resource_id, {}), *tags}
        if sum(not key.startswith(RESERVED) for key in together) > LIMIT:
            raise TagLimitExceeded
    for resource_id in resource_ids:
        CLOUD.tagged_at.setdefault(resource_id, CLOUD.now())
        self.tags[resource_id].update(tags)
    return True
