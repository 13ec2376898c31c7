"""Names and paths that nobody should choose: they stay below their volume, and inside their request."""

import asyncio
import base64
import tempfile
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

from hypothesis import given, settings
from hypothesis import strategies as st

from bireme.admission.problems import Findings
from bireme.admission.volumes import check_mounts, check_volumes
from bireme.api.volume_paths import unreserved
from bireme.apiserver.pod_defaults import default_spec
from bireme.apiserver.pod_validation import spec_problems
from bireme.kube.local import LocalTransport
from bireme.kube.protocol import check_target
from bireme.kube.resources import Resource
from bireme.node.environment import Sources
from bireme.node.volumes import VolumeError, Volumes

Object = dict[str, Any]
CONTENT = b"content"
ELEMENTS = (
    "..",
    ".",
    "",
    "a",
    "b",
    "..a",
    "a..",
    "...",
    "..data",
    "a\n",
    "a\0b",
    "%2e%2e",
    "\\..",
    "x" * 256,
)
PATHS = (
    st.lists(st.sampled_from(ELEMENTS), max_size=6).map("/".join)
    | st.text(st.sampled_from("./ab\n\0~\\%"), max_size=12)
    | st.text(max_size=20)
)
TEXTS = st.text(st.sampled_from("a./:?#% \r\n\t\0\x7f\x85é\u2028\ud800"), max_size=12) | st.text(max_size=20)
EXAMPLES = settings().max_examples


# ---- volumes


def volume(kind: str, path: str) -> Object:
    item = {"key": "k", "path": path}
    match kind:
        case "configMap":
            return {"configMap": {"name": "c", "items": [item]}}
        case "secret":
            return {"secret": {"secretName": "c", "items": [item]}}
        case "projected":
            return {"projected": {"sources": [{"configMap": {"name": "c", "items": [item]}}]}}
        case "downwardAPI":
            field = {"fieldPath": "metadata.name"}
            return {"downwardAPI": {"items": [{"path": path, "fieldRef": field}]}}
    return {"persistentVolumeClaim": {"claimName": path}}


KINDS = st.sampled_from(["configMap", "secret", "projected", "downwardAPI", "persistentVolumeClaim"])


def files_below(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@given(st.lists(st.tuples(KINDS, PATHS), min_size=1, max_size=3))
def test_the_node_writes_below_its_volumes_alone(wanted: list[tuple[str, str]]) -> None:
    data = {"k": base64.b64encode(CONTENT).decode()}
    sources = Sources(config_maps={"c": {"binaryData": data}}, secrets={"c": {"data": data}})
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "1/2/3/4/5"
        (folder / "outside").mkdir(parents=True)
        (folder / "outside/file").write_bytes(b"precious")
        for index, (kind, path) in enumerate(wanted):
            pod = {
                "metadata": {"name": "p", "namespace": "default"},
                "spec": {"volumes": [{"name": f"v{index}", **volume(kind, path)}]},
            }
            volumes = Volumes(pod, folder / "pod/volumes", folder / "claims", sources)
            for _ in range(2):
                try:
                    volumes.make_all()
                except (VolumeError, OSError):
                    assert not list((folder / f"pod/volumes/v{index}").glob("*")), "it left something"
        outside = [
            path
            for path in files_below(Path(name))
            if not path.startswith(("1/2/3/4/5/pod/volumes/v", "1/2/3/4/5/claims/default/"))
        ]
        assert outside == ["1/2/3/4/5/outside/file"]
        assert (folder / "outside/file").read_bytes() == b"precious"
        claims = folder / "claims/default"
        assert all(path.parent == claims for path in claims.rglob("*"))


@given(KINDS, PATHS)
def test_every_sort_of_volume_has_the_same_rule_for_its_files(kind: str, path: str) -> None:
    """Names of claims have none: Kubernetes leaves them to the node."""
    spec = default_spec(
        {"containers": [{"name": "c", "image": "i"}], "volumes": [{"name": "v", **volume(kind, path)}]}
    )
    is_taken = not spec_problems(spec)
    if kind != "persistentVolumeClaim":
        assert is_taken == (bool(path) and not unreserved(path))


@given(st.sampled_from(["subPath", "subPathExpr"]), PATHS)
def test_admission_and_the_api_server_agree_about_parts_of_volumes(field: str, path: str) -> None:
    mounts = [{"name": "v", "mountPath": "/m", field: path}]
    container = {"name": "c", "image": "i", "volumeMounts": mounts}
    spec: Object = {"containers": [container], "volumes": [{"name": "v", "emptyDir": {}}]}
    findings = Findings()
    check_mounts(container, ("containers", 0), {"v"}, findings)
    assert bool(list(findings)) == bool(spec_problems(default_spec(spec)))


@given(KINDS, PATHS)
def test_admission_refuses_what_the_api_server_refuses(kind: str, path: str) -> None:
    spec: Object = {
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", **volume(kind, path)}],
    }
    findings = Findings()
    check_volumes(spec, ("spec",), findings)
    if path and spec_problems(default_spec(spec)):
        assert list(findings)


# ---- requests


@given(TEXTS, TEXTS, TEXTS, TEXTS, TEXTS, TEXTS)
def test_a_path_has_the_segments_that_were_given(
    group: str, version: str, plural: str, namespace: str, name: str, subresource: str
) -> None:
    path = Resource(group, version, plural, "K").path(namespace, name, subresource)
    check_target(path)
    expected = ["apis", group, version] if group else ["api", version]
    expected += ["namespaces", namespace] if namespace else []
    expected += [plural, *filter(None, (name, subresource))]
    segments = [unquote_to_bytes(segment) for segment in path.split("/")[1:]]
    assert segments == [each.encode(errors="surrogatepass") for each in expected]
    assert not {".", ".."} & set(path.split("/"))


class Listener:
    """Answers each request it can read, and keeps its first line."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.rest = b""

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                self.lines.append(head.split(b"\r\n")[0])
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
        except asyncio.IncompleteReadError as error:
            self.rest += error.partial
        finally:
            writer.close()


@settings(max_examples=max(20, EXAMPLES // 10))
@given(st.lists(st.tuples(TEXTS, TEXTS, TEXTS), min_size=1, max_size=8))
def test_each_call_is_one_request_on_the_wire(calls: list[tuple[str, str, str]]) -> None:
    async def main(folder: Path) -> None:
        listener = Listener()
        async with await asyncio.start_unix_server(listener.accept, folder / "s"):
            transport = LocalTransport(folder / "s", "localhost", "secret")
            paths = [Resource(group, "v1", "things", "K").path(space, name) for group, space, name in calls]
            for path in paths:
                assert (await transport.request("GET", path)).body == b"{}"
            await transport.close()
        assert listener.rest == b"", "something is left that was no request"
        assert listener.lines == [f"GET {path} HTTP/1.1".encode() for path in paths]

    with tempfile.TemporaryDirectory() as name:
        asyncio.run(main(Path(name)))
