"""Networks: NAT gateways, endpoints, private networks, and networks that belong to other owners."""

from __future__ import annotations

import json

import pytest
import yaml
from ansible_collections.deeplearning.cluster.plugins.module_utils._aws.instance_role.definition import trust_policy
from ansible_collections.deeplearning.cluster.plugins.plugin_utils.ssh_files import SshNode, config_file

from .clusters import instances, inventory, steps, writes
from .conftest import KEY_NAME, ModuleFailed
from .landlord import create_subnet

ZONES = ["us-east-1a", "us-east-1b", "us-east-1c"]


def _ipv6_subnet(ec2, vpc, zone):
    association = ec2.associate_vpc_cidr_block(VpcId=vpc, AmazonProvidedIpv6CidrBlock=True)["Ipv6CidrBlockAssociation"]
    block = association["Ipv6CidrBlock"].replace("::/56", "::/64")
    return ec2.create_subnet(VpcId=vpc, Ipv6CidrBlock=block, Ipv6Native=True, AvailabilityZone=zone)["Subnet"]["SubnetId"]


def _exits(cloud, result):
    """Return the key of each private subnet's NAT gateway by zone, or None for subnets without one."""
    tables = cloud.client("ec2").describe_route_tables(RouteTableIds=list(result["resources"]["route_table"].values()))["RouteTables"]
    names = {resource_id: key for key, resource_id in result["resources"].get("nat_gateway", {}).items()}
    zones = {subnet: key.removeprefix("private-") for key, subnet in result["resources"]["subnet"].items() if key.startswith("private-")}
    return {
        zones[item["SubnetId"]]: next((names[route["NatGatewayId"]] for route in table["Routes"] if "NatGatewayId" in route), None)
        for table in tables
        for item in table["Associations"]
        if item.get("SubnetId") in zones
    }


def test_nat_gateways_change_in_place(cloud, run, name):
    options = {"cluster": name, "zones": ZONES, "ssh_cidrs": ["203.0.113.0/24"]}
    run("cluster", components=["network"], **options)
    for nat, exits in (
        ("per_zone", {zone: zone for zone in ZONES}),
        ("none", dict.fromkeys(ZONES)),
        ("single", dict.fromkeys(ZONES, "main")),
    ):
        predicted = run("cluster", components=["network"], **options, nat=nat, check=True)
        cloud.control.forget_calls()
        applied = run("cluster", components=["network"], **options, nat=nat)
        assert steps(predicted) == steps(applied)
        assert _exits(cloud, applied) == exits
        assert not run("cluster", components=["network"], **options, nat=nat)["changed"]
        calls = writes(cloud)
        if "CreateNatGateway" in calls and "DeleteNatGateway" in calls:
            last_made = len(calls) - 1 - calls[::-1].index("CreateNatGateway")
            moved = calls.index("ReplaceRouteTableAssociation")
            assert last_made < moved < calls.index("DeleteNatGateway"), "no subnet may lose its route to the internet"
            assert "AssociateRouteTable" not in calls


def test_a_network_without_any_way_out_has_no_public_side(cloud, run, name):
    options = {"cluster": name, "master_public_address": False, "nat": "none", "interface_endpoints": ["ssm", "ssmmessages"]}
    made = steps(run("cluster", components=["network"], **options))
    assert not [item for _action, item in made if "public" in item or "gateway" in item or "elastic_ip" in item]
    assert {("create", "vpc_endpoint s3"), ("create", "vpc_endpoint ssm"), ("create", "security_group endpoints")} < made
    assert not run("cluster", components=["network"], **options)["changed"]

    more = {**options, "zones": ZONES[:2], "interface_endpoints": ["ssm", "logs"]}
    predicted = run("cluster", components=["network"], **more, check=True)
    applied = run("cluster", components=["network"], **more)
    assert steps(predicted) == steps(applied)
    assert {("update", "vpc_endpoint ssm"), ("create", "vpc_endpoint logs"), ("delete", "vpc_endpoint ssmmessages")} < steps(applied)
    assert not run("cluster", components=["network"], **more)["changed"]
    endpoint = cloud.client("ec2").describe_vpc_endpoints(VpcEndpointIds=[applied["resources"]["vpc_endpoint"]["ssm"]])["VpcEndpoints"][0]
    assert len(endpoint["SubnetIds"]) == 2
    assert endpoint["PrivateDnsEnabled"]

    none = {**more, "interface_endpoints": []}
    assert {("delete", "vpc_endpoint ssm"), ("delete", "vpc_endpoint logs"), ("delete", "security_group endpoints")} == steps(
        run("cluster", components=["network"], **none)
    )


def test_a_network_of_somebody_else_with_ipv6(run, definition, landlord):
    """In a VPC with IPv6, new security groups also allow all outbound IPv6 traffic by default."""
    owner = landlord(ZONES[:1])
    owner.ec2.associate_vpc_cidr_block(VpcId=owner.vpc, AmazonProvidedIpv6CidrBlock=True)
    definition |= owner.options(worker_count=0)
    run("cluster", **definition)
    assert not run("cluster", **definition)["changed"]


def test_life_in_a_network_of_somebody_else(cloud, run, definition, landlord, name):
    owner = landlord(ZONES[:2])
    before = owner.state()
    definition |= owner.options()
    predicted = run("cluster", **definition, check=True)
    applied = run("cluster", **definition)
    assert steps(predicted) == steps(applied)
    kinds = {item.split()[0] for _action, item in steps(applied)}
    assert not kinds & {"vpc", "subnet", "internet_gateway", "nat_gateway", "elastic_ip", "route_table", "vpc_endpoint"}
    assert {("create", "security_group nodes"), ("create", "mount_target us-east-1b")} < steps(applied)
    assert applied["resources"]["vpc"]["main"] == owner.vpc
    groups = cloud.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=[f"{name}-master", f"{name}-workers"])
    subnets = {group["AutoScalingGroupName"]: set(group["VPCZoneIdentifier"].split(",")) for group in groups["AutoScalingGroups"]}
    assert subnets == {f"{name}-master": set(owner.public), f"{name}-workers": set(owner.private)}
    cloud.control.forget_calls()
    assert not run("cluster", **definition)["changed"]
    assert not writes(cloud)

    gone = run("cluster", cluster=name, state="absent", delete_data=True)
    assert {item for _action, item in steps(gone)} >= {"mount_target us-east-1a", "mount_target us-east-1b", "security_group storage"}
    assert owner.state() == before
    assert not run("cluster", cluster=name, state="absent")["changed"]


def test_a_zone_of_somebody_else_with_nodes_is_not_taken_away(cloud, run, definition, landlord):
    owner = landlord(ZONES[:2])
    run("cluster", **{**definition, **owner.options()})
    cloud.control.forget_calls()
    fewer = owner.options(private_subnet_ids=owner.private[:1])
    with pytest.raises(ModuleFailed, match=r"private_subnet_ids: nodes are running in us-east-1b. Keep a subnet in each of these zones"):
        run("cluster", **{**definition, **fewer})
    assert not writes(cloud)


def test_security_groups_of_somebody_else_are_used_and_left_alone(cloud, run, definition, landlord, name):
    owner = landlord()
    nodes = owner.group("their-nodes", ("tcp", 0, 65535, ""))
    groups = {
        "nodes": nodes,
        "ssh": owner.group("their-ssh", ("tcp", 22, 22, "203.0.113.0/24")),
        "storage": owner.group("their-storage", ("tcp", 2049, 2049, nodes)),
    }
    before = owner.state(*groups.values())
    definition |= owner.options(security_group_ids=groups)
    del definition["ssh_cidrs"]
    applied = run("cluster", **definition)
    assert not [item for _action, item in steps(applied) if item.startswith("security_group")]
    assert applied["resources"]["security_group"] == groups
    assert not run("cluster", **definition)["changed"]
    launched = [
        {group["GroupId"] for group in instance["SecurityGroups"]}
        for reservation in cloud.client("ec2").describe_instances(InstanceIds=list(instances(cloud, name)))["Reservations"]
        for instance in reservation["Instances"]
    ]
    assert sorted(launched, key=len) == [{nodes}, {nodes}, {nodes, groups["ssh"]}]
    with pytest.raises(ModuleFailed, match=r"security_group_ids: the nodes are in a security group that is not the cluster's own"):
        run("cluster", **{**definition, "security_group_ids": None, "ssh_cidrs": ["203.0.113.0/24"]})
    run("cluster", **definition, state="absent", delete_data=True)
    assert owner.state(*groups.values()) == before


def test_lustre_is_let_in_where_there_is_one_and_from_its_subnets(cloud, run, definition, landlord, name):
    """Lustre servers connect to the nodes, even from a subnet that the cluster does not use."""
    owner = landlord(zones=("us-east-1a", "us-east-1b"))
    adopted = owner.options(private_subnet_ids=owner.private[:1], public_subnet_ids=owner.public[:1])
    options = {"cluster": name, **adopted, "ssh_cidrs": definition["ssh_cidrs"]}

    def let_in(**more):
        groups = run("cluster", components=["network"], **options, **more)["resources"]["security_group"]
        assert not run("cluster", components=["network"], **options, **more)["changed"]
        rules = owner.ec2.describe_security_groups(GroupIds=[groups["nodes"]])["SecurityGroups"][0]["IpPermissions"]
        return {item["CidrIp"] for rule in rules if rule.get("FromPort") in (988, 1018) for item in rule["IpRanges"]}

    private, elsewhere = (owner.ec2.describe_subnets(SubnetIds=[subnet])["Subnets"][0]["CidrBlock"] for subnet in owner.private)
    assert let_in() == set()
    assert let_in(lustre=True) == {private}
    place = {"StorageCapacity": 1200, "SubnetIds": owner.private[1:], "LustreConfiguration": {"DeploymentType": "SCRATCH_2"}}
    theirs = cloud.client("fsx").create_file_system(FileSystemType="LUSTRE", **place)["FileSystem"]["FileSystemId"]
    assert let_in(lustre_file_system_id=theirs) == {elsewhere}
    assert let_in() == set()


def test_components_one_by_one_in_a_network_of_somebody_else(run, definition, landlord, name):
    owner = landlord()
    common = {"cluster": name, **owner.options()}
    run("cluster", components=["network"], **common, ssh_cidrs=definition["ssh_cidrs"])
    run("cluster", components=["file_system"], **common)
    run("cluster", components=["instance_role"], cluster=name)
    nodes = {key: definition[key] for key in ("instance_type", "worker_count", "image_parameter", "key_name")}
    for group in ("workers", "master"):
        run("cluster", components=[group], **common, **nodes)
    assert not run("cluster", **definition, **owner.options())["changed"]
    with pytest.raises(ModuleFailed, match=rf"vpc_id: the cluster is in {owner.vpc} and cannot get a VPC of its own"):
        run("cluster", components=["workers"], cluster=name, **nodes)


def test_a_private_cluster_has_no_public_address(cloud, run, definition, name, tmp_path):
    definition |= {"master_public_address": False, "session_manager": True}
    del definition["ssh_cidrs"]
    result = run("cluster", **definition)
    assert not run("cluster", **definition)["changed"]
    described = cloud.client("ec2").describe_instances(InstanceIds=list(instances(cloud, name)))["Reservations"]
    found = [instance for reservation in described for instance in reservation["Instances"]]
    assert {instance["SubnetId"] for instance in found} == {result["resources"]["subnet"]["private-us-east-1a"]}
    assert not [instance for instance in found if "PublicIpAddress" in instance]
    ssh = result["resources"]["security_group"]["ssh"]
    assert all(ssh in {group["GroupId"] for group in instance["SecurityGroups"]} for instance in found), "there is no jump host"
    policy = cloud.client("iam").get_role_policy(RoleName=result["resources"]["role"]["nodes"], PolicyName="nodes")["PolicyDocument"]
    assert "ssmmessages:OpenDataChannel" in str(policy)

    listed, _errors = inventory(cloud, tmp_path, name)
    hosts = listed["_meta"]["hostvars"]
    assert {host["ansible_host"] for host in hosts.values()} == {host["deeplearning_private_ip"] for host in hosts.values()}
    assert "ProxyCommand" not in str(listed)
    listed, _errors = inventory(cloud, tmp_path, name, connection_path="session_manager")
    for host in listed["_meta"]["hostvars"].values():
        assert f"ssm start-session --target {host['deeplearning_instance_id']} " in host["deeplearning_proxy_command"]
        assert "--parameters portNumber=%p --region us-east-1" in host["deeplearning_proxy_command"]
        assert host["deeplearning_proxy_command"] in host["ansible_ssh_args"]
        assert "StrictHostKeyChecking=yes" in host["ansible_ssh_args"]

    hosts = listed["_meta"]["hostvars"]
    keys = ("instance_id", "address", "user", "proxy_command")
    variables = [f"deeplearning_{key}" for key in keys]
    variables[1:3] = "ansible_host", "ansible_user"
    nodes = [SshNode(host, **{key: hosts[host][name] for key, name in zip(keys, variables, strict=True)}) for host in sorted(hosts)]
    config = config_file(nodes, f"{name}-master", "/known_hosts", "/revoked_keys")
    assert [line.strip() for line in config.splitlines() if "Proxy" in line] == [
        f"ProxyCommand {hosts[host]['deeplearning_proxy_command']}" for host in sorted(hosts)
    ]


def test_the_public_side_stays_while_the_master_is_there(cloud, run, definition):
    run("cluster", **definition)
    cloud.control.forget_calls()
    with pytest.raises(
        ModuleFailed, match=r"master_public_address: nodes are running in public-us-east-1a. Keep this option set to true, or keep a NAT"
    ):
        run("cluster", **definition, master_public_address=False, nat="none")
    assert not writes(cloud)


def test_a_cluster_stays_in_its_vpc(cloud, run, definition, landlord, name):
    owner, other = landlord(), landlord()
    own = run("cluster", **definition)["resources"]["vpc"]["main"]
    with pytest.raises(ModuleFailed, match=rf"vpc_id: the cluster has its own VPC {own} and cannot move to {owner.vpc}"):
        run("cluster", **definition, **owner.options())
    second = {**definition, "cluster": f"{name}-b"}
    run("cluster", components=["network"], cluster=second["cluster"], ssh_cidrs=["203.0.113.0/24"], **owner.options())
    for options, wish in ((other.options(), f"cannot move to {other.vpc}"), ({}, "cannot get a VPC of its own")):
        cloud.control.forget_calls()
        with pytest.raises(ModuleFailed, match=rf"vpc_id: the cluster is in {owner.vpc} and {wish}"):
            run("cluster", **second, **options)
        assert not writes(cloud)


BAD = {
    "no such vpc": (lambda owner: {"vpc_id": "vpc-0123456789abcdef0"}, "vpc_id: there is no VPC 'vpc-0123456789abcdef0'"),
    "no such subnets": (
        lambda owner: {"private_subnet_ids": ["subnet-0123456789abcdef0"], "public_subnet_ids": ["nonsense"]},
        "public_subnet_ids: there is no subnet 'nonsense'.*private_subnet_ids: there is no subnet 'subnet-0123456789abcdef0'",
    ),
    "no such group": (lambda owner: {"security_group_ids": {"ssh": "sg-0123456789abcdef0"}}, "there is no security group 'sg-0123456789"),
    "no vpc": (lambda owner: {"vpc_id": None}, r"public_subnet_ids: adopted subnets.* require an adopted VPC. Set vpc_id"),
    "no private subnets": (lambda owner: {"private_subnet_ids": []}, "private_subnet_ids: missing"),
    "no public subnets": (lambda owner: {"public_subnet_ids": []}, "public_subnet_ids: missing.*set master_public_address: false"),
    "two in a zone": (
        lambda owner: {"private_subnet_ids": [*owner.private, create_subnet(owner.ec2, owner.vpc, "10.20.50.0/24", "us-east-1a")]},
        r"private_subnet_ids: subnet-\w+ and subnet-\w+ are both in us-east-1a",
    ),
    "ipv6 alone": (
        lambda owner: {"private_subnet_ids": [_ipv6_subnet(owner.ec2, owner.vpc, "us-east-1a")]},
        r"private_subnet_ids: subnet-\w+ has only IPv6 addresses",
    ),
    "other zones": (lambda owner: {"zones": ["us-east-1b"]}, "us-east-1b has no subnet.*is in us-east-1a, which is missing from zones"),
    "sides apart": (
        lambda owner: {"public_subnet_ids": [create_subnet(owner.ec2, owner.vpc, "10.20.51.0/24", "us-east-1b")]},
        "public_subnet_ids: us-east-1a has a private subnet, but no public subnet",
    ),
    "sides exchanged": (
        lambda owner: {"public_subnet_ids": owner.private, "private_subnet_ids": owner.public},
        r"public_subnet_ids: subnet-\w+ has no route to an internet gateway",
    ),
    "nodes apart": (
        lambda owner: {"security_group_ids": {"nodes": owner.group("n", ("tcp", 22, 22, ""))}},
        r"sg-\w+ \(nodes\) does not allow all TCP traffic from itself",
    ),
    "no nfs": (
        lambda owner: {"security_group_ids": {"storage": owner.group("s", ("tcp", 22, 22, ""))}},
        "does not allow inbound traffic from the nodes on TCP port 2049",
    ),
    "no lustre": (
        lambda owner: {"lustre": True, "security_group_ids": {"storage": owner.group("s", ("tcp", 2049, 2049, ""))}},
        r"sg-\w+ \(storage\) does not allow inbound traffic from itself on TCP ports 988 and 1018-1023",
    ),
    "no such additional group": (
        lambda owner: {"additional_security_group_ids": ["sg-0123456789abcdef0"]},
        r"additional_security_group_ids: there is no security group 'sg-0123456789abcdef0' in us-east-1",
    ),
    "additional group of another VPC": (
        lambda owner: {"additional_security_group_ids": [_default_group(owner.ec2)]},
        r"additional_security_group_ids: sg-\w+ is in vpc-\w+, not in vpc-\w+",
    ),
    "additional group without a VPC": (
        lambda owner: {
            "vpc_id": None,
            "private_subnet_ids": [],
            "public_subnet_ids": [],
            "additional_security_group_ids": [owner.group("x")],
        },
        "additional_security_group_ids: this option requires vpc_id",
    ),
    "too many additional groups": (
        lambda owner: {"additional_security_group_ids": [f"sg-{number:017}" for number in range(4)]},
        "additional_security_group_ids: 4 groups exceed the limit.*Specify at most 3",
    ),
    "no ssh": (lambda owner: {"security_group_ids": {"ssh": owner.group("x")}}, r"\(ssh\) does not allow inbound traffic on TCP port 22"),
    "session manager out of reach": (
        lambda owner: {"vpc_id": None, "private_subnet_ids": [], "public_subnet_ids": [], "nat": "none", "session_manager": True},
        r"session_manager: nodes in private subnets cannot reach ssm, ssmmessages",
    ),
    "no such endpoint": (
        lambda owner: {"interface_endpoints": ["nonsense", "s3"]},
        "no interface endpoint for 'nonsense'.*s3 is not supported",
    ),
    "too many nodes": (lambda owner: {"worker_count": 300}, r"\d+ addresses are free in subnet-\w+, but 301 are needed"),
    "no such profile": (lambda owner: {"instance_profile": "nobody"}, "instance_profile: there is no instance profile 'nobody'"),
}


def _default_group(ec2):
    """Return a security group of the account's default VPC."""
    vpc = ec2.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"][0]["VpcId"]
    groups = ec2.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc]}])["SecurityGroups"]
    return groups[0]["GroupId"]


def test_all_nodes_are_in_additional_groups_too(cloud, run, definition, landlord):
    owner = landlord()
    extra = owner.group("database-clients")
    options = {**definition, **owner.options(), "additional_security_group_ids": [extra]}
    run("cluster", **options)
    assert not run("cluster", **options)["changed"]
    described = cloud.client("ec2").describe_instances(Filters=[{"Name": "instance.group-id", "Values": [extra]}])["Reservations"]
    instances = [instance for reservation in described for instance in reservation["Instances"]]
    assert len(instances) == 1 + options["worker_count"]
    assert all(len(instance["SecurityGroups"]) > 1 for instance in instances)
    run("cluster", cluster=options["cluster"], state="absent")
    assert cloud.client("ec2").describe_security_groups(GroupIds=[extra])["SecurityGroups"]


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_be_adopted_is_told(cloud, run, definition, landlord, case):
    owner = landlord()
    change, message = BAD[case]
    options = {**definition, **owner.options(), **change(owner)}
    cloud.control.forget_calls()
    with pytest.raises(ModuleFailed, match=f"(?s){message}"):
        run("cluster", **options, check=True)
    assert not writes(cloud)


def test_all_that_is_wrong_with_another_network_is_told_at_once(run, definition, landlord):
    owner, other = landlord(nat=False, dns=False), landlord()
    groups = {"nodes": other.group("elsewhere", ("-1", -1, -1, ""))}
    options = owner.options(private_subnet_ids=other.private, security_group_ids=groups, instance_profile="nobody")
    with pytest.raises(ModuleFailed) as failed:
        run("cluster", **{**definition, **options}, check=True)
    found = {finding["validator"] for finding in failed.value.result["findings"]}
    assert {"adopted_subnets", "adopted_dns", "adopted_groups", "instance_profile"} <= found


def test_a_private_subnet_without_a_way_out_is_warned_of(run, definition, landlord):
    bare, furnished = landlord(internet=False), landlord(internet=False)
    warnings = str(run("cluster", **definition, **bare.options(), check=True)["warnings"])
    assert f"{bare.private[0]} has no default route" in warnings
    assert "no endpoint for s3, ec2, autoscaling. Nodes in this subnet cannot reach these services." in warnings
    assert "Add a route or the endpoints." in warnings
    with pytest.raises(ModuleFailed, match=r"session_manager: .* cannot reach ssm, ssmmessages"):
        run("cluster", **definition, **bare.options(session_manager=True), check=True)
    furnished.s3_endpoint()
    endpoints = ["ssm", "ssmmessages", "ec2", "autoscaling"]
    fine = run("cluster", **definition, **furnished.options(session_manager=True, interface_endpoints=endpoints), check=True)
    assert furnished.private[0] not in str(fine.get("warnings"))


def test_an_endpoint_that_is_there_is_not_made_again(run, definition, landlord):
    owner = landlord()
    owner.ec2.create_vpc_endpoint(
        VpcEndpointType="Interface",
        VpcId=owner.vpc,
        ServiceName="com.amazonaws.us-east-1.ssm",
        SubnetIds=owner.private,
        PrivateDnsEnabled=True,
    )
    with pytest.raises(ModuleFailed, match=r"interface_endpoints: vpc-\w+ already has vpce-\w+ for ssm. Remove this service"):
        run("cluster", **definition, **owner.options(interface_endpoints=["ssm"]), check=True)


def test_the_range_holds_the_nodes(run, definition):
    with pytest.raises(ModuleFailed, match=r"192.168.0.0/26 have room for 11 .* but 41 are needed. Specify a prefix length of /23"):
        run("cluster", **{**definition, "worker_count": 40}, network_cidr="192.168.0.0/26", check=True)
    run("cluster", **{**definition, "worker_count": 40}, network_cidr="192.168.0.0/23", check=True)
    # 11 addresses: 10 workers and a mount target
    run("cluster", **{**definition, "worker_count": 10}, network_cidr="192.168.0.0/26", check=True)
    with pytest.raises(ModuleFailed, match=r"192.168.0.0/26 have room for 11 .* but 12 are needed."):
        run("cluster", **{**definition, "worker_count": 11}, network_cidr="192.168.0.0/26", check=True)


def _cidrs(cloud, result):
    found = cloud.client("ec2").describe_subnets(SubnetIds=list(result["resources"]["subnet"].values()))["Subnets"]
    keys = {subnet_id: key for key, subnet_id in result["resources"]["subnet"].items()}
    return {keys[subnet["SubnetId"]]: subnet["CidrBlock"] for subnet in found}


def test_subnets_have_the_ranges_of_the_definition(cloud, run, name):
    options = {"cluster": name, "ssh_cidrs": ["203.0.113.0/24"], "network_cidr": "192.168.0.0/24"}
    chosen = {"private_subnet_cidrs": {ZONES[0]: "192.168.0.128/25"}, "public_subnet_cidrs": {ZONES[0]: "192.168.0.0/28"}}
    predicted = run("cluster", components=["network"], **options, **chosen, zones=ZONES[:1], check=True)
    result = run("cluster", components=["network"], **options, **chosen, zones=ZONES[:1])
    assert steps(predicted) == steps(result)
    first = {"private-us-east-1a": "192.168.0.128/25", "public-us-east-1a": "192.168.0.0/28"}
    assert _cidrs(cloud, result) == first
    assert not run("cluster", components=["network"], **options, **chosen, zones=ZONES[:1])["changed"]

    chosen["public_subnet_cidrs"][ZONES[1]] = "192.168.0.96/27"
    grown = _cidrs(cloud, run("cluster", components=["network"], **options, **chosen, zones=ZONES[:2]))
    assert grown == {**first, "private-us-east-1b": "192.168.0.32/27", "public-us-east-1b": "192.168.0.96/27"}
    same = run("cluster", components=["network"], **options, zones=ZONES[:2])
    assert _cidrs(cloud, same) == grown, "without the options, subnets stay as they are"
    chosen["private_subnet_cidrs"][ZONES[0]] = "192.168.0.192/26"
    with pytest.raises(ModuleFailed, match=r"cidr is '192.168.0.128/25' and cannot be changed to '192.168.0.192/26'"):
        run("cluster", components=["network"], **options, **chosen, zones=ZONES[:2])


def test_all_that_is_wrong_with_the_ranges_of_subnets_is_told_at_once(run, definition):
    ranges = {ZONES[0]: "192.168.0.0/25", ZONES[1]: "10.1.0.0/24", ZONES[2]: "ten"}
    with pytest.raises(ModuleFailed) as failure:
        run(
            "cluster",
            **{**definition, "zones": ZONES[:1], "network_cidr": "192.168.0.0/24"},
            private_subnet_cidrs=ranges,
            public_subnet_cidrs={ZONES[0]: "192.168.0.64/26"},
            check=True,
        )
    for message in (
        "private_subnet_cidrs: us-east-1b is not a zone of the cluster (us-east-1a). Add it to zones, or remove its range.",
        "private_subnet_cidrs: 10.1.0.0/24 is not part of 192.168.0.0/24, the range in network_cidr.",
        "private_subnet_cidrs: 'ten' is not an IPv4 address range",
        "private_subnet_cidrs: 192.168.0.0/25 of subnet private-us-east-1a overlaps 192.168.0.64/26 of subnet public-us-east-1a.",
    ):
        assert message in str(failure.value)


def test_the_ranges_of_subnets_hold_the_nodes(run, definition):
    small = {"network_cidr": "192.168.0.0/24", "private_subnet_cidrs": {ZONES[0]: "192.168.0.0/28"}}
    message = r"private_subnet_cidrs: 192.168.0.0/28 have room for 11 addresses, but 41 are needed. Specify larger ranges"
    with pytest.raises(ModuleFailed, match=message):
        run("cluster", **{**definition, "worker_count": 40, "zones": ZONES[:1]}, **small, check=True)
    small["private_subnet_cidrs"] = {ZONES[0]: "192.168.0.0/26"}
    run("cluster", **{**definition, "worker_count": 40, "zones": ZONES[:1]}, **small, check=True)


def test_efa_needs_a_group_for_all_protocols(run, definition, landlord):
    owner = landlord()
    options = owner.options(security_group_ids={"nodes": owner.group("tcp-only", ("tcp", 0, 65535, ""))})
    definition |= {"instance_type": "c5n.18xlarge", "efa": True}
    with pytest.raises(ModuleFailed, match=r"\(nodes\) does not allow all traffic to and from itself, which EFA requires"):
        run("cluster", **definition, **options, check=True)


def test_an_instance_profile_of_somebody_else_is_used_and_left_alone(cloud, run, definition, name):
    iam = cloud.client("iam")
    profile = f"{name}-theirs"
    iam.create_instance_profile(InstanceProfileName=profile)
    with pytest.raises(ModuleFailed, match=rf"instance_profile: {profile} contains no role"):
        run("cluster", **definition, instance_profile=profile)
    iam.create_role(RoleName=profile, AssumeRolePolicyDocument=json.dumps(trust_policy("us-east-1")))
    iam.add_role_to_instance_profile(InstanceProfileName=profile, RoleName=profile)
    options = {**definition, "instance_profile": profile, "read_buckets": ["data"]}
    applied = run("cluster", **options)
    assert not [item for _action, item in steps(applied) if item.startswith(("role", "instance_profile"))]
    assert "these options have no effect: read_buckets" in str(applied["warnings"])
    assert not run("cluster", **options)["changed"]
    described = cloud.client("ec2").describe_instances(InstanceIds=list(instances(cloud, name)))["Reservations"]
    assert {each["IamInstanceProfile"]["Arn"].split("/")[-1] for item in described for each in item["Instances"]} == {profile}
    run("cluster", cluster=name, state="absent")
    assert iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]


def _example(repository, file, **replaced):
    """Return the options of the module from an example definition, with IDs from this account."""
    variables = yaml.safe_load((repository / "examples" / "definitions" / file).read_text())
    assert all(name.startswith("deeplearning_") for name in variables)
    named = {name.removeprefix("deeplearning_"): value for name, value in variables.items()}
    named["file_system_id"] = named.pop("file_system", None)
    assert replaced.keys() <= named.keys(), "the file must contain the options that the test replaces"
    return {**named, "key_name": KEY_NAME, "wait_timeout": 30, **replaced}


def test_example_of_one_zone(cloud, run, repository, name):
    options = _example(repository, "single_zone.yml")
    run("cluster", cluster=name, **options)
    assert not run("cluster", cluster=name, **options)["changed"]
    assert len(instances(cloud, name)) == options["worker_count"] + 1
    run("cluster", cluster=name, state="absent", delete_data=True)


def test_example_of_a_private_cluster_in_an_existing_network(cloud, run, repository, landlord, name):
    owner = landlord(internet=False)
    owner.s3_endpoint()
    shared = cloud.client("efs").create_file_system(CreationToken=name)["FileSystemId"]
    options = _example(
        repository, "private_existing_network.yml", vpc_id=owner.vpc, private_subnet_ids=owner.private, file_system_id=shared
    )
    before = owner.state()
    applied = run("cluster", cluster=name, **options)
    assert applied["resources"]["file_system"]["main"] == shared
    assert not run("cluster", cluster=name, **options)["changed"]
    assert len(instances(cloud, name)) == options["worker_count"] + 1
    run("cluster", cluster=name, **options, state="absent", delete_data=True)
    assert owner.state() == before
    assert cloud.client("efs").describe_file_systems(FileSystemId=shared)["FileSystems"]


def test_example_of_three_zones(cloud, run, repository, name):
    options = _example(repository, "three_zones.yml")
    applied = run("cluster", cluster=name, **options)
    assert _exits(cloud, applied) == {zone: zone for zone in ZONES}
    assert not run("cluster", cluster=name, **options)["changed"]
    run("cluster", cluster=name, state="absent", delete_data=True)


def test_a_zone_without_nat_gateways_is_named(cloud, run, definition):
    cloud.control.set_faults([{"service": "ec2", "action": "CreateNatGateway", "code": "NotAvailableInZone", "status": 400}])
    with pytest.raises(ModuleFailed, match=r"NAT gateways are not available in us-east-1b, the zone of subnet-\w+\. Choose other zones"):
        run("cluster", **definition, zones=["us-east-1b"])


@pytest.mark.parametrize(
    ("mode", "exclusion", "told"),
    [
        ("off", None, []),
        ("block-ingress", None, ["master_public_address"]),
        ("block-bidirectional", None, ["nat", "master_public_address"]),
        ("block-bidirectional", "allow-egress", ["master_public_address"]),
        ("block-bidirectional", "allow-bidirectional", []),
    ],
)
def test_vpc_block_public_access_is_told_before_nodes_run(cloud, run, definition, mode, exclusion, told):
    ec2 = cloud.client("ec2")
    vpc = run("cluster", components=["network"], **definition)["resources"]["vpc"]["main"]
    if exclusion:
        ec2.create_vpc_block_public_access_exclusion(VpcId=vpc, InternetGatewayExclusionMode=exclusion)
    ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode=mode)
    try:
        findings = run("cluster_validation", **definition)["findings"]
        messages = [each["message"] for each in findings if each["validator"] == "block_public_access"]
        assert [message.partition(":")[0] for message in messages] == told
        assert all("Create an exclusion for the VPC" in message for message in messages)
        assert all(f"({mode})" in message and vpc in message for message in messages)
        private = run("cluster_validation", **definition, nat="none", master_public_address=False)["findings"]
        assert "block_public_access" not in {each["validator"] for each in private}
    finally:
        ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode="off")


@pytest.mark.parametrize("code", ["UnauthorizedOperation", "InvalidAction", "UnsupportedOperation"])
@pytest.mark.parametrize("what", ["Options", "Exclusions"])
def test_vpc_block_public_access_that_cannot_be_read_is_not_checked(cloud, run, definition, code, what):
    ec2 = cloud.client("ec2")
    ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode="block-bidirectional")
    cloud.control.set_faults([{"action": f"DescribeVpcBlockPublicAccess{what}", "code": code, "status": 400}])
    try:
        findings = run("cluster_validation", **definition)["findings"]
        (told,) = [each for each in findings if each["validator"] == "block_public_access"]
        assert (told["level"], f"in us-east-1 is not checked ({code})" in told["message"]) == ("warning", True)
    finally:
        ec2.modify_vpc_block_public_access_options(InternetGatewayBlockMode="off")
