"""kubectl sees our server as it sees the real one: the same sessions on both, and the texts are compared.

Sessions are in sessions/*.yaml, and what differs on purpose in known-differences.yaml. A difference that is
listed there and does not show any more is a failure too. The older kubectl plays all of them in the heavy
tier, and otherwise those in which it asks for something else than the newer one.
"""

import difflib
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
import yaml

from support.clients import find_client
from support.control_plane import BinariesMissingError, ControlPlane, find_kubectl
from support.embedded import EmbeddedServer
from support.fixtures import unavailable
from support.kubectl import Kubectl
from support.masking import without, without_lines
from support.session import Outcome, Player, load

pytestmark = pytest.mark.xdist_group("control_plane")

FOLDER = Path(__file__).parent
SESSIONS = sorted((FOLDER / "sessions").glob("*.yaml"))
DEFINES_KINDS = ("custom",)
"""Sessions that leave kubectl with a stale idea of which kinds there are."""
WITH_OLDER = ("custom", "discovery", "jobs")
"""Sessions that show what kubectl learns of a server, and how it uses that: there versions differ."""
SHOWN_LINES = 25
PLAYS = [
    pytest.param(path, program, id=f"{path.stem}-{program}", marks=[pytest.mark.long] * is_heavy)
    for path in SESSIONS
    for program, is_heavy in (("kubectl", False), ("kubectl-old", path.stem not in WITH_OLDER))
]


class Difference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of one session's steps is not the same, and why."""

    session: str
    steps: list[str]
    reason: str
    lines: list[str] = []
    """Patterns of the lines that differ."""
    parts: list[str] = []
    """Patterns of what else differs; where there are neither, the whole text does."""
    program: str = ""
    """`kubectl` or `kubectl-old` where only one of them sees it."""

    def concerns(self, session: str, step: str, program: str) -> bool:
        return self.session == session and step in self.steps and self.program in ("", program)


KNOWN = msgspec.convert(
    yaml.safe_load((FOLDER / "known-differences.yaml").read_text()) or [], list[Difference]
)


class Comparison(NamedTuple):
    session: str
    program: str
    real: list[Outcome]
    ours: list[Outcome]

    def problems(self) -> list[str]:
        assert [each.step for each in self.real] == [each.step for each in self.ours]
        found = [self._problem(*pair) for pair in zip(self.real, self.ours, strict=True)]
        return [each for each in found if each]

    def _problem(self, real: Outcome, ours: Outcome) -> str:
        known = [each for each in KNOWN if each.concerns(self.session, real.step, self.program)]
        if known and real.text == ours.text:
            return f"{real.step}: is the same now; take it from the known differences"
        if any(not each.lines + each.parts for each in known):
            return ""
        texts = [_without_known(text, known) for text in (real.text, ours.text)]
        return _difference(real.step, *texts)


def _without_known(text: str, known: list[Difference]) -> str:
    parts = without(text, [pattern for each in known for pattern in each.parts])
    return without_lines(parts, [pattern for each in known for pattern in each.lines])


def _difference(step: str, real: str, ours: str) -> str:
    lines = difflib.unified_diff(real.split("\n"), ours.split("\n"), "real", "ours", lineterm="", n=1)
    shown = [line[:300] for line in lines][2 : SHOWN_LINES + 2]
    return "\n".join([f"{step}:", *shown]) if shown else ""


@pytest.mark.parametrize(("session", "program"), PLAYS)
def test_kubectl_sees_the_same_on_both_servers(
    real: ControlPlane, embedded: EmbeddedServer, tmp_path: Path, session: Path, program: str
) -> None:
    with ThreadPoolExecutor() as pool:
        plays = [pool.submit(play, server, program, session, tmp_path) for server in (real, embedded)]
        comparison = Comparison(session.stem, program, *(each.result() for each in plays))
    problems = comparison.problems()
    assert not problems, "\n\n".join(["- is the real server, + is ours", *problems])


def play(server: ControlPlane | EmbeddedServer, program: str, session: Path, folder: Path) -> list[Outcome]:
    """Play in a namespace of its own; both servers call it the same."""
    own = folder / type(server).__name__
    cache = own if session.stem in DEFINES_KINDS else server.folder / "sessions"
    kubectl = Kubectl(find_program(program), server.kubeconfig, cache)
    namespace = f"{session.stem}-{program}"
    manifest = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}
    server.kubectl("create", "-f", "-", input=json.dumps(manifest))
    if isinstance(server, ControlPlane):
        made = ("serviceaccount/default", "configmap/kube-root-ca.crt")
        server.kubectl("wait", "--for=create", "--timeout=150s", "--namespace", namespace, *made)
    try:
        return list(Player(kubectl, namespace, session.parent / "files").play(load(session)))
    finally:
        server.kubectl("delete", "namespace", namespace, "--wait=false")


def find_program(name: str) -> Path:
    try:
        return find_kubectl() if name == "kubectl" else find_client(name)
    except BinariesMissingError as missing:
        raise unavailable(str(missing)) from None


def test_every_known_difference_names_a_step() -> None:
    steps = {path.stem: {step.run or f"join {step.join}" for step in load(path)} for path in SESSIONS}
    named = {(each.session, step.partition(" #")[0]) for each in KNOWN for step in each.steps}
    assert not {(session, step) for session, step in named if step not in steps.get(session, ())}


def test_kubectl_diff_has_its_program() -> None:
    assert shutil.which("diff"), "`kubectl diff` runs diff(1)"
