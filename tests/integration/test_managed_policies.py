"""Condition keys in the documented policies, compared with the policies that AWS itself manages.

AWS documents for each action which condition keys exist, but not in which of the action's own checks a key is set. A pair of action and
key that AWS uses in a policy of its own works. All other pairs are listed here, with the reason to rely on them.
"""

from __future__ import annotations

import fnmatch
import json
from collections import defaultdict
from pathlib import Path

import pytest
from moto.iam.aws_managed_policies import aws_managed_policies_data

POLICIES = sorted((Path(__file__).resolve().parents[2] / "docs" / "policies").glob("*.json"))
# Keys whose last part is the name of a tag.
OF_TAGS = ("aws:resourcetag/", "aws:requesttag/")
# Reasons to rely on a pair of action and condition key that no managed policy contains. Both may contain wildcards.
EXCEPTIONS = {
    ("autoscaling:*autoscalinggroup", "autoscaling:launchtemplateversionspecified"): (
        "Auto Scaling User Guide, 'Control Amazon EC2 launch template usage', has this statement."
    ),
    ("autoscaling:updateautoscalinggroup", "autoscaling:launchconfigurationname"): (
        "Service Authorization Reference. The condition is Null, so it also holds if AWS never sets the key."
    ),
    ("ec2:createplacementgroup", "aws:requesttag/*"): "EC2 User Guide, 'Grant permission to tag resources during creation'.",
    ("ec2:*networkinterface*", "aws:viaawsservice"): (
        "Not verified: IAM User Guide, 'aws:ViaAWSService', for calls with forward access sessions. AWS's own policy for EFS allows these "
        "calls without a condition. tools/first_account.py verifies the key."
    ),
    ("elasticmapreduce:*tags", "aws:*"): "EMR Management Guide, 'Using cluster tags for fine-grained access control', has both keys.",
    ("fsx:createdatarepositoryassociation", "aws:requesttag/*"): "FSx for Lustre User Guide, 'Using tags with Amazon FSx'.",
    ("kms:createkey", "kms:key*"): "KMS Developer Guide, 'kms:KeySpec' and 'kms:KeyUsage', name CreateKey.",
    ("kms:*", "kms:resourcealiases"): "KMS Developer Guide, 'kms:ResourceAliases', names operations on existing keys.",
    ("lambda:untagresource", "aws:tagkeys"): "Service Authorization Reference. AWS's own policies rely on the key for lambda:TagResource.",
    ("s3:*", "s3:resourceaccount"): "S3 User Guide, 'Policy keys for Amazon S3': the key is in the context of all requests.",
    ("ssm:startsession", "ssm:sessiondocumentaccesscheck"): (
        "Systems Manager User Guide, 'Enforce a session document permission check for the AWS CLI'."
    ),
    ("ssm:terminatesession", "ssm:resourcetag/aws:ssmmessages:session-id"): (
        "Systems Manager User Guide, 'Additional sample IAM policies for Session Manager', has this statement."
    ),
}


def listed(value):
    return value if isinstance(value, list) else [value]


def key_of(name):
    """Return the condition key in lowercase, without the name of a tag or of a part of an encryption context."""
    name = name.lower()
    prefix = next((each for each in (*OF_TAGS, "kms:encryptioncontext:") if name.startswith(each)), None)
    return f"{prefix}*" if prefix else name


def pairs(document):
    """Yield each pair of action and condition key in a policy, in lowercase."""
    for statement in listed(document.get("Statement", [])):
        keys = {key_of(name) for condition in (statement.get("Condition") or {}).values() for name in condition}
        for action in listed(statement.get("Action", [])):
            for key in keys:
                yield action.lower(), key


@pytest.fixture(autouse=True)
def _fresh():
    """Override the fixture of conftest.py, because these tests use no local cloud."""


@pytest.fixture(scope="module")
def precedents():
    """The actions of AWS's managed policies, with wildcards, by condition key."""
    found = defaultdict(set)
    for policy in json.loads(aws_managed_policies_data).values():
        for action, key in pairs(policy.get("Document") or {}):
            found[key].add(action)
    return found


@pytest.fixture(scope="module")
def without_precedent(precedents):
    ours = {pair for path in POLICIES for pair in pairs(json.loads(path.read_text()))}
    return {(action, key) for action, key in ours if not any(fnmatch.fnmatch(action, pattern) for pattern in precedents[key])}


def is_excepted(pair, exception):
    return all(map(fnmatch.fnmatch, pair, exception))


def test_each_condition_key_has_a_precedent_or_a_reason(without_precedent):
    unexplained = {pair for pair in without_precedent if not any(is_excepted(pair, each) for each in EXCEPTIONS)}
    assert sorted(unexplained) == []


@pytest.mark.parametrize("exception", EXCEPTIONS)
def test_each_exception_is_needed(without_precedent, exception):
    assert any(is_excepted(pair, exception) for pair in without_precedent)
