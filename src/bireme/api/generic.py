"""GenericJob: any set of parallel replicas."""

from typing import Annotated, ClassVar, Literal

from bireme.api.job import (
    BATCH_GROUP_VERSION,
    MAX_REPLICA_TYPES,
    MAX_REPLICAS,
    RUN_MODE,
    SCHEDULER,
    STATUS,
    TEMPLATE,
    JobStatus,
    PodTemplate,
    RunMode,
    SchedulePolicy,
)
from bireme.api.meta import ListMeta, ObjectMeta
from bireme.api.model import Model, Rule, field, immutable

RestartPolicyType = Literal["Never", "OnFailure", "Always"]
CleanUpPolicy = Literal["None", "Unfinished", "All"]
FinishRule = dict[str, tuple[int, ...]]
"""Replica indices by type: `{master: [0], worker: [0, 1]}`."""

FINISH_RULE = {
    "maxItems": 64,
    "items": {
        "type": "object",
        "description": "Replica indices by type.",
        "minProperties": 1,
        "maxProperties": MAX_REPLICA_TYPES,
        "additionalProperties": {
            "type": "array",
            "minItems": 1,
            "maxItems": MAX_REPLICAS,
            "items": {"type": "integer", "minimum": 0, "maximum": MAX_REPLICAS - 1, "format": "int32"},
        },
    },
}


class RestartPolicy(Model, frozen=True):
    """When a finished replica is started again, and how often."""

    policy: Annotated[
        RestartPolicyType, field("Never, OnFailure (a failed replica) or Always (any finished one).")
    ] = "OnFailure"
    limit: Annotated[
        int, field("The most restarts of each replica.", minimum=0, maximum=2**31 - 1, format="int32")
    ] = 0


class ReplicaSpec(Model, frozen=True):
    """A set of replicas that run the same pod template."""

    type: Annotated[
        str,
        field(
            "Name of this set, such as `worker`; part of every pod's name.",
            required=True,
            minLength=1,
            maxLength=63,
            pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        ),
    ] = ""
    replicas: Annotated[int, field("How many of them.", minimum=0, maximum=MAX_REPLICAS, format="int32")] = 1
    restart_policy: Annotated[
        RestartPolicy,
        field("When a finished replica is started again; on failure, never more than `limit` times."),
    ] = RestartPolicy()
    template: Annotated[PodTemplate, TEMPLATE] = {}


class ServicePort(Model, frozen=True):
    """A port that every replica serves under its own host name."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.targetPort) || self.targetPort == self.port",
            "targetPort must equal port: replicas are reached directly",
            ".targetPort",
        ),
        Rule("!has(self.nodePort)", "these services have no node port", ".nodePort"),
    )

    name: Annotated[str, field("Name of the port, for `$(service.port[NAME])`.", maxLength=63)] = ""
    port: Annotated[
        int, field("The port number.", required=True, minimum=1, maximum=65535, format="int32")
    ] = 0
    protocol: Annotated[Literal["TCP", "UDP", "SCTP"], field("TCP, UDP or SCTP.")] = "TCP"
    app_protocol: Annotated[
        str, field("The protocol spoken over it, for what reads that.", maxLength=253)
    ] = ""
    target_port: Annotated[
        int | str | None,
        field(
            "Must equal `port` or be left out: replicas are reached directly, so there is nothing that maps.",
            **{"x-kubernetes-int-or-string": True, "x-bireme-untyped": True, "maxLength": 63},
        ),
    ] = None
    node_port: Annotated[
        int | None, field("Must be left out: the services have no address of their own.", format="int32")
    ] = None


class ServiceOption(Model, frozen=True):
    """One headless Service per replica, so that replicas find each other by name."""

    ports: Annotated[tuple[ServicePort, ...], field("The ports that replicas serve.", maxItems=100)] = ()


class GenericJobSpec(Model, frozen=True):
    """What a GenericJob runs and when it counts as done."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.replicaSpecs.map(r, r.replicas).sum() >= 1",
            "a job needs at least one replica",
            ".replicaSpecs",
        ),
        Rule(
            f"self.replicaSpecs.map(r, r.replicas).sum() <= {MAX_REPLICAS}",
            f"a job has at most {MAX_REPLICAS} replicas in all",
            ".replicaSpecs",
        ),
        Rule(
            "!has(self.successRules) || self.successRules.all(rule, "
            "rule.all(type, self.replicaSpecs.exists(replica, replica.type == type)))",
            "a rule names a replica type that does not exist",
            ".successRules",
        ),
        Rule(
            "!has(self.failureRules) || self.failureRules.all(rule, "
            "rule.all(type, self.replicaSpecs.exists(replica, replica.type == type)))",
            "a rule names a replica type that does not exist",
            ".failureRules",
        ),
        immutable("scheduler"),
        immutable("service"),
    )

    replica_specs: Annotated[
        tuple[ReplicaSpec, ...],
        field(
            "The sets of replicas; at least one replica in all.",
            required=True,
            minItems=1,
            maxItems=MAX_REPLICA_TYPES,
            **{"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
        ),
    ] = ()
    success_rules: Annotated[
        tuple[FinishRule, ...],
        field(
            "The job succeeded once all replicas of any one rule succeeded. Without rules: once all did.",
            **FINISH_RULE,
        ),
    ] = ()
    failure_rules: Annotated[
        tuple[FinishRule, ...],
        field(
            "The job failed once all replicas of any one rule failed with no restart left. "
            "Without rules: once any replica did. If rules of both kinds hold, the one whose last replica "
            "finished first decides, by the whole seconds that kubelets report; on a tie the job failed. "
            "A success that is seen before a failure of the same second stands.",
            **FINISH_RULE,
        ),
    ] = ()
    service: Annotated[ServiceOption | None, field("A headless Service per replica; none when left out.")] = (
        None
    )
    run_mode: Annotated[RunMode | None, RUN_MODE] = None
    clean_up_policy: Annotated[
        CleanUpPolicy | None,
        field(
            "Which pods are deleted when the job ends: None (the default) keeps all, Unfinished deletes "
            "those that have not ended, All deletes every one."
        ),
    ] = None
    scheduler: Annotated[SchedulePolicy | None, SCHEDULER] = None


class GenericJob(Model, frozen=True):
    """Any set of parallel replicas, with rules for when the whole succeeded or failed."""

    api_version: str = BATCH_GROUP_VERSION
    kind: str = "GenericJob"
    metadata: ObjectMeta = ObjectMeta()
    spec: Annotated[GenericJobSpec, field("What to run.", required=True)] = GenericJobSpec()
    status: Annotated[JobStatus | None, STATUS] = None


class GenericJobList(Model, frozen=True):
    api_version: str = BATCH_GROUP_VERSION
    kind: str = "GenericJobList"
    metadata: ListMeta = ListMeta()
    items: tuple[GenericJob, ...] = ()
