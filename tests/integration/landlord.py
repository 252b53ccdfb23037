"""The owner of a VPC in which tests create clusters."""

from __future__ import annotations

import json
from dataclasses import dataclass, field


@dataclass
class Landlord:
    """A VPC that belongs to another owner, with its subnets. `state` shows whether anything in the VPC has changed."""

    ec2: object
    vpc: str
    private: list[str] = field(default_factory=list)
    public: list[str] = field(default_factory=list)

    def options(self, **more):
        adopted = {"vpc_id": self.vpc, "private_subnet_ids": self.private, "public_subnet_ids": self.public}
        return {**adopted, "master_public_address": bool(self.public), **more}

    def group(self, name, *rules):
        group = self.ec2.create_security_group(GroupName=name, Description=name, VpcId=self.vpc)["GroupId"]
        for protocol, first, last, source in rules:
            who = {"UserIdGroupPairs": [{"GroupId": source or group}]} if "." not in source else {"IpRanges": [{"CidrIp": source}]}
            permission = {"IpProtocol": protocol, "FromPort": first, "ToPort": last, **who}
            self.ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=[permission])
        return group

    def s3_endpoint(self):
        self.ec2.create_vpc_endpoint(
            VpcId=self.vpc, ServiceName="com.amazonaws.us-east-1.s3", RouteTableIds=[main_table(self.ec2, self.vpc)]
        )

    def state(self, *groups):
        """Return AWS's descriptions of the owner's resources and of the given security groups, for comparison."""
        here = [{"Name": "vpc-id", "Values": [self.vpc]}]
        subnets = self.ec2.describe_subnets(SubnetIds=[*self.private, *self.public])["Subnets"]
        described = [
            self.ec2.describe_vpcs(VpcIds=[self.vpc])["Vpcs"],
            [{key: value for key, value in item.items() if key != "AvailableIpAddressCount"} for item in subnets],
            self.ec2.describe_route_tables(Filters=here)["RouteTables"],
            self.ec2.describe_security_groups(GroupIds=list(groups))["SecurityGroups"] if groups else [],
            self.ec2.describe_nat_gateways(Filters=here)["NatGateways"],
        ]
        return json.dumps(described, default=str)


def make_landlord(ec2, zones=("us-east-1a",), *, internet=True, nat=True, dns=True, mask=24):
    """Create a VPC with a private and a public subnet in each zone. Private subnets use the VPC's main route table."""
    vpc = ec2.create_vpc(CidrBlock="10.20.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": dns})
    owner = Landlord(ec2, vpc)
    for number, zone in enumerate(zones):
        owner.private.append(create_subnet(ec2, vpc, f"10.20.{number}.0/{mask}", zone))
        if internet:
            owner.public.append(create_subnet(ec2, vpc, f"10.20.{100 + number}.0/24", zone))
    if internet:
        gateway = ec2.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        ec2.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
        table = ec2.create_route_table(VpcId=vpc)["RouteTable"]["RouteTableId"]
        ec2.create_route(RouteTableId=table, DestinationCidrBlock="0.0.0.0/0", GatewayId=gateway)
        for subnet in owner.public:
            ec2.associate_route_table(RouteTableId=table, SubnetId=subnet)
    if nat and internet:
        address = ec2.allocate_address(Domain="vpc")["AllocationId"]
        nat_gateway = ec2.create_nat_gateway(SubnetId=owner.public[0], AllocationId=address)["NatGateway"]["NatGatewayId"]
        ec2.get_waiter("nat_gateway_available").wait(NatGatewayIds=[nat_gateway], WaiterConfig={"Delay": 0.2})
        ec2.create_route(RouteTableId=main_table(ec2, vpc), DestinationCidrBlock="0.0.0.0/0", NatGatewayId=nat_gateway)
    return owner


def create_subnet(ec2, vpc, cidr, zone):
    return ec2.create_subnet(VpcId=vpc, CidrBlock=cidr, AvailabilityZone=zone)["Subnet"]["SubnetId"]


def main_table(ec2, vpc):
    filters = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    return ec2.describe_route_tables(Filters=filters)["RouteTables"][0]["RouteTableId"]
