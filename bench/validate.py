"""How long `bireme validate` takes on a file of 1,000 lines and 20 documents."""

import tempfile
from pathlib import Path

from bench.measurement import BIN, Result, medians

LIMIT_MILLISECONDS = 250
DOCUMENTS, LINES = 20, 1000


def manifest() -> str:
    """Twenty jobs, padded with environment variables to fifty lines each."""
    documents = []
    for index in range(DOCUMENTS):
        head = f"""\
apiVersion: batch.tensorstack.dev/v1beta1
kind: GenericJob
metadata:
  name: job-{index}
spec:
  service:
    ports:
      - name: http
        port: 8080
  successRules:
    - worker: [0, 1]
  replicaSpecs:
    - type: worker
      replicas: 4
      template:
        spec:
          containers:
            - name: main
              image: registry.example/main:{index}
              command: ["run", "--rank", "$(rank)", "--of", "$(replicas[worker])"]
              resources:
                requests: {{cpu: 500m, memory: 1.5Gi}}
              env:
"""
        lines = head.splitlines()
        while len(lines) < LINES // DOCUMENTS - 2:
            lines += [
                f"                - name: VARIABLE_{len(lines)}",
                "                  value: $(service.worker[0].host)",
            ]
        lines = lines[: LINES // DOCUMENTS - 1 - (LINES // DOCUMENTS - 1 - 23) % 2]
        documents.append("\n".join(lines))
    text = "\n---\n".join(documents)
    return text + "\n" + "\n".join("# the rest" for _ in range(LINES - text.count("\n") - 1)) + "\n"


def measure(*, runs: int = 11) -> list[Result]:
    """The whole command less the start of the command line, imports of its own included."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "jobs.yaml")
        file.write_text(manifest())
        whole, start = medians(
            [[BIN / "bireme", "validate", "-f", file], [BIN / "bireme", "--version"]], runs=runs
        )
    note = f"whole command {whole * 1000:.0f} ms"
    name = f"bireme validate, {LINES:,} lines, {DOCUMENTS} documents, after start-up"
    return [Result(name, (whole - start) * 1000, LIMIT_MILLISECONDS, "ms", note)]
