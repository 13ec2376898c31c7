"""What a write may change of a pod that is there: little of its spec, and not all of its status."""

from collections.abc import Iterable
from typing import Any, Final

from bireme.apiserver.errors import FieldError, forbidden_value, invalid_value
from bireme.apiserver.rules import Object

_CHANGEABLE: Final = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_MOST_SECONDS: Final = 2**31 - 1
_NODE_SELECTOR: Final = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"


def count_problems(new: Object, old: Object) -> list[FieldError]:
    """Containers that came or went; nothing else is worth saying then."""
    for field in ("containers", "initContainers"):
        if len(new.get(field) or ()) != len(old.get(field) or ()):
            return [forbidden_value(f"spec.{field}", "pod updates may not add or remove containers")]
    return []


def update_problems(new: Object, old: Object) -> list[FieldError]:
    """What an update of a spec may not do; containers are as many as before."""
    later = _deadline_problems(new.get("activeDeadlineSeconds"), old.get("activeDeadlineSeconds"))
    if later and new.get("activeDeadlineSeconds") is not None:
        return later
    errors = [*later, *_toleration_problems(new, old), *_gate_problems(new, old)]
    if old.get("schedulingGates"):
        errors += _selector_problems(new, old)
    if _frozen(new, old) != _frozen(old, old):
        errors.append(forbidden_value("spec", _CHANGEABLE))
    return errors


def _gate_problems(new: Object, old: Object) -> list[FieldError]:
    gates = {gate["name"] for gate in old.get("schedulingGates") or ()}
    return [
        forbidden_value(
            f"spec.schedulingGates[{index}].name",
            f"only deletion is allowed, but found new scheduling gate '{gate['name']}'",
        )
        for index, gate in enumerate(new.get("schedulingGates") or ())
        if gate["name"] not in gates
    ]


def _toleration_problems(new: Object, old: Object) -> list[FieldError]:
    kept = [_without_seconds(each) for each in new.get("tolerations") or ()]
    if all(_without_seconds(each) in kept for each in old.get("tolerations") or ()):
        return []
    sentence = "existing toleration can not be modified except its tolerationSeconds"
    return [forbidden_value("spec.tolerations", sentence)]


def _selector_problems(new: Object, old: Object) -> list[FieldError]:
    """A pod that waits at its gates may be led to fewer nodes, not to others."""
    before, after = old.get("nodeSelector") or {}, new.get("nodeSelector") or {}
    if before.items() <= after.items():
        return []
    return [invalid_value("spec.nodeSelector", after, _NODE_SELECTOR)]


def _deadline_problems(new: int | None, old: int | None) -> list[FieldError]:
    field = "spec.activeDeadlineSeconds"
    if new is None:
        sentence = "must not update from a positive integer to nil value"
        return [] if old is None else [invalid_value(field, None, sentence)]
    if not 0 <= new <= _MOST_SECONDS:
        return [invalid_value(field, new, f"must be between 0 and {_MOST_SECONDS}, inclusive")]
    if old is not None and old < new:
        return [invalid_value(field, new, "must be less than or equal to previous value")]
    return []


def _without_seconds(toleration: Object) -> Object:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _frozen(spec: Object, old: Object) -> Object:
    """What of a spec can't change."""
    changeable = {"activeDeadlineSeconds", "tolerations", "schedulingGates"}
    if old.get("schedulingGates"):
        changeable.add("nodeSelector")
    frozen = {key: value for key, value in spec.items() if key not in changeable}
    for field in ("containers", "initContainers"):
        if field in frozen:
            frozen[field] = [container | {"image": ""} for container in frozen[field] or ()]
    return frozen


# ---- the status


def kept_status(new: Object, old: Object) -> Object:
    """A written status, with what it may not forget, and with its addresses in step."""
    kept: Object = {
        field: old[field]
        for field in ("qosClass", "observedGeneration")
        if not new.get(field) and field in old
    }
    if new.get("conditions") and old.get("conditions"):
        kept["conditions"] = _with_generations(new["conditions"], old["conditions"])
    return new | kept | _addresses(new)


def _with_generations(new: Iterable[Object], old: Iterable[Object]) -> list[Object]:
    """Conditions that keep the generation of the one of their type, in order, where they give none."""
    before: dict[str, list[int]] = {}
    for each in old:
        before.setdefault(each.get("type", ""), []).append(each.get("observedGeneration") or 0)
    made = []
    for each in new:
        earlier = before.get(each.get("type", ""))
        generation = earlier.pop(0) if earlier else 0
        carries = generation and not each.get("observedGeneration")
        made.append(each | {"observedGeneration": generation} if carries else each)
    return made


def _addresses(status: Object) -> Object:
    """`podIP` is the first of `podIPs`, and counts where they differ."""
    one, several = status.get("podIP"), status.get("podIPs")
    if one and (not several or several[0].get("ip") != one):
        return {"podIPs": [{"ip": one}]}
    return {"podIP": several[0].get("ip", "")} if several and not one else {}


def status_problems(new: Object, old: Object) -> list[FieldError]:
    """What is wrong with the status of a pod, given whole."""
    status, before, spec = new["status"], old["status"], old["spec"]
    quality = status.get("qosClass")
    errors = []
    if quality != before.get("qosClass"):
        errors.append(invalid_value("status.qosClass", quality, "field is immutable"))
    if _all_may_restart(spec):
        return errors
    for field, containers in (
        ("containerStatuses", "containers"),
        ("initContainerStatuses", "initContainers"),
        ("ephemeralContainerStatuses", ""),
    ):
        errors += _revived(field, status, before, spec, spec.get(containers) or ())
    return errors


def _revived(
    field: str, new: Object, old: Object, spec: Object, containers: Iterable[Object]
) -> list[FieldError]:
    """Containers that ended, can't be started again, and run all the same."""
    states = {each.get("name"): each.get("state") or {} for each in new.get(field) or ()}
    by_name = {each.get("name"): each for each in containers}
    return [
        forbidden_value(f"status.{field}[{index}].state", "may not be transitioned to non-terminated state")
        for index, before in enumerate(old.get(field) or ())
        if (ended := (before.get("state") or {}).get("terminated")) is not None
        and "terminated" not in states.get(before["name"], {"terminated": None})
        and not _may_restart(by_name.get(before["name"]), spec, ended.get("exitCode") or 0)
    ]


def _all_may_restart(spec: Object) -> bool:
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("containers", "initContainers")
        for container in spec.get(field) or ()
        for rule in container.get("restartPolicyRules") or ()
    )


def _may_restart(container: Object | None, spec: Object, exit_code: int) -> bool:
    if container is None:
        return False
    policy = container.get("restartPolicy")
    if policy and any(_matches(rule, exit_code) for rule in container.get("restartPolicyRules") or ()):
        return True
    policy = policy or spec["restartPolicy"]
    return policy == "Always" or (policy == "OnFailure" and exit_code != 0)


def _matches(rule: Object, exit_code: int) -> bool:
    codes: Any = rule.get("exitCodes") or {}
    within = exit_code in (codes.get("values") or ())
    return rule.get("action") == "Restart" and within == (codes.get("operator") == "In")
