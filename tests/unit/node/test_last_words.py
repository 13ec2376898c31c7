"""What is kept of a container's output for the word on its end."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from bireme.node.folders import PodFolder
from bireme.node.last_words import read_last_words, read_message, write_message
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


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.symlink_to(path.parent / "secret"),
        os.mkfifo,
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda _: None,
    ],
    ids=["link", "pipe", "folder", "device", "nothing"],
)
def test_only_a_plain_file_is_a_termination_message(tmp_path: Path, make: Callable[[Path], None]) -> None:
    secret, message = tmp_path / "secret", tmp_path / "message"
    secret.write_text("secret")
    make(message)
    assert read_message(message) == ""
    write_message(message, "said")
    assert secret.read_text() == "secret"


def test_of_a_long_termination_message_the_beginning_is_read(tmp_path: Path) -> None:
    message = tmp_path / "message"
    write_message(message, "nothing is there to be written to")
    assert not message.exists()
    message.touch()
    write_message(message, "said first\n")
    os.truncate(message, 1 << 40)
    assert read_message(message) == "said first\n" + "\0" * (4096 - 11)
    write_message(message, "said last\n")
    assert read_message(message) == "said last\n"
