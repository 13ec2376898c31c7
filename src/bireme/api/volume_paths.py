"""Rules for the paths that pods name in their volumes and mounts.

Kubernetes has three of them. Each function returns what is wrong with a path, in the words of kube-apiserver;
nothing if it is fine.

    no_backsteps   hostPath: may be absolute, no element is `..`
    descending     subPath: also relative
    unreserved     files of a volume: also does not begin with `..`, as the names that a kubelet uses itself

They are checked three times: by admission, so that the author of a job hears of it; by the embedded API
server, for pods that are created by hand; and by the node before it writes, which trusts neither.
"""

from typing import Final

LARGEST_MODE: Final = 0o777
MODE_RULE: Final = "must be a number between 0 and 0777 (octal), both inclusive"


def no_backsteps(path: str) -> list[str]:
    return ["must not contain '..'"] if ".." in path.split("/") else []


def descending(path: str) -> list[str]:
    absolute = ["must be a relative path"] if path.startswith("/") else []
    return absolute + no_backsteps(path)


def unreserved(path: str) -> list[str]:
    problems = descending(path)
    if path.startswith("..") and not path.startswith("../"):
        problems.append("must not start with '..'")
    return problems


def is_file_mode(mode: object) -> bool:
    return isinstance(mode, int) and 0 <= mode <= LARGEST_MODE
