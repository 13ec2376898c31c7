"""The scripts run under whatever /bin/sh an image has."""

import subprocess

import pytest

from scripts.pods import SCRIPTS, need

NAMES = sorted(path.name for path in SCRIPTS.iterdir() if path.is_file() and not path.suffix)
PARSERS = [
    ("dash", "-n"),
    ("busybox", "sh", "-n"),
    ("bash", "--posix", "-n"),
    ("shellcheck", "-s", "sh", "-e", "SC2015"),  # A && B || { give up; } is meant
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parser", PARSERS, ids=lambda parser: parser[0])
def test_script_is_plain_posix_shell(parser: tuple[str, ...], name: str) -> None:
    need(parser[0])
    result = subprocess.run([*parser, SCRIPTS / name], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
