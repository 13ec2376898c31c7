"""Start a cluster of one node, say where its kubeconfig is, and stop it on Ctrl-C.

python -m support.node [IMAGE...]

The kubeconfig goes to standard output. Each image is imported into the node, and its name goes to standard
error: the node can reach no registry.
"""

import contextlib
import signal
import sys
import tempfile
from pathlib import Path

from support.cluster import IMAGES, cluster, why_not


def main() -> None:
    images = sys.argv[1:]
    if unknown := sorted(set(images) - set(IMAGES)):
        sys.exit(f"error: no image {unknown[0]}; there are: {', '.join(IMAGES)}")
    reason = why_not()
    if reason:
        sys.exit(f"error: {reason}")
    with tempfile.TemporaryDirectory() as folder, cluster(Path(folder)) as running:
        for image in images:
            print(running.image(image), file=sys.stderr, flush=True)
        print(running.kubeconfig, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
