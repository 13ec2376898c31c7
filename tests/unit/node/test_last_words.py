"""What is kept of a container's output for the word on its end."""

from pathlib import Path

import pytest

from bireme.node.folders import PodFolder
from bireme.node.last_words import read_last_words
from support.launcher_words import LOST

NUL = "\0"
SAID = f"{'epoch' * 1000}\nRuntimeError: the loss is not a number\n{(LOST + NUL) * 30}rank 3 called abort\n"
CONTAINER = {"name": "main", "terminationMessagePolicy": "FallbackToLogsOnError"}


def last_words(tmp_path: Path, type_: str) -> str:
    folder = PodFolder(tmp_path)
    output = folder.output("main", 0)
    output.parent.mkdir(parents=True)
    output.write_text(SAID)
    pod = {"metadata": {"labels": {"bireme.dev/replica-type": type_}}}
    return read_last_words(folder, pod, CONTAINER, {"code": 1, "attempt": 0})


def test_a_launcher_s_words_are_not_pushed_out_by_ranks_that_lost_others(tmp_path: Path) -> None:
    said = last_words(tmp_path, "launcher")
    assert said.endswith("epoch\nRuntimeError: the loss is not a number\nrank 3 called abort\n")
    assert len(said) == 2048


@pytest.mark.parametrize("type_", ["worker", ""])
def test_of_others_it_is_the_end_of_their_output_as_it_is(tmp_path: Path, type_: str) -> None:
    assert last_words(tmp_path, type_) == SAID[-2048:]
