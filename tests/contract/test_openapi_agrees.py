"""What clients learn from us before they begin is what they would learn from a real API server.

Discovery and OpenAPI are compared with the pinned server's, for the kinds that we serve; and kubectl, which
reads them, must say the same of both.
"""

import json
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hack.openapi_definitions import TARGET, render

from bireme.api import kinds as api
from bireme.api.crd import build_crd
from bireme.apiserver import discovery, reviews
from bireme.apiserver.kinds import CORE, Kind, custom
from bireme.apiserver.openapi.documents import document, index
from bireme.apiserver.protobuf.messages import MEDIA_TYPE, read_object
from bireme.manifest.writer import write
from support.control_plane import ControlPlane, find_kubectl
from support.raw_client import RawClient

pytestmark = pytest.mark.xdist_group("control_plane")

Object = dict[str, Any]
USER: Final = reviews.User("admin", (reviews.MASTERS, "system:authenticated"))
AGGREGATED: Final = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
NOT_SERVED: Final = {
    "ignoreStoreReadErrorWithClusterBreakingPotential",
    "insecureSkipTLSVerifyBackend",
    "shardSelector",
}


def with_schema(kind: api.Kind) -> Kind:
    """One of our own kinds, with all that its CRD says."""
    [version] = build_crd(kind)["spec"]["versions"]
    names = {"short_names": kind.short_names, "singular": kind.singular, "categories": ("bireme",)}
    schema = version["schema"]["openAPIV3Schema"]
    return msgspec.structs.replace(custom(kind), crd_schema=schema, **names)


KINDS: Final = (*CORE, *(with_schema(kind) for kind in api.KINDS))
GROUP_VERSIONS: Final = [
    (group, version) for group, versions in discovery.group_versions(KINDS).items() for version in versions
]
each_group_version = pytest.mark.parametrize(
    ("group", "version"), GROUP_VERSIONS, ids=[group or "core" for group, _ in GROUP_VERSIONS]
)


def path_of(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


@pytest.fixture(scope="module")
def server(control_plane: ControlPlane) -> RawClient:
    """With our CRDs, once it publishes all of them."""
    if control_plane.is_existing_cluster:
        pytest.skip("BIREME_TEST_KUBECONFIG: that cluster may be of another version")
    control_plane.kubectl("apply", "-f", "-", input=write(build_crd(kind) for kind in api.KINDS))
    found = RawClient(control_plane)
    wait_until_published(found)
    return found


def wait_until_published(server: RawClient) -> None:
    """The server publishes the schemas of CRDs a while after they are established, one by one."""
    wanted = {f"/{path_of(kind.group, kind.version)}/{kind.plural}" for kind in KINDS if kind.namespaced}
    pause = threading.Event()
    for _ in range(300):
        paths = {path_of(group, version) for group, version in GROUP_VERSIONS}
        if paths <= server.get("openapi/v3")["paths"].keys():
            wanted -= {path for each in paths for path in server.get(f"openapi/v3/{each}").get("paths", ())}
            if not wanted:
                return
        pause.wait(0.2)
    raise AssertionError(f"not published: {sorted(wanted)}")


# ---- definitions and documents


def test_the_definitions_are_the_servers(server: RawClient) -> None:
    version = json.loads(TARGET.read_text())["kubernetes"]
    assert render(lambda path: server.get(f"openapi/v3/{path}"), version) == TARGET.read_text()


@each_group_version
def test_every_schema_of_a_document_is_the_servers(server: RawClient, group: str, version: str) -> None:
    ours = document(KINDS, group, version)
    assert ours is not None
    theirs = server.get(f"openapi/v3/{path_of(group, version)}")["components"]["schemas"]
    ours_too = ours["components"]["schemas"]
    if group in {kind.group for kind in api.KINDS}:
        # The server says of a CRD's that it is known in all groups that it has.
        ours_too = {name: schema for name, schema in ours_too.items() if name != f"{META}DeleteOptions"}
    assert {name: theirs.get(name) for name in ours_too} == ours_too


@each_group_version
def test_every_operation_of_a_document_is_the_servers(server: RawClient, group: str, version: str) -> None:
    ours = document(KINDS, group, version)
    assert ours is not None
    theirs = server.get(f"openapi/v3/{path_of(group, version)}")["paths"]
    is_custom = group in {kind.group for kind in api.KINDS}
    for path, item in ours["paths"].items():
        assert item.keys() == theirs[path].keys(), path
        for method in item.keys() - {"parameters"}:
            ours_seen, theirs_seen = seen(item, method), seen(theirs[path], method)
            for key in left_out(path, ours_seen["action"], is_custom=is_custom):
                del ours_seen[key], theirs_seen[key]
            assert ours_seen == theirs_seen, f"{method} {path}"


def seen(item: Object, method: str) -> Object:
    """An operation, without media types but those of patches, and without words about parameters."""
    operation = item[method]
    body = operation.get("requestBody", {})
    content = body.get("content", {})
    return {
        "action": operation["x-kubernetes-action"],
        "kind": operation["x-kubernetes-group-version-kind"],
        "tags": operation["tags"],
        "id": operation["operationId"],
        "description": operation["description"],
        "parameters": {
            (each["name"], each["in"], each["schema"]["type"], each.get("required", False))
            for each in (*item.get("parameters", ()), *operation.get("parameters", ()))
            if each["name"] not in NOT_SERVED
        },
        "body": (
            schemas_in(content),
            body.get("required", False),
            {key for key in content if "patch" in key},
        ),
        "responses": {
            code: (reply["description"], schemas_in(reply.get("content", {})))
            for code, reply in operation["responses"].items()
        },
    }


def schemas_in(content: Object) -> set[str]:
    return {json.dumps(each["schema"]) for each in content.values()}


def left_out(path: str, action: str, *, is_custom: bool) -> list[str]:
    """What we say better than the server does, of itself and of CRDs."""
    if path == "/api/v1/namespaces/{name}" and action == "delete":
        return ["responses"]
    words = {
        "list": ["description"],
        "get": ["parameters"],
        "deletecollection": ["parameters", "body"],
    }
    return words.get(action, []) if is_custom else []


# ---- discovery


@each_group_version
def test_resources_are_the_servers(server: RawClient, group: str, version: str) -> None:
    ours = discovery.resources(KINDS, group, version)
    assert ours is not None
    theirs = server.get(path_of(group, version))
    served = {each.pop("name"): each for each in ours.pop("resources")}
    known = {each.pop("name"): each for each in theirs.pop("resources")}
    for each in known.values():
        each.pop("storageVersionHash", None)
    assert {name: known[name] for name in served} == served
    assert ours == theirs


def test_groups_are_the_servers_and_in_its_order(server: RawClient) -> None:
    ours = discovery.groups(KINDS)
    theirs = server.get("apis")
    # Those of CRDs come last, in an order that is another each time.
    built_in = {kind.group for kind in CORE} | {kind.group for kind in reviews.REVIEWS}
    names = [each["name"] for each in ours["groups"]]
    theirs["groups"] = [each for each in theirs["groups"] if each["name"] in names]
    theirs["groups"].sort(key=lambda each: "" if each["name"] in built_in else each["name"])
    assert ours == theirs


def test_a_group_is_the_servers(server: RawClient) -> None:
    assert discovery.group(KINDS, "kubeflow.org") == server.get("apis/kubeflow.org")


@pytest.mark.parametrize("core", [True, False], ids=["api", "apis"])
def test_aggregated_discovery_is_the_servers(server: RawClient, *, core: bool) -> None:
    ours = discovery.aggregated(KINDS, core=core, version=discovery.V2)
    theirs = server.get("api" if core else "apis", AGGREGATED)
    names = [each["metadata"] for each in ours["items"]]
    theirs["items"] = [each for each in theirs["items"] if each["metadata"] in names]
    theirs["items"].sort(key=lambda each: names.index(each["metadata"]))
    for mine, other in zip(ours["items"], theirs["items"], strict=True):
        for version, known in zip(mine["versions"], other["versions"], strict=True):
            keep_served(known, version)
    assert ours == theirs


def keep_served(theirs: Object, ours: Object) -> None:
    """Drop the resources and subresources that only the server has."""
    served = {each["resource"]: each for each in ours["resources"]}
    theirs["resources"] = [each for each in theirs["resources"] if each["resource"] in served]
    for resource in theirs["resources"]:
        below = {each["subresource"] for each in served[resource["resource"]].get("subresources", ())}
        kept = [each for each in resource.pop("subresources", ()) if each["subresource"] in below]
        resource |= {"subresources": kept} if kept else {}


def test_the_version_has_the_fields_that_the_servers_has(server: RawClient) -> None:
    ours, theirs = discovery.version(), server.get("version")
    extra = {"emulationMajor", "emulationMinor", "minCompatibilityMajor", "minCompatibilityMinor"}
    assert ours.keys() == theirs.keys() - extra
    assert [ours[key] for key in ("major", "minor", "platform")] == [
        theirs[key] for key in ("major", "minor", "platform")
    ]


# ---- kubectl


class _Handler(BaseHTTPRequestHandler):
    """Serves what the functions say, and nothing else."""

    def do_GET(self) -> None:
        found = self._find(self.path.split("?")[0].strip("/").split("/"))
        self._reply(404 if found is None else 200, found or {})

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers["Content-Length"]))
        body = read_object(data) if self.headers["Content-Type"] == MEDIA_TYPE else json.loads(data)
        *_, resource = self.path.split("?")[0].split("/")
        self._reply(201, reviews.answer(resource, body, "", USER))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as it is there
        pass

    def _find(self, path: list[str]) -> Object | None:
        match path:
            case ["version"]:
                return discovery.version()
            case ["api" | "apis" as root] if "apidiscovery" in self.headers.get("Accept", ""):
                return discovery.aggregated(KINDS, core=root == "api", version=discovery.V2)
            case ["api"]:
                return discovery.api_versions()
            case ["apis"]:
                return discovery.groups(KINDS)
            case ["openapi", "v3"]:
                return index(KINDS)
            case ["openapi", "v3", "api", version]:
                return document(KINDS, "", version)
            case ["openapi", "v3", "apis", group, version]:
                return document(KINDS, group, version)
            case ["api", version]:
                return discovery.resources(KINDS, "", version)
            case ["apis", group, version]:
                return discovery.resources(KINDS, group, version)
        return None

    def _reply(self, code: int, body: Object) -> None:
        data = json.dumps(body).encode()
        self.send_response(code)
        aggregated = body.get("kind") == "APIGroupDiscoveryList"
        self.send_header("Content-Type", AGGREGATED if aggregated else "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Kubectl:
    """kubectl, talking to what we serve."""

    def __init__(self, url: str, folder: Path) -> None:
        self._url = url
        self._settings = {"KUBECACHEDIR": str(folder), "KUBERC": "off", "KUBECONFIG": os.devnull}

    def __call__(self, *args: str) -> str:
        result = subprocess.run(
            [find_kubectl(), "--server", self._url, *args],
            capture_output=True,
            text=True,
            env=os.environ | self._settings,
        )
        assert result.stderr == "", result.stderr
        return result.stdout


@pytest.fixture(scope="module")
def ours(server: RawClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kubectl]:
    """Depends on the real server only to be skipped with it: kubectl is built beside it."""
    http = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=http.serve_forever)
    thread.start()
    yield Kubectl(f"http://127.0.0.1:{http.server_port}", tmp_path_factory.mktemp("kubectl"))
    http.shutdown()
    thread.join()
    http.server_close()


@pytest.mark.parametrize(
    "args",
    [
        ["pod"],
        ["pod.spec.containers"],
        ["services.spec.ports", "--recursive"],
        ["pvc.spec.resources.requests"],
        ["crd.spec.versions.schema"],
        ["genericjob"],
        ["genericjob.spec", "--recursive"],
        ["mpijobs.kubeflow.org.spec"],
        ["queue.spec.quota"],
        ["rolebinding.subjects", "--api-version=rbac.authorization.k8s.io/v1"],
    ],
    ids=" ".join,
)
def test_kubectl_explains_the_same(server: RawClient, ours: Kubectl, args: list[str]) -> None:
    assert ours("explain", *args) == server.plane.kubectl("explain", *args).stdout


def test_kubectl_lists_the_same_resources(server: RawClient, ours: Kubectl) -> None:
    def rows(text: str) -> list[list[str]]:
        return [re.split(r" {2,}", line.strip()) for line in text.splitlines()]

    mine = rows(ours("api-resources", "-o", "wide"))
    theirs = rows(server.plane.kubectl("api-resources", "-o", "wide").stdout)
    served = {(*row[:1], row[-4]) for row in mine}
    assert len(mine) > len(KINDS)
    assert mine == [row for row in theirs if (*row[:1], row[-4]) in served]


def test_kubectl_asks_what_it_may_do(ours: Kubectl) -> None:
    assert ours("auth", "can-i", "create", "pods").startswith("yes")
    assert ours("auth", "can-i", "--list").split() == [
        *("Resources", "Non-Resource", "URLs", "Resource", "Names", "Verbs"),
        *("*.*", "[]", "[]", "[*]"),
        *("[*]", "[]", "[*]"),
    ]
    assert ours("auth", "whoami").splitlines()[1].split() == ["Username", "admin"]


@pytest.mark.parametrize("example", ["pod", "job"])
def test_kubectl_leaves_the_checking_of_fields_to_the_server(
    ours: Kubectl, tmp_path: Path, example: str
) -> None:
    """It looks for `fieldValidation` in the document; where that is missing it wants OpenAPI v2."""
    manifests = {
        "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}},
        "job": {
            "apiVersion": "batch.tensorstack.dev/v1beta1",
            "kind": "GenericJob",
            "metadata": {"name": "x"},
        },
    }
    path = tmp_path / "it.json"
    path.write_text(json.dumps(manifests[example]))
    reply = ours("create", "--dry-run=client", "--validate=strict", "-f", str(path))
    assert reply.endswith("/x created (dry run)\n")


def test_kubectl_reads_the_version(ours: Kubectl) -> None:
    found = json.loads(ours("version", "-o", "json"))
    assert found["serverVersion"]["gitVersion"] == discovery.version()["gitVersion"]
