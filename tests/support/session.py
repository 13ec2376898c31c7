"""A session with kubectl as data: steps that any kubectl plays on any server.

    - run: apply -f pod.yaml          # arguments, split as a shell would; files are beside the session
    - run: get pod missing
      code: 1                         # the exit code; 0 where nothing is said
    - run: get pods --watch
      background: watch=true          # goes on when this is in its output or among its logged requests
      as: watching
    - join: watching                  # waits for the end of a background step, or ...
      lines: 3                        # ... for so many lines, and ends it
    - run: get pod web -o jsonpath={.metadata.uid}
      save: UID                       # later steps may say $UID

`$SPACE` is the namespace of the session, `$NOW` when it began.
"""

import re
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from support.kubectl import Background, Kubectl, Result
from support.masking import mask

RETRY_SECONDS = 90
PAUSE_SECONDS = 0.1


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"name": "as"}):
    run: str = ""
    stdin: str = ""
    code: int = 0
    env: dict[str, str] = {}
    background: str = ""
    name: str = ""
    join: str = ""
    lines: int = 0
    save: str = ""
    retry: bool = False
    """Repeat until the exit code is as wanted: a real server publishes some things a moment later."""
    sort: bool = False
    """Compare sorted lines: the order is not promised."""
    squeeze: bool = False
    """Compare without the width of columns: there are lines that only one server has."""
    silent: bool = False
    """Compare nothing but the exit code."""


class Outcome(NamedTuple):
    step: str
    """Its arguments; numbered from the second time on."""
    text: str
    """The masked output, with the exit code where it was not the one expected."""


def load(path: Path) -> list[Step]:
    return msgspec.convert(yaml.safe_load(path.read_text()), list[Step])


class Player:
    """Plays steps with one kubectl in one namespace; files are read from `folder`."""

    def __init__(self, kubectl: Kubectl, namespace: str, folder: Path) -> None:
        self._kubectl, self._namespace, self._folder = kubectl, namespace, folder
        self._running: dict[str, Background] = {}
        self._saved = {"SPACE": namespace, "NOW": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}

    def play(self, steps: Iterable[Step]) -> Iterator[Outcome]:
        """Yield an outcome per step that is compared, in order; nothing runs on afterwards."""
        names: Counter[str] = Counter()
        try:
            for step in steps:
                name = step.run or f"join {step.join}"
                names[name] += 1
                result = self._try(step)
                if result is not None:
                    yield Outcome(name if names[name] == 1 else f"{name} #{names[name]}", _text(step, result))
        finally:
            for background in self._running.values():
                background.stop()

    def _try(self, step: Step) -> Result | None:
        try:
            return self._play(step)
        except TimeoutError as error:
            return Result(-1, "", f"{error}\n")

    def _play(self, step: Step) -> Result | None:
        if step.join:
            return self._join(step)
        # In front: the last one counts where a step names another namespace.
        arguments = ["--namespace", self._namespace, *shlex.split(self._filled(step.run))]
        if step.background:
            self._start(step, arguments)
            return None
        result = self._run(step, arguments)
        if step.save:
            self._saved[step.save] = result.stdout
        return result

    def _filled(self, text: str) -> str:
        for name, value in self._saved.items():
            text = text.replace(f"${name}", value)
        return text

    def _start(self, step: Step, arguments: list[str]) -> None:
        background = self._kubectl.start(arguments, cwd=self._folder)
        self._running[step.name] = background
        background.wait_until(
            lambda written: bool(re.search(step.background, written.stdout + written.stderr))
        )

    def _join(self, step: Step) -> Result:
        background = self._running.pop(step.join)
        if not step.lines:
            return background.finish()
        background.wait_until(lambda written: written.stdout.count("\n") >= step.lines)
        return background.stop()

    def _run(self, step: Step, arguments: list[str]) -> Result:
        deadline = time.monotonic() + RETRY_SECONDS
        while True:
            result = self._kubectl.run(
                arguments, stdin=self._filled(step.stdin), env=step.env, cwd=self._folder
            )
            if result.code == step.code or not step.retry or time.monotonic() > deadline:
                return result
            time.sleep(PAUSE_SECONDS)


def _text(step: Step, result: Result) -> str:
    unexpected = "" if result.code == step.code else f"(exit code {result.code}, not {step.code})\n"
    if step.silent and not unexpected:
        return ""
    return unexpected + "".join(_masked(part, step) for part in (result.stdout, result.stderr))


def _masked(output: str, step: Step) -> str:
    text = mask(output)
    if step.squeeze:
        text = re.sub(r" {2,}", "  ", text)
    return "\n".join(sorted(text.split("\n"))) if step.sort else text
