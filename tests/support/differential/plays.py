"""Plays: sequences of calls about one theme, by chance; the same seed makes the same one."""

from collections.abc import Callable
from random import Random

from support.differential.calls import SETTLE, WATCH, Call, Object
from support.differential.subjects import (
    BINDINGS,
    CLAIMS,
    CONFIG_MAPS,
    CORE,
    GENERIC_JOBS,
    LEASES,
    NAMESPACES,
    NODES,
    OURS,
    POD_GROUPS,
    PODS,
    PRIORITIES,
    SECRETS,
    SERVICES,
    SPACE,
    WIDGET_OBJECTS,
    Subject,
)
from support.differential.widgets import build_crd
from support.differential.writes import GRACES, MERGE, Writes

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io,application/json"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json"
SELECTORS = (
    "",
    "s=1",
    "s!=1",
    "s",
    "!s",
    "s in (1,2)",
    "s notin (1)",
    "s>1",
    "s in (",
    "=",
    "s=bad value",
    "a b",
    "s==1,t",
)
FIELDS = (
    "",
    "metadata.name={name}",
    "metadata.name!={name}",
    "metadata.namespace=other",
    "spec.nodeName=node",
    "type=Opaque",
    "status.phase=Running",
    "status.phase!=Running,spec.nodeName!=",
    "spec.other=1",
    "nonsense",
    "spec.type=ClusterIP",
)


def setup(subjects: tuple[Subject, ...]) -> list[Call]:
    """What a play finds when it begins."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    calls = [Call("POST", "/api/v1/namespaces", space, setup=True)]
    if PODS in subjects:
        accounts = f"/api/v1/namespaces/{SPACE}/serviceaccounts"
        other = {"imagePullSecrets": [{"name": "pull"}], "metadata": {"name": "other"}}
        default: Object = {"metadata": {"name": "default"}}
        calls += [
            Call("POST", accounts, {**each, "automountServiceAccountToken": False}, setup=True)
            for each in (default, other)
        ]
        silent = {"automountServiceAccountToken": False}
        calls.append(Call("PATCH", f"{accounts}/default", silent, media_type=MERGE, setup=True))
    return calls


def write(random: Random, subjects: tuple[Subject, ...]) -> list[Call]:
    """An object is written again and again; in the end a watcher is told all of it."""
    subject = random.choice(subjects)
    writes = Writes(random, subject)
    calls = [*setup((subject,)), writes.create("a", {"labels": {"s": "1"}})]
    calls += [writes.any() for _ in range(random.randint(6, 14))]
    selector = random.choice(["", "s=1", "s!=1"])
    sentinel = {"labels": {"s": "1" if selector == "s=1" else "2"}}
    params = {"resourceVersion": "<start>", "labelSelector": selector}
    if not subject.kind.namespaced:
        # Other plays' objects, and those that are always there, would be seen.
        gone = {"propagationPolicy": "Background"}
        return [*calls, *(Call("DELETE", subject.path(each), gone, setup=True) for each in "ab")]
    if subject is CLAIMS:
        # They have a version more there.
        return calls
    return [
        *calls,
        writes.create("z", sentinel),
        Call("GET", subject.collection, params={"labelSelector": selector}),
        Call(WATCH, subject.collection, params=params, until="z"),
    ]


def select(random: Random, subjects: tuple[Subject, ...]) -> list[Call]:
    """Several objects are listed, in pages too, watched from the beginning, and deleted together."""
    subject = random.choice(subjects)
    writes = Writes(random, subject)
    calls = setup((subject,))
    for letter in random.sample("abcdef", random.randint(2, 5)):
        calls.append(
            writes.create(
                letter, random.choice([{}, {"labels": {"s": "1"}}, {"labels": {"s": "2", "t": ""}}])
            )
        )
    for _ in range(random.randint(4, 8)):
        calls += random.choice([_list, _pages, _initial, _formed])(random, subject)
    labels = random.choice(SELECTORS)
    options: Object | None = random.choice([None, {}, {"gracePeriodSeconds": 0}, {"dryRun": ["All"]}])
    calls.append(Call("DELETE", subject.collection, options, {"labelSelector": labels}))
    return [*calls, Call("GET", subject.collection)]


def _list(random: Random, subject: Subject) -> list[Call]:
    fields = random.choice(FIELDS).format(name=subject.name("a"))
    params = {"labelSelector": random.choice(SELECTORS)}
    if random.random() < 0.5:
        return [Call("GET", subject.collection, params=params | {"fieldSelector": fields})]
    params |= random.choice(
        [
            {},
            {},
            {},
            {"resourceVersion": "0"},
            {"resourceVersion": "<start>"},
            {"resourceVersion": "<start>", "resourceVersionMatch": "NotOlderThan"},
            {"resourceVersion": "<start>", "resourceVersionMatch": "Exact"},
            {"resourceVersionMatch": "Exact"},
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            {"resourceVersion": "x"},
            {"limit": "x"},
            {"resourceVersion": "1", "resourceVersionMatch": "Other"},
            {"limit": "-1"},
            {"timeoutSeconds": "5"},
        ]
    )
    return [Call("GET", subject.collection, params=params)]


def _pages(random: Random, subject: Subject) -> list[Call]:
    params = {"limit": str(random.randint(1, 3)), "labelSelector": random.choice(["", "", "s=1", "!s"])}
    first = Call("GET", subject.collection, params=params)
    between = random.choice(
        [[], [Call("DELETE", subject.path("d"))], [Writes(random, subject).create("g", {})]]
    )
    return [first, *between, first._replace(params=params | {"continue": "<continue>"})]


def _initial(random: Random, subject: Subject) -> list[Call]:
    params = {
        "sendInitialEvents": "true",
        "resourceVersionMatch": "NotOlderThan",
        "allowWatchBookmarks": "true",
        "labelSelector": random.choice(["", "s=1", "!s", "s in ("]),
    }
    wrong = random.choice([{}, {}, {}, {}, {"resourceVersionMatch": ""}, {"resourceVersion": "x"}])
    return [Call(WATCH, subject.collection, params=params | wrong)]


def _formed(random: Random, subject: Subject) -> list[Call]:
    include = random.choice(
        [{}, {"includeObject": "None"}, {"includeObject": "Object"}, {"includeObject": "Metadata"}]
    )
    return [
        random.choice(
            [
                Call("GET", subject.path("a"), accept=TABLE, params=include),
                Call("GET", subject.collection, accept=TABLE, params=include),
                Call("GET", subject.path("a"), accept=PARTIAL),
                Call("GET", subject.collection, accept=PARTIAL_LIST),
                Call("GET", subject.collection, accept="application/yaml;q=0.5,text/plain"),
            ]
        )
    ]


def place(random: Random, _: tuple[Subject, ...]) -> list[Call]:
    """Pods are bound, run, evicted and deleted."""
    writes = Writes(random, PODS)
    calls = [*setup((PODS,)), writes.create("a", {}), writes.create("b", {"finalizers": ["example.com/f"]})]
    for _number in range(random.randint(6, 12)):
        letter = random.choice("aab")
        calls.append(random.choice([_bind, _evict, _run, _remove])(random, letter))
        if random.random() < 0.2:
            calls.append(writes.any())
    return [*calls, Call("GET", PODS.collection)]


def _bind(random: Random, letter: str) -> Call:
    binding: Object = {
        "metadata": {"name": letter}
        | random.choice(
            [
                {},
                {},
                {},
                {"uid": "<uid Pod/a>"},
                {"uid": "other"},
                {"annotations": {"x": "y"}},
                {"labels": {"x": "y"}},
            ]
        ),
        "target": {"kind": "Node", "name": "node"}
        | random.choice([{}, {}, {}, {"name": ""}, {"kind": "Pod"}]),
    }
    typed = random.choice(
        [{}, {"apiVersion": "v1", "kind": "Binding"}, {"kind": "Other", "apiVersion": "v1"}]
    )
    params = random.choice([{}, {}, {"dryRun": "All"}, {"fieldManager": "one"}])
    return Call("POST", PODS.path(letter, "binding"), typed | binding, params)


def _evict(random: Random, letter: str) -> Call:
    options: tuple[Object, ...] = (
        *GRACES,
        {"preconditions": {"uid": "<uid Pod/a>"}},
        {"preconditions": {"uid": "x"}},
        {"dryRun": ["All"]},
    )
    body = {"metadata": {"name": letter}, "deleteOptions": random.choice(options)}
    typed = {"apiVersion": random.choice(["policy/v1", "policy/v1", "policy/v1beta1"]), "kind": "Eviction"}
    return Call("POST", PODS.path(letter, "eviction"), random.choice([typed, typed, {}]) | body)


def _run(random: Random, letter: str) -> Call:
    status = {"status": random.choice(PODS.statuses)}
    return Call("PATCH", PODS.path(letter, "status"), status, {"fieldManager": "kubelet"}, MERGE)


def _remove(random: Random, letter: str) -> Call:
    if random.random() < 0.3:
        return Call("PATCH", PODS.path(letter), {"metadata": {"finalizers": None}}, media_type=MERGE)
    return Call("DELETE", PODS.path(letter), random.choice(GRACES) or None)


def own(random: Random, subjects: tuple[Subject, ...]) -> list[Call]:
    """Objects own each other, also across kinds; some go, and what is left is compared when all is quiet."""
    chosen = [random.choice(subjects) for _ in range(5)]
    calls = setup(tuple(chosen))
    for index, letter in enumerate("abcde"):
        metadata: Object = {"ownerReferences": _owners(random, chosen[:index])} if index else {}
        if random.random() < 0.2:
            metadata["finalizers"] = ["example.com/f"]
        calls.append(Writes(random, chosen[index]).create(letter, metadata))
    collections = ",".join(sorted({each.collection for each in chosen}))
    for index in random.sample(range(5), random.randint(1, 3)):
        policy = random.choice(["Foreground", "Background", "Orphan", ""])
        options: Object | None = {"propagationPolicy": policy} if policy else None
        calls.append(Call("DELETE", chosen[index].path("abcde"[index]), options))
        calls.append(Call(SETTLE, collections))
    release: Object = {"metadata": {"finalizers": None}}
    for index, letter in enumerate("abcde"):
        calls.append(Call("PATCH", chosen[index].path(letter), release, media_type=MERGE, setup=True))
    return [*calls, Call(SETTLE, collections)]


def _owners(random: Random, earlier: list[Subject]) -> list[Object]:
    indices = random.sample(range(len(earlier)), random.randint(0, min(2, len(earlier))))
    return [
        {
            **earlier[index].head,
            "name": earlier[index].name("abcde"[index]),
            "uid": f"<uid {earlier[index].key('abcde'[index])}>",
            **random.choice(
                [{}, {"blockOwnerDeletion": True}, {"blockOwnerDeletion": False, "controller": False}]
            ),
        }
        for index in indices
    ]


def inhabit(random: Random, subjects: tuple[Subject, ...]) -> list[Call]:
    """A namespace is deleted with what is in it."""
    chosen = [random.choice(subjects) for _ in range(3)]
    calls = setup(tuple(chosen))
    for letter, subject in zip("abc", chosen, strict=True):
        # The first one holds the namespace, or it would go at any moment.
        held = letter == "a" or random.random() < 0.4
        metadata: Object = {"finalizers": ["example.com/f"]} if held else {}
        calls.append(Writes(random, subject).create(letter, metadata))
    name = f"/api/v1/namespaces/{SPACE}"
    policy: Object = random.choice([{}, {"propagationPolicy": "Foreground"}, {"gracePeriodSeconds": 5}])
    calls += [Call("DELETE", name, options) for options in ({"preconditions": {"uid": "x"}}, policy, {})]
    collections = ",".join(sorted({each.collection for each in chosen}))
    calls += [Call(SETTLE, collections), Call("GET", name), Writes(random, chosen[0]).create("d", {})]
    release: Object = {"metadata": {"finalizers": None}}
    for letter, subject in zip("abc", chosen, strict=True):
        calls.append(Call("PATCH", subject.path(letter), release, media_type=MERGE, setup=True))
    return [*calls, Call(SETTLE, f"{name},{collections}")]


def define(random: Random, _: tuple[Subject, ...]) -> list[Call]:
    """A user's CRD comes, is used, changes, and goes with its objects."""
    group = "g<n>.example.com"
    kind = WIDGET_OBJECTS.kind.__class__(
        group=group,
        plural="widgets",
        kind="Widget",
        custom=True,
        has_status=True,
        has_generation=True,
        unconditional=False,
    )
    subject = WIDGET_OBJECTS._replace(kind=kind)
    crds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    crd = f"{crds}/widgets.{group}"
    writes = Writes(random, subject)
    calls = [*setup(()), Call("GET", subject.collection), Call("POST", crds, build_crd(group))]
    calls.append(Call(SETTLE, f"{crd},{subject.collection}"))
    calls += [writes.create("a", {}), *(writes.any() for _ in range(5))]
    narrowed = {"spec": {"names": {"shortNames": ["w<n>"]}}}
    calls += [
        Call("PATCH", crd, narrowed, media_type=MERGE),
        Call(SETTLE, crd),
        writes.create("b", {}),
        Call("PATCH", crd, {"spec": {"scope": "Cluster"}}, media_type=MERGE),
    ]
    release: Object = {"metadata": {"finalizers": None}}
    calls += [Call("PATCH", subject.path(each), release, media_type=MERGE, setup=True) for each in "ab"]
    return [*calls, Call("DELETE", crd), Call(SETTLE, crd)]


Maker = Callable[[Random, tuple[Subject, ...]], list[Call]]
ALL = (*CORE, CLAIMS, *OURS, WIDGET_OBJECTS)
QUIET = (CONFIG_MAPS, SECRETS, LEASES, BINDINGS, GENERIC_JOBS, POD_GROUPS, WIDGET_OBJECTS, SERVICES)
"""Kinds that no controller of a cluster writes."""
THEMES: dict[str, tuple[Maker, tuple[Subject, ...], int]] = {
    "core": (write, CORE, 12),
    "claims": (write, (CLAIMS,), 1),
    "cluster": (write, (PRIORITIES, NODES, NAMESPACES), 3),
    "widgets": (write, (WIDGET_OBJECTS,), 5),
    "jobs": (write, OURS, 4),
    "lists": (select, tuple(each for each in ALL if each.kind.namespaced), 6),
    "pods": (place, (PODS,), 1),
    "owners": (own, QUIET, 1),
    "namespaces": (inhabit, QUIET, 0),
    "crds": (define, (), 0),
}
"""Of each theme: how plays are made, of which kinds, and its share; those without one are slow there."""


def make(theme: str, seed: int) -> list[Call]:
    maker, subjects, _ = THEMES[theme]
    return maker(Random(f"{theme} {seed}"), subjects)
