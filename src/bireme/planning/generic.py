"""GenericJob: replicas that stand on their own, restarts by policy, an end by rules."""

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import cache

from bireme.api.generic import GenericJob, ReplicaSpec
from bireme.api.job import FirstFailure, ReplicaStatus
from bireme.api.names import pod_name
from bireme.api.variables import Host, Port, Rank, Replicas, Variable, expand, split_at_rank
from bireme.planning.actions import Action, CreatePod, Manifest
from bireme.planning.cause import first_failure
from bireme.planning.crew import Advance
from bireme.planning.observed import Observed
from bireme.planning.outcome import Outcome
from bireme.planning.pods import PodBuilder, complete_spec, in_debug, main_container_name, map_texts, resumed
from bireme.planning.replicas import Mode, Replica, Step, step
from bireme.planning.rules import Verdict, judge
from bireme.planning.services import build_replica_services
from bireme.planning.timing import earliest


class GenericCrew:
    """The replicas of a GenericJob."""

    def __init__(self, job: GenericJob) -> None:
        self._job = job
        self._specs = {spec.type: spec for spec in job.spec.replica_specs}

    def types(self) -> Sequence[tuple[str, int]]:
        return [(spec.type, spec.replicas) for spec in self._job.spec.replica_specs]

    def main(self, replica_type: str) -> str:
        return main_container_name(self._specs[replica_type].template)

    def children(self, observed: Observed) -> list[Manifest]:  # noqa: ARG002
        return build_replica_services(self._job)

    def advance(self, observed: Observed, replicas: Sequence[Replica], mode: Mode, now: datetime) -> Advance:  # noqa: ARG002
        creators = {type_: self._creator(type_, mode) for type_ in self._specs}
        records: dict[tuple[str, int], ReplicaStatus] = {}
        actions: list[Action] = []
        events: list[str] = []
        wake_at: datetime | None = None
        for replica in replicas:
            taken = self._step(replica, mode, creators[replica.type], now)
            records[replica.type, replica.index] = taken.record
            actions += taken.actions
            wake_at = earliest(wake_at, taken.wake_at)
            if taken.event:
                events.append(f"{replica.name} {taken.event}")
        verdict = None if mode == "debug" else judge(self._job.spec, records)
        return Advance(records, tuple(actions), wake_at, verdict, tuple(events))

    def _step(
        self, replica: Replica, mode: Mode, create: Callable[[Replica], CreatePod], now: datetime
    ) -> Step:
        spec = self._specs[replica.type]
        return step(
            replica,
            now,
            mode=mode,
            create=create,
            restarts=lambda ended, record: _restarts(spec, ended, record),
        )

    def cause(
        self, replicas: Sequence[Replica], verdict: Verdict, now: datetime, *, keep_message: bool
    ) -> FirstFailure | None:
        decisive = [replica for replica in replicas if replica.name in verdict.culprits]
        return first_failure(decisive, now, keep_message=keep_message)

    def _creator(self, replica_type: str, mode: Mode) -> Callable[[Replica], CreatePod]:
        """Makes pods of a type; what does not depend on the rank is made once, and only if it is needed."""

        @cache
        def common() -> tuple[PodBuilder, dict[str, list[str]]]:
            template = self._specs[replica_type].template
            spec = self._in_mode(complete_spec(self._job, template.get("spec") or {}), replica_type, mode)
            spec = map_texts(spec, self._expander(replica_type))
            return PodBuilder(self._job, replica_type, template, mode, spec), _texts_with_rank(spec)

        def create(replica: Replica) -> CreatePod:
            builder, split = common()
            if not split:
                return builder.create(replica.index)
            rank = str(replica.index)

            def change(text: str) -> str:
                return rank.join(split[text]) if text in split else text

            return builder.create(replica.index, lambda spec: map_texts(spec, change))

        return create

    def _in_mode(self, spec: Manifest, replica_type: str, mode: Mode) -> Manifest:
        run_mode = self._job.spec.run_mode
        if mode == "debug" and run_mode is not None and run_mode.debug is not None:
            sets = {debug.type: debug for debug in run_mode.debug.replica_specs}
            chosen = sets.get(replica_type)
            command = chosen.command if chosen is not None else ()
            return in_debug(spec, command, skip_init=chosen is not None and chosen.skip_init_container)
        if mode == "resume" and run_mode is not None and run_mode.pause is not None:
            for resume in run_mode.pause.resume_specs:
                if resume.type == replica_type:
                    main = self.main(replica_type)
                    return resumed(
                        spec, resume.command, resume.args, main, skip_init=resume.skip_init_container
                    )
        return spec

    def _expander(self, replica_type: str) -> Callable[[str], str]:
        """Return the function that replaces the variables in a text, except `$(rank)`."""

        def resolve(variable: Variable) -> str:
            match variable:
                case Rank():
                    return "$(rank)"
                case Replicas(type_):
                    return str(self._specs[type_].replicas)
                case Host(type_, rank):
                    return pod_name(self._job.metadata.name, type_, int(rank))
                case Port(name):
                    service = self._job.spec.service
                    ports = {port.name: port.port for port in service.ports} if service is not None else {}
                    return str(ports[name])
                case _:
                    return replica_type

        return lambda text: expand(text, resolve)


def _texts_with_rank(spec: Manifest) -> dict[str, list[str]]:
    """Return each text with `$(rank)`, cut at that variable: a replica's text is then one join."""
    split: dict[str, list[str]] = {}

    def look(text: str) -> str:
        parts = split_at_rank(text)
        if len(parts) > 1:
            split[text] = parts
        return text

    map_texts(spec, look)
    return split


def _restarts(spec: ReplicaSpec, ended: Outcome, record: ReplicaStatus) -> bool:
    """Whether the policy starts the replica again; Always does so after a success too."""
    policy = spec.restart_policy
    if record.restarts >= policy.limit:
        return False
    return policy.policy == "Always" or (policy.policy == "OnFailure" and ended.end == "failed")
