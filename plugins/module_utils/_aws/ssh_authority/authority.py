# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""The cluster's SSH certificate authority: a private key in Parameter Store, encrypted with a KMS key."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple, NoReturn

from ..client import CLUSTER_TAG, COMPONENT_TAG, AnsibleAWSModule, AwsClient, ClientError, if_exists, tag_list
from ..emr import record
from ..emr.nodes import JOB_FLOW_TAG
from ..error_codes import DENIED, error_code, is_missing
from ..node_group import membership_tags
from ..node_services import DEFAULT
from ..plan.resources import KNOWN_AFTER_APPLY
from . import kms_key as authority_key
from . import published_key
from .parameter import parameter_name, public_parameter_name
from .visibility import wait_for_version

try:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
except ImportError:
    pass  # cryptography is a dependency of ansible-core


class Stored(NamedTuple):
    private_key: str
    version: int


def generate() -> str:
    encoding, private_format = serialization.Encoding.PEM, serialization.PrivateFormat.OpenSSH
    return Ed25519PrivateKey.generate().private_bytes(encoding, private_format, serialization.NoEncryption()).decode()


def public_key(private_key: str, comment: str) -> str:
    """Return the public key as one line in OpenSSH format."""
    key = serialization.load_ssh_private_key(private_key.encode(), password=None).public_key()
    line = key.public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH).decode()
    return f"{line} {comment}"


def read(cloud: AwsClient, version: int | None = None) -> Stored | None:
    name = parameter_name(cloud.cluster)
    answer = if_exists(cloud.ssm.get_parameter, Name=name if version is None else f"{name}:{version}", WithDecryption=True)
    return Stored(str(answer["Parameter"]["Value"]), answer["Parameter"]["Version"]) if answer else None


def read_visible(cloud: AwsClient, least: int, version: int | None = None) -> Stored:
    """Return the latest version, or the given one, as soon as it is visible. The result has at least the version `least`."""
    return wait_for_version(cloud, parameter_name(cloud.cluster), least, partial(read, cloud, version))


def create(cloud: AwsClient, kms_key: str | None) -> Stored:
    """Store a new private key and return it. If another run has just stored a key, return that key instead."""
    private_key = generate()
    try:
        version = _put(
            cloud,
            kms_key,
            Description=f"SSH certificate authority of the training cluster {cloud.cluster}",
            Type="SecureString",
            Tier="Standard",
            Value=private_key,
            Tags=tag_list({CLUSTER_TAG: cloud.cluster, COMPONENT_TAG: "ssh_trust"}),
        )
    except ClientError as error:
        if error_code(error) != "ParameterAlreadyExists":
            raise
        return read_visible(cloud, 1)
    return Stored(private_key, version)


def replace(cloud: AwsClient, kms_key: str | None, tier: str) -> Stored:
    """Replace the stored private key with a new one and return the new key. The parameter's tags do not change."""
    private_key = generate()
    return Stored(private_key, overwrite(cloud, private_key, kms_key, tier))


def encrypt_again(cloud: AwsClient, stored: Stored, kms_key: str, tier: str) -> Stored:
    """Re-encrypt the stored private key with a different KMS key, and return the private key.

    If another run replaces the private key in the meantime, keep the newer private key.
    """
    while True:
        version = overwrite(cloud, stored.private_key, kms_key, tier)
        other = stored if version in (1, stored.version + 1) else read_visible(cloud, version - 1, version - 1)
        if other.private_key == stored.private_key:
            return Stored(stored.private_key, version)
        stored = other._replace(version=version)


def overwrite(cloud: AwsClient, private_key: str, kms_key: str | None, tier: str) -> int:
    """Overwrite the stored private key and return the parameter's new version.

    `tier` must be the parameter's current tier, because SSM cannot move a parameter to a lower tier.
    """
    return _put(cloud, kms_key, Type="SecureString", Tier=tier, Value=private_key, Overwrite=True)


def _put(cloud: AwsClient, kms_key: str | None, **arguments: Any) -> int:
    encryption = {"KeyId": kms_key} if kms_key else {}
    put = partial(cloud.ssm.put_parameter, Name=parameter_name(cloud.cluster), **arguments, **encryption)
    if kms_key in cloud.created:
        put = partial(cloud.once_allowed, partial(cloud.once_visible, put, "InvalidKeyId"))
    return int(put()["Version"])


def describe(cloud: AwsClient) -> dict[str, str]:
    """Return the parameter's metadata, or an empty dictionary if the parameter does not exist.

    `KeyId` can be the ID, ARN or alias of the KMS key.
    """
    name = {"Key": "Name", "Values": [parameter_name(cloud.cluster)]}
    described = cloud.retrieve("ssm", "describe_parameters", "Parameters", ParameterFilters=[name])
    return dict(described[0]) if described else {}


def wanted_key(module: AnsibleAWSModule, cloud: AwsClient) -> str | None:
    """Return the ARN of the KMS key that the options select, the alias of the AWS managed key, or None if no key is selected.

    In check mode, the ARN of a key that a run would create is unknown.
    """
    if module.params["kms_key_id"] == authority_key.SERVICE_KEY:
        return authority_key.SERVICE_KEY
    if module.params["kms_key_id"]:
        return authority_key.usable(cloud, module.params["kms_key_id"])
    if not module.params["create_kms_key"]:
        return None
    return authority_key.find(cloud) or (KNOWN_AFTER_APPLY if module.check_mode else authority_key.create(cloud))


def ensure_present(module: AnsibleAWSModule, cloud: AwsClient) -> NoReturn:
    """Make sure that the private key is stored. Rotate or re-encrypt the private key if the options require it. Exit the module."""
    stored, key, rotates = read(cloud), wanted_key(module, cloud), module.params["rotate"]
    described = describe(cloud) if stored else {}
    before, tier = described.get("KeyId", ""), described.get("Tier", "Standard")
    encrypts = bool(stored and key and not authority_key.is_same(cloud, before, key))
    if key is None and before not in ("", authority_key.SERVICE_KEY):
        key = before
        _warn_of_kept_key(module, cloud, before)
    if module.check_mode and (stored is None or rotates):
        module.exit_json(changed=True, public_key=KNOWN_AFTER_APPLY)
    if encrypts and not rotates:
        _warn_of_history(module, cloud, before)
    current = _store(cloud, stored, key, tier, rotates=rotates, encrypts=encrypts and not module.check_mode)
    publishes = publish(cloud, current, purge_previous=module.params["purge_previous"], check_mode=module.check_mode)
    changed = any((stored is None, encrypts, rotates, publishes))
    module.exit_json(changed=changed, public_key=public_key(current.private_key, cloud.cluster), private_key=current.private_key)
    raise AssertionError("exit_json returned")


def _store(cloud: AwsClient, stored: Stored | None, key: str | None, tier: str, *, rotates: bool, encrypts: bool) -> Stored:
    """Create, rotate or re-encrypt the private key if necessary, and return the key."""
    if stored is None:
        return create(cloud, key)
    if rotates:
        return replace(cloud, key, tier)
    return encrypt_again(cloud, stored, str(key), tier) if encrypts else stored


def publish(cloud: AwsClient, stored: Stored, *, purge_previous: bool, check_mode: bool) -> bool:
    """Make the published public keys match the private key `stored`, and return whether they differed.

    A published previous key stays until `purge_previous`, because nodes may still have certificates of the previous authority. If another
    run replaces the private key in the meantime, publish the newer public key.
    """
    changed, written = False, 0
    while True:
        stored = read_visible(cloud, stored.version)
        found, current = published_key.read(cloud, written), public_key(stored.private_key, cloud.cluster)
        keeps = not purge_previous and found not in ([], [current])
        previous = _previous_key(cloud, stored.version) if keeps else ""
        wanted = [current, previous] if previous in found and previous != current else [current]
        if found == wanted:
            return changed
        if check_mode:
            return True
        changed, written = True, published_key.write(cloud, wanted)


def _previous_key(cloud: AwsClient, version: int) -> str:
    """Return the public key that belongs to the version before `version`, or an empty string if there is no such version."""
    return public_key(read_visible(cloud, version - 1, version - 1).private_key, cloud.cluster) if version > 1 else ""


def _warn_of_kept_key(module: AnsibleAWSModule, cloud: AwsClient, key: str) -> None:
    module.warn(
        f"Cluster {cloud.cluster}: the private key of the SSH certificate authority stays encrypted with {key}, "
        "although neither kms_key_id nor create_kms_key is set. "
        f"Set one of these options. To use the AWS managed key for SSM, set kms_key_id to {authority_key.SERVICE_KEY}."
    )


def _warn_of_history(module: AnsibleAWSModule, cloud: AwsClient, key: str) -> None:
    module.warn(
        f"Cluster {cloud.cluster}: the private key of the SSH certificate authority was encrypted with {key}. "
        "Earlier versions in the parameter's history are still encrypted with that key. "
        "If an unauthorized person could have read one of these versions, run deeplearning.cluster.rotate_authority."
    )


def ensure_absent(module: AnsibleAWSModule, cloud: AwsClient) -> NoReturn:
    """Delete the private key unless nodes use it. Exit the module.

    In check mode, nodes of `node_service` do not count, because a run terminates them first.
    """
    nodes = live_nodes(cloud, leaving=module.params["node_service"] if module.check_mode else None)
    if nodes:
        module.warn(
            f"Cluster {cloud.cluster}: the SSH certificate authority is kept, because nodes of this cluster use it: {', '.join(nodes[:5])}."
        )
        module.exit_json(changed=False)
    key = own_key(module, cloud)
    deleted = bool(describe(cloud) or published_key.read(cloud)) if module.check_mode else delete(cloud)
    if key and not module.check_mode:
        authority_key.delete(cloud, key)
    module.exit_json(changed=bool(deleted or key))
    raise AssertionError("exit_json returned")


def live_nodes(cloud: AwsClient, leaving: str | None) -> list[str]:
    """Return the IDs of the cluster's live instances, except those that the service `leaving` launched.

    Only AWS can set the tags that identify these instances. An EC2 cluster and an EMR cluster with the same name use the same authority.
    """
    states = {"Name": "instance-state-name", "Values": ["pending", "running", "stopping", "stopped"]}
    recorded = record.read(cloud) if leaving != "emr" else None
    of_emr = [{"Name": f"tag:{JOB_FLOW_TAG}", "Values": [recorded.cluster_id]}] if recorded and recorded.cluster_id else None
    services = {DEFAULT: membership_tags.filters(cloud.cluster), "emr": of_emr}
    staying = [filters for service, filters in services.items() if filters and service != leaving]
    found = [cloud.retrieve("ec2", "describe_instances", "Reservations", Filters=[*filters, states]) for filters in staying]
    return sorted(instance["InstanceId"] for reservations in found for each in reservations for instance in each["Instances"])


def delete(cloud: AwsClient) -> bool:
    """Delete both parameters and return whether one existed. The deletion does not require permission to decrypt the private key."""
    deleted = False
    for name in (public_parameter_name(cloud.cluster), parameter_name(cloud.cluster)):
        try:
            cloud.ssm.delete_parameter(Name=name)
            deleted = True
        except ClientError as error:
            if not is_missing(error):
                raise
    return deleted


def own_key(module: AnsibleAWSModule, cloud: AwsClient) -> str | None:
    """Return the KMS key that was created for the cluster, or None if there is no such key.

    Most clusters have no KMS key of their own, so a denied API call causes only a warning.
    """
    try:
        return authority_key.find_own(cloud)
    except ClientError as error:
        if error_code(error) not in DENIED:
            raise
        module.warn(
            f"Cannot determine whether the KMS alias {authority_key.alias(cloud.cluster)} exists: {error}. "
            "If create_kms_key has created a key, schedule the deletion of that key."
        )
        return None
