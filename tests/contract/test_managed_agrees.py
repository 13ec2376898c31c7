"""Field ownership and server-side apply agree with a real API server.

Each step is sent to the server. What it stored before and after goes through our functions as well, and these
must come to the same managedFields, the same object and the same refusals. Times are compared too: a new one
of the server, if it stamped any, is taken for the moment of the step.
"""

import json
from collections.abc import Iterator

import pytest
from hypothesis import settings

from contract.managed_dice import GENERATED, Dice
from contract.managed_play import APPLY, SPACE, Play, Step, Wire
from contract.managed_steps import SEQUENCES
from contract.managed_widget import CRD, WIDGET
from support.control_plane import ControlPlane

pytestmark = pytest.mark.xdist_group("control_plane")

LONG = settings().max_examples > 1000
SEEDS = range(20 if LONG else 2)
STEPS = 100 if LONG else 30


@pytest.fixture(scope="module")
def wire(control_plane: ControlPlane) -> Iterator[Wire]:
    control_plane.kubectl("apply", "-f", "-", input=json.dumps(CRD))
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=150s", f"crd/{WIDGET.resource}")
    wire = Wire(control_plane)
    named = {"metadata": {"name": SPACE}}
    wire.call("POST", "/api/v1/namespaces", named)
    # Pods wait for this account; its controller may not have made it yet.
    wire.call("POST", f"/api/v1/namespaces/{SPACE}/serviceaccounts", {"metadata": {"name": "default"}})
    yield wire
    wire.close()


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequence_agrees(wire: Wire, name: str) -> None:
    kind, steps = SEQUENCES[name]
    play = Play(wire, kind, f"sequence-{list(SEQUENCES).index(name)}")
    for number, step in enumerate(steps):
        code, ours, theirs = play.take(step)
        assert ours == theirs, f"at step {number}: {step}"
        assert step.how == APPLY or code < 300, f"at step {number}: {step}"


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("name", GENERATED)
def test_generated_steps_agree(wire: Wire, name: str, seed: int) -> None:
    kind, body, content, status, how = GENERATED[name]
    play, dice = Play(wire, kind, f"generated-{seed}"), Dice(seed)
    play.take(Step("create" if seed % 2 else APPLY, body, "maker"))
    codes = []
    for number in range(STEPS):
        step = dice.step(content, status, how)
        code, ours, theirs = play.take(step)
        assert ours == theirs, f"at step {number}: {step}"
        codes.append(code)
    assert codes.count(200) > STEPS / 2
