from __future__ import annotations

from types import SimpleNamespace

import pytest
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.client import ClusterError
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.validator import Finding, Level, Validator, find_all

REQUEST = SimpleNamespace(components=frozenset({"nodes"}))


def validator(name, *, level=Level.ERROR, for_launches=False, components=frozenset({"nodes"}), found=(), error=None):
    """Return a validator that yields the given findings or raises the given error."""

    def check(_self, _request, _found):
        if error:
            raise error
        yield from found

    body = {"name": name, "level": level, "for_launches": for_launches, "components": components, "check": check}
    return type(name, (Validator,), body)()


def test_errors_come_first_and_the_rest_keeps_its_order():
    validators = [
        validator("a", level=Level.WARNING, found=["one"]),
        validator("b", found=["two", "three"]),
        validator("c", level=Level.WARNING, found=["four"]),
    ]
    assert find_all(validators, REQUEST, []) == [
        Finding("b", Level.ERROR, "two"),
        Finding("b", Level.ERROR, "three"),
        Finding("a", Level.WARNING, "one"),
        Finding("c", Level.WARNING, "four"),
    ]


def test_suppressed_validators_and_those_of_other_components_are_not_asked():
    unasked = ClusterError("asked")
    validators = [validator("a", error=unasked), validator("b", components=frozenset({"network"}), error=unasked)]
    assert find_all(validators, REQUEST, [], suppressed=["a"]) == []


@pytest.mark.parametrize(("launches", "level"), [(True, Level.ERROR), (False, Level.WARNING)])
def test_what_concerns_new_nodes_is_an_error_only_if_there_are_some(launches, level):
    validators = [validator("a", for_launches=True, found=["one"]), validator("b", found=["two"])]
    findings = {finding.validator: finding.level for finding in find_all(validators, REQUEST, [], launches=launches)}
    assert findings == {"a": level, "b": Level.ERROR}


def test_what_cannot_be_answered_about_new_nodes_is_an_error_only_if_there_are_some():
    validators = [validator("a", for_launches=True, error=ClusterError("denied"))]
    assert find_all(validators, REQUEST, [], launches=False) == [Finding("a", Level.WARNING, "denied")]
    with pytest.raises(ClusterError, match="denied"):
        find_all(validators, REQUEST, [])


def test_an_error_that_was_found_hides_what_could_not_be_answered():
    unanswered = validator("a", error=ClusterError("denied"))
    assert find_all([unanswered, validator("b", found=["one"])], REQUEST, []) == [Finding("b", Level.ERROR, "one")]
    with pytest.raises(ClusterError, match="denied"):
        find_all([unanswered, validator("b", level=Level.WARNING, found=["one"])], REQUEST, [])
