"""What commands write themselves has no escape sequences but our own colours."""

import io
import os
import re

import click
import pytest
from click.testing import CliRunner

from bireme.cli.failures import Failure, say
from bireme.cli.output import Styled, echo, echo_data
from bireme.cli.screen import Screen
from bireme.terminal_text import neutralise

HOSTILE = "\x1b]0;t\x07\x9b2J\r\x7f\u202e"
SGR = re.compile(r"\x1b\[[0-9;]*m")


def test_our_own_colours_reach_a_terminal_and_nobody_elses_do() -> None:
    @click.command()
    def command() -> None:
        echo(Styled(f"head{HOSTILE}", fg="red", bold=True), f" {HOSTILE}\x1b[31mtext")
        say(f"talk {HOSTILE}")
        raise Failure(f"message {HOSTILE}", f"hint {HOSTILE}")

    result = CliRunner().invoke(command, color=True)
    assert "\x1b[31m\x1b[1mhead" in result.output
    shown = SGR.sub("", result.output)
    assert neutralise(shown) == shown
    assert all(word in shown for word in ("head", "text", "talk", "message", "hint"))
    red, cyan = (["\x1b[31m", "\x1b[1m", "\x1b[0m"], ["\x1b[36m", "\x1b[1m", "\x1b[0m"])
    assert SGR.findall(result.output) == [*red, *red, *cyan]


def test_data_for_programs_is_not_changed(capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    echo_data(HOSTILE, nl=False)
    assert capsysbinary.readouterr().out.decode() == HOSTILE


def test_data_on_a_terminal_is_neutralised(monkeypatch: pytest.MonkeyPatch) -> None:
    master, slave = os.openpty()
    with os.fdopen(slave, "w") as terminal:
        monkeypatch.setattr("sys.stdout", terminal)
        echo_data(f"a{HOSTILE}b")
        monkeypatch.undo()
    shown = os.read(master, 1000).decode()
    os.close(master)
    assert neutralise(shown) == shown.replace("\r\n", "\n")


@pytest.mark.parametrize("live", [True, False])
def test_talk_and_names_are_neutralised_and_output_is_not(live: bool) -> None:
    output, talk = io.BytesIO(), io.StringIO()
    screen = Screen(output, talk, coloured=False, live=live)
    name = f"worker{HOSTILE}-0"
    screen.add_name(name)
    screen.say(f"said {HOSTILE}")
    screen.show_status(f"status {HOSTILE}\nmore")
    screen.ask(f"question {HOSTILE}")
    screen.ask("")
    screen.show_progress(name, f"50 % {HOSTILE}\x1b[1A".encode())
    screen.write(name, [f"raw {HOSTILE}".encode()])
    screen.show_status("")
    own = re.compile(r"\r\x1b\[K|\x1b\[2m|\x1b\[0m")
    shown = own.sub("", talk.getvalue())
    assert neutralise(shown) == shown
    assert "said" in shown
    prefix, _, raw = output.getvalue().decode().partition(" | ")
    assert neutralise(prefix) == prefix
    assert raw.rstrip("\n").endswith("\u202e")
    assert "\x1b]0;t\x07" in raw
