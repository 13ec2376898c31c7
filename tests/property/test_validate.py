"""Whatever is done to a valid manifest, validation answers with problems, never with a traceback."""

import copy
import json
from pathlib import Path as File
from typing import Any

from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from bireme.admission import default, is_valid, validate
from bireme.api.paths import format_path
from bireme.cli.main import cli
from bireme.manifest import read

ROOT = File(__file__).parents[2]
FILES = sorted(
    [*(ROOT / "examples").glob("*.yaml"), *(ROOT / "tests/golden/validate/valid").glob("*.input.yaml")]
)
TEXTS = [file.read_text() for file in FILES]
OBJECTS: list[Any] = [document.value for text in TEXTS for document in read(text).documents]

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.sampled_from(
        ["$(rank)", "$(service.port[x])", "4GB", "-np 4", "0", "", "9" * 70, "\x00\x1b[31m", "ünïcödé"]
    )
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def containers(value: Any) -> list[Any]:
    """Every object and list inside a value, itself included."""
    found = [value] if isinstance(value, dict | list) else []
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        found += containers(child)
    return found


@st.composite
def mutated(draw: st.DrawFn) -> Any:
    """A valid object with up to four places removed, replaced, renamed or doubled."""
    obj = copy.deepcopy(draw(st.sampled_from(OBJECTS)))
    for _ in range(draw(st.integers(1, 4))):
        places = [place for place in containers(obj) if place]
        if not places:
            break
        place = draw(st.sampled_from(places))
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        match draw(st.sampled_from(["replace", "remove", "rename", "double"])):
            case "replace":
                place[key] = draw(VALUES)
            case "remove":
                del place[key]
            case "rename" if isinstance(place, dict):
                place[draw(st.text(max_size=12))] = place.pop(key)
            case _ if isinstance(place, list):
                place.append(copy.deepcopy(place[key]))
    return obj


@given(mutated(), st.none() | mutated())
def test_a_mutated_object_gives_problems_at_printable_paths(
    obj: dict[str, Any], old: dict[str, Any] | None
) -> None:
    before = copy.deepcopy(obj)
    problems = validate(default(obj), default(old) if old is not None else None)
    assert obj == before
    for problem in problems:
        assert problem.message
        assert problem.rule
        format_path(problem.path)
    assert validate(default(obj), default(old) if old is not None else None) == problems
    assert is_valid(problems) == all(problem.severity == "warning" for problem in problems)


@given(mutated(), st.sampled_from([[], ["-o", "json"], ["-o", "yaml"], ["--fix"]]))
def test_the_command_answers_with_0_or_1_and_no_traceback(obj: Any, options: list[str]) -> None:
    text = json.dumps(obj, indent=1)
    result = CliRunner().invoke(cli, ["validate", *options, "-f", "-"], input=text, catch_exceptions=False)
    assert result.exit_code in (0, 1)
    assert "Traceback" not in result.output


@given(st.sampled_from(TEXTS), st.data())
def test_a_mutilated_text_gives_0_or_1_and_no_traceback(text: str, data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    inserted = data.draw(st.text(alphabet="\t\n -:{}[]&*!|>'\"%@`#,?abc\x00é", max_size=12))
    broken = text[:start] + inserted + text[end:]
    result = CliRunner().invoke(cli, ["validate", "-f", "-"], input=broken, catch_exceptions=False)
    assert result.exit_code in (0, 1)
    assert "\x00" not in result.output
