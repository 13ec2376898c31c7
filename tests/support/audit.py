"""What an API server was asked, by its own account: the audit log, and who led by it."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

POLICY: Final = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        # With what is in them: who holds a lease.
        {"level": "Request", "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}]},
        {"level": "Metadata"},
    ],
}
WRITES: Final = frozenset({"create", "update", "patch", "delete", "deletecollection"})
LEASES: Final = "leases.coordination.k8s.io"


class Request(NamedTuple):
    """One request that was answered. `who` is the pod it came from, or else the user."""

    at: datetime
    who: str
    user: str
    verb: str
    resource: str
    namespace: str
    name: str
    code: int
    is_allowed: bool
    message: str
    body: dict[str, Any]

    @property
    def is_write(self) -> bool:
        return self.verb in WRITES and self.code < 300

    @property
    def is_work(self) -> bool:
        """A write that only the leader may do."""
        return self.is_write and self.resource != LEASES


def flags(folder: Path) -> list[str]:
    """What to tell an API server, so that it writes down everything into one file."""
    policy = folder / "audit-policy.json"
    policy.write_text(json.dumps(POLICY))
    return [
        f"--audit-policy-file={policy}",
        f"--audit-log-path={folder / 'audit.log'}",
        "--audit-log-maxsize=4000",
    ]


def read(log: Path, users: Collection[str]) -> list[Request]:
    """The requests of these users, in the order in which they came in."""
    return sorted(_requests(log, users), key=lambda request: request.at)


def _requests(log: Path, users: Collection[str]) -> Iterator[Request]:
    with log.open() as lines:
        for line in lines:
            # The last line may be half written.
            if line.endswith("\n") and any(user in line for user in users):
                event = json.loads(line)
                if event["user"]["username"] in users:
                    yield _request(event)


def _request(event: dict[str, Any]) -> Request:
    ref = event.get("objectRef") or {}
    resource = "/".join(filter(None, (ref.get("resource"), ref.get("subresource"))))
    pods = (event["user"].get("extra") or {}).get("authentication.kubernetes.io/pod-name")
    answer = event.get("responseStatus") or {}
    return Request(
        at=datetime.fromisoformat(event["requestReceivedTimestamp"]),
        who=pods[0] if pods else event["user"]["username"],
        user=event["user"]["username"],
        verb=event["verb"],
        resource=f"{resource}.{ref['apiGroup']}" if ref.get("apiGroup") else resource,
        namespace=ref.get("namespace", ""),
        name=ref.get("name", ""),
        code=answer.get("code", 0),
        # By this word, not by the code: 403 is also what a namespace answers that is being deleted.
        is_allowed=(event.get("annotations") or {}).get("authorization.k8s.io/decision") != "forbid",
        message=f"{event['verb']} {event['requestURI']}: {answer.get('message', '')}",
        body=event.get("requestObject") or {},
    )


def pods_created(requests: Iterable[Request], namespace: str) -> Counter[str]:
    """How often each pod was made."""
    return Counter(
        each.name
        for each in requests
        if (each.verb, each.resource, each.namespace, each.code) == ("create", "pods", namespace, 201)
    )


@dataclass
class Term:
    """The time in which one process led, by what it wrote."""

    holder: str
    who: str
    began: datetime
    ended: datetime
    worked: datetime | None = None
    """Its first write but of the lease."""


class Handover(NamedTuple):
    """From the last write of one leader, in seconds."""

    to_lease: float
    """… until the lease is another's."""
    to_work: float | None
    """… until that one wrote something else; None if it had nothing to do."""
    was_given: bool
    """Whether the lease was given back, or ran out."""


class Leaders(NamedTuple):
    """Who led, one after another, and what was written by somebody who did not lead then."""

    terms: list[Term]
    strays: list[Request]
    given: set[str]
    """Those who gave the lease back."""

    def handovers(self, since: datetime) -> list[Handover]:
        """Those to leaders who began after that."""
        pairs = zip(self.terms, self.terms[1:], strict=False)
        return [self._between(old, new) for old, new in pairs if new.began >= since]

    def _between(self, old: Term, new: Term) -> Handover:
        def after(moment: datetime) -> float:
            return (moment - old.ended).total_seconds()

        worked = None if new.worked is None else after(new.worked)
        return Handover(after(new.began), worked, old.holder in self.given)


def read_leaders(requests: Iterable[Request], lease: str) -> Leaders:
    """Follow the lease of that name through the requests of those who stand for it."""
    found = Leaders([], [], set())
    for request in requests:
        if request.is_write and (request.resource, request.name) == (LEASES, lease):
            _follow(found, request)
        elif request.is_work:
            _count(found, request)
    return found


def _follow(found: Leaders, request: Request) -> None:
    holder = (request.body.get("spec") or {}).get("holderIdentity")
    current = found.terms[-1] if found.terms else None
    if holder and (current is None or current.holder != holder):
        found.terms.append(Term(holder, request.who, request.at, request.at))
    elif current is not None:
        current.ended = request.at
        if not holder:
            found.given.add(current.holder)


def _count(found: Leaders, request: Request) -> None:
    term = found.terms[-1] if found.terms else None
    if term is None or term.who != request.who or term.holder in found.given:
        found.strays.append(request)
        return
    term.ended = request.at
    term.worked = term.worked or request.at
