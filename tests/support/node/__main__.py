"""Start a cluster of one node, say where its kubeconfig is, and stop it on Ctrl-C."""

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from support.cluster import cluster, why_not


def main() -> None:
    reason = why_not()
    if reason:
        sys.exit(f"error: {reason}")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        print(running.kubeconfig, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
