"""What a shim has on record: it survives the shim in a file, and the daemon in the shim."""

import json
import os
from typing import Any


def boot_id() -> str:
    """Changes with each start of the machine: pids of before mean nothing then."""
    with open("/proc/sys/kernel/random/boot_id") as file:  # noqa: PTH123
        return file.read().strip()


class Records:
    """The state of a pod's processes, written down at each change."""

    def __init__(self, folder: str, pid: int, start: int) -> None:
        self._path = f"{folder}/state.json"
        self.is_saved = True
        """Whether the file is up to date. On a full disk it may be behind."""
        self.state: dict[str, Any] = {
            "shim": {"pid": pid, "start": start, "boot": boot_id()},
            "containers": {},
        }

    @property
    def containers(self) -> dict[str, dict[str, Any]]:
        containers: dict[str, dict[str, Any]] = self.state["containers"]
        return containers

    def save(self) -> None:
        """Put the whole file in place at once. If the disk is full, the caller has to try again."""
        temporary = f"{self._path}.new"
        try:
            with open(temporary, "w") as file:  # noqa: PTH123
                json.dump(self.state, file)
            os.replace(temporary, self._path)  # noqa: PTH105
            self.is_saved = True
        except OSError:
            self.is_saved = False
