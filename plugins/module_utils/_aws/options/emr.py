# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)

"""Options of EMR clusters, which the module `emr_cluster` provisions."""

from __future__ import annotations

from ..option import IN_PLACE, NOT_STORED, REPLACES_EMR_CLUSTER, Option, Suboption, Update, UpdatePolicy, in_place
from ..tags import EMR_COMPONENT


def _option(name: str, spec: dict[str, object], update: Update, *description: str, suboptions: tuple[Suboption, ...] = ()) -> Option:
    return Option(name, spec, (EMR_COMPONENT,), update, description, suboptions)


OPTIONS = (
    _option(
        "emr_release_label",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "EMR release of the cluster, such as V(emr-7.9.0). Required with O(state=present).",
    ),
    _option(
        "emr_image_id",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "ID of a custom image for all nodes. Requires release 5.7.0 or later.",
        "The image must be based on Amazon Linux 2023 for release 7.0.0 or later, on Amazon Linux 2 for release 5.30.0 or later, and on"
        " Amazon Linux 1 for earlier releases. The image must have one EBS volume of at most 100 GiB.",
        "By default, EMR uses the image of the release.",
    ),
    _option(
        "emr_instance_type",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "Instance type of the master and, by default, of all other nodes. Required with O(state=present).",
        "The release must support this type. To list the types, run C(aws emr list-supported-instance-types --release-label emr-7.9.0).",
    ),
    _option(
        "emr_core_instance_type",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "Instance type of the core nodes, if it differs from O(emr_instance_type).",
    ),
    _option(
        "emr_core_count",
        {"type": "int"},
        in_place("but a change from or to 0 requires O(emr_replace)"),
        "Number of core nodes, which store the data in HDFS. Required with O(state=present). With V(0), the master is the only node.",
        "If you decrease the number, EMR terminates the nodes with the highest numbers. EMR waits up to an hour for the containers on"
        " these nodes to finish. EMR also keeps at least as many core nodes as HDFS has copies of each block: by default 1 if the cluster"
        " started with up to 3 core nodes, 2 with 4 to 9, and 3 with 10 or more.",
    ),
    _option(
        "emr_task_instance_type",
        {"type": "str"},
        Update(UpdatePolicy.REPLACES_EMR_CLUSTER, advice="The first task nodes can be added in place"),
        "Instance type of the task nodes, if it differs from O(emr_instance_type).",
    ),
    _option(
        "emr_task_count",
        {"type": "int", "default": 0},
        IN_PLACE,
        "Number of task nodes, which store no data. If you decrease the number, EMR terminates the nodes with the highest"
        " numbers, and waits up to an hour for the containers on these nodes to finish.",
        "At most one task group of the cluster may have nodes.",
    ),
    _option(
        "emr_service_role",
        {"type": "str", "default": "EMR_DefaultRole"},
        REPLACES_EMR_CLUSTER,
        "Name or ARN of the IAM role that EMR assumes. A run never changes or deletes the role.",
        "If the role has the AWS managed policy C(AmazonEMRServicePolicy_v2), the cluster (O(tags)), the subnet and the security groups"
        " that you specify need the tag C(for-use-with-amazon-emr-managed-policies) with the value V(true). If EMR creates the security"
        " groups, the VPC also needs this tag.",
    ),
    _option(
        "emr_instance_profile",
        {"type": "str", "default": "EMR_EC2_DefaultRole"},
        REPLACES_EMR_CLUSTER,
        "Name or ARN of the instance profile for the nodes. A run never changes or deletes the profile or its role.",
    ),
    _option(
        "emr_create_default_roles",
        {"type": "bool", "default": False},
        NOT_STORED,
        "Whether a run creates C(EMR_DefaultRole) and C(EMR_EC2_DefaultRole) if the cluster uses these roles and the account does not have"
        " them. The new roles have the AWS managed policies that C(aws emr create-default-roles) attaches. All EMR clusters of the account"
        " share the roles, so a run never deletes them.",
        "AWS has deprecated these managed policies. If IAM no longer allows them to be attached, create your own roles.",
        "New roles can take a minute to become visible to EMR. If EMR terminates the new cluster for this reason, run the playbook again.",
    ),
    _option(
        "emr_key_name",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "Name of the EC2 key pair for SSH logins as the user C(hadoop).",
    ),
    _option(
        "emr_subnet_id",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "ID of the subnet for all nodes. Nodes in a public subnet have public addresses. DNS resolution and DNS hostnames must be enabled"
        " in the VPC.",
        "By default, EMR chooses a subnet of the default VPC.",
    ),
    _option(
        "emr_security_group_ids",
        {"type": "dict", "default": {}},
        REPLACES_EMR_CLUSTER,
        "IDs of the security groups that EMR manages for the cluster. EMR adds its rules to the security groups of the nodes, but not to"
        " the security group for service access.",
        "In a public subnet, the EMR block public access configuration does not permit security groups that allow traffic from all"
        " addresses, except on the ports that the account permits.",
        "By default, EMR creates the security groups. All clusters in a VPC share these groups, and EMR keeps them when a cluster"
        " terminates.",
        suboptions=(
            Suboption("master", {"type": "str"}, "Security group of the master. Requires O(emr_security_group_ids.workers)."),
            Suboption("workers", {"type": "str"}, "Security group of the core and task nodes. Requires O(emr_security_group_ids.master)."),
            Suboption(
                "service",
                {"type": "str"},
                "Security group for service access, through which EMR reaches nodes in a private subnet. Required for a private subnet if"
                " the other two security groups are set. For release 5.30.0 or later, this group needs an inbound rule for TCP port 9443"
                " from the security group of the master.",
            ),
        ),
    ),
    _option(
        "emr_additional_security_group_ids",
        {"type": "dict", "default": {}},
        REPLACES_EMR_CLUSTER,
        "IDs of additional security groups for the nodes, such as a group from which the mount targets of an EFS file system accept"
        " traffic. Each list can contain at most 4 IDs.",
        suboptions=(
            Suboption("master", {"type": "list", "elements": "str", "default": []}, "Additional security groups for the master."),
            Suboption(
                "workers", {"type": "list", "elements": "str", "default": []}, "Additional security groups for the core and task nodes."
            ),
        ),
    ),
    _option(
        "emr_bootstrap_actions",
        {"type": "list", "elements": "dict", "default": []},
        REPLACES_EMR_CLUSTER,
        "Scripts that each node runs, in this order, before EMR installs the applications. If a script fails, EMR terminates the cluster.",
        suboptions=(
            Suboption("name", {"type": "str", "default": "Bootstrap action"}, "Name of the bootstrap action."),
            Suboption("path", {"type": "str", "required": True}, "Location of the script, such as C(s3://bucket/script.sh)."),
            Suboption("args", {"type": "list", "elements": "str", "default": []}, "Arguments of the script."),
        ),
    ),
    _option(
        "emr_root_volume_size",
        {"type": "int"},
        REPLACES_EMR_CLUSTER,
        "Size of the nodes' root volumes in GiB, at most 100.",
        "By default, EMR uses the smallest size for the release and the image.",
    ),
    _option(
        "emr_log_uri",
        {"type": "str"},
        REPLACES_EMR_CLUSTER,
        "Location to which EMR copies the logs of nodes, bootstrap actions and steps, such as V(s3://bucket/logs/).",
    ),
    _option(
        "emr_applications",
        {"type": "list", "elements": "str", "default": []},
        REPLACES_EMR_CLUSTER,
        "Names of the applications that EMR installs, such as V(Spark). EMR also installs the applications on which the named applications"
        " depend.",
    ),
    _option(
        "emr_termination_protection",
        {"type": "bool"},
        IN_PLACE,
        "Whether the cluster is protected against termination. To delete or replace a protected cluster, set this option to V(false).",
        "By default, a new cluster is not protected, and an existing cluster keeps its setting.",
    ),
    _option(
        "emr_idle_after",
        {"type": "str"},
        IN_PLACE,
        "When EMR terminates the cluster because nobody uses it: the time for which it must have been idle, from V(1m) to V(7d), such as"
        " V(30m). The data on HDFS is lost. The next run creates a new cluster.",
        "EMR sees YARN applications, steps, notebooks and data in HDFS. After a run of the playbook C(configure), jobs, exports, set-up"
        " steps and what people run on the nodes count, too. The nodes tell EMR about these once a minute, so choose at least V(10m).",
        "Requires release 5.30.0 or a later release, except 6.0.0. By default, EMR never terminates a cluster because it is idle, and a run"
        " removes the auto-termination policy that another tool has attached.",
    ),
    _option(
        "emr_steps",
        {"type": "list", "elements": "dict", "default": []},
        in_place("by adding steps. An added step cannot be changed or removed"),
        "Steps that the cluster runs one after the other. Each step runs once. The name identifies the step, so a new name adds a step.",
        "A run adds steps, but does not wait for them to end.",
        suboptions=(
            Suboption("name", {"type": "str", "required": True}, "Name of the step, which must be unique in the cluster."),
            Suboption("jar", {"type": "str", "default": "command-runner.jar"}, "JAR file of the step."),
            Suboption(
                "args",
                {"type": "list", "elements": "str", "default": []},
                "Arguments of the step. The combined length of O(emr_steps[].jar) and the arguments can be at most 10,240 characters.",
            ),
            Suboption(
                "on_failure",
                {"type": "str", "choices": ["continue", "cancel_and_wait", "terminate_cluster"], "default": "continue"},
                "What EMR does if the step fails.",
            ),
        ),
    ),
    _option(
        "emr_replace",
        {"type": "bool", "default": False},
        NOT_STORED,
        "Whether a run may replace the EMR cluster to apply changes that EMR does not support in place. The run terminates the cluster"
        " and creates a new one, which runs all steps. The data on HDFS is lost.",
    ),
)
