"""ColossalAIJob: torchrun on every worker, started by a launcher that knows which of them failed."""

import shlex
from collections.abc import Sequence
from typing import Final

from bireme.api.colossalai import LAUNCHER_CONTAINER, WORKER_CONTAINER, ColossalAIJob
from bireme.api.names import WORKER_TYPE
from bireme.planning.actions import Manifest
from bireme.planning.launch import LaunchCrew, launcher_debug, launcher_resume
from bireme.planning.observed import Observed
from bireme.planning.pods import in_debug
from bireme.planning.replicas import Mode
from bireme.planning.site import (
    Site,
    build_children,
    build_hostfile,
    literal,
    node_affinity,
    small_resources,
)
from bireme.planning.ssh import LAUNCHER_KEYS

_FROM_POD: Final = (
    "automountServiceAccountToken", "dnsConfig", "dnsPolicy", "enableServiceLinks", "hostAliases",
    "hostNetwork", "hostUsers", "imagePullSecrets", "nodeSelector", "os", "preemptionPolicy",
    "priorityClassName", "runtimeClassName", "securityContext", "serviceAccount", "serviceAccountName",
    "terminationGracePeriodSeconds", "tolerations",
)  # fmt: skip


_RESUMED: Final = "BIREME_RESUMED"
"""Set for the launcher of a resumed job, and by it for torchrun's arguments on the workers."""


class ColossalAICrew(LaunchCrew):
    """The launcher and workers of a ColossalAIJob."""

    main_container = WORKER_CONTAINER
    launcher_container = LAUNCHER_CONTAINER

    def __init__(self, job: ColossalAIJob) -> None:
        worker = job.spec.worker
        super().__init__(job, worker.replicas, worker.template, worker.proc_per_worker)
        self._colossal = job

    def site(self, observed: Observed) -> Site:
        ssh = self._colossal.spec.ssh
        return Site(
            self._colossal,
            observed,
            folder=ssh.auth_mount_path,
            sshd=ssh.sshd_path,
            main=self.main(WORKER_TYPE),
        )

    def children(self, observed: Observed) -> list[Manifest]:
        files = {
            "hostfile": build_hostfile(self._colossal, self._workers, self._slots),
            "torchrun.args": self.torchrun_file(),
        }
        return build_children(self.site(observed), observed, files, ["launch", "torch-launch", "torch-node"])

    def worker_of(self, rank: int) -> int | None:
        return rank // self._slots

    def torchrun_file(self) -> str:
        """What torchrun is given, as words that a shell reads back; it travels as a file."""
        worker = self._colossal.spec.worker
        nproc = f"BIREME_NPROC={worker.proc_per_worker}\n"
        ordinary = f"set -- {_words((*worker.torch_args, *worker.command))}\n"
        resume = launcher_resume(self._colossal.spec.run_mode)
        if resume is None or resume.command or not resume.args:
            return nproc + ordinary
        # The launcher says which: a ConfigMap changes too late for the pods that go on after a pause.
        resumed = f"set -- {_words((*worker.torch_args, *resume.args))}\n"
        return f'{nproc}if [ -n "${{{_RESUMED}:-}}" ]; then\n{resumed}else\n{ordinary}fi\n'

    def launcher_spec(self, observed: Observed, mode: Mode) -> Manifest:
        site, spec = self.site(observed), self._colossal.spec
        command = site.sh("torch-launch")
        resume = launcher_resume(spec.run_mode) if mode == "resume" else None
        if resume is not None and resume.command:
            command = [*site.sh("launch", "--exec"), *literal([*resume.command, *resume.args])]
        container = self._container(site, observed, command, is_resumed=mode == "resume")
        pod = self._template.get("spec") or {}
        built: Manifest = {key: pod[key] for key in _FROM_POD if key in pod} | node_affinity(pod)
        built["initContainers"] = site.init_containers(container)
        built["containers"] = [container]
        built["volumes"] = site.volumes(LAUNCHER_KEYS, container, server=False)
        if mode == "debug":
            return in_debug(built, launcher_debug(spec.run_mode).command, skip_init=False)
        return built

    def _container(self, site: Site, observed: Observed, command: list[str], *, is_resumed: bool) -> Manifest:
        launcher, pod = self._colossal.spec.launcher, self._template.get("spec") or {}
        main = next(c for c in pod["containers"] if c.get("name") == self.main("worker"))
        own = [variable["name"] for variable in launcher.env]
        passed = [*own, _RESUMED] if is_resumed else own
        env = [*launcher.env, *site.env(), {"name": "BIREME_ENV_NAMES", "value": " ".join(passed)}]
        env += [{"name": _RESUMED, "value": "1"}] if is_resumed else []
        env += _meeting_place(site, observed)
        if launcher.working_dir:
            env.append({"name": "BIREME_WORKDIR", "value": launcher.working_dir})
        container: Manifest = {
            "name": LAUNCHER_CONTAINER,
            "image": launcher.image or main.get("image", ""),
            "command": command,
            "env": env,
            "resources": launcher.resources or small_resources(main.get("resources") or {}),
            "volumeMounts": site.mounts({"securityContext": main.get("securityContext")}, server=False),
        }
        for field in ("imagePullPolicy", "securityContext"):
            if field in main:
                container[field] = main[field]
        return container


def _words(words: Sequence[str]) -> str:
    return " ".join(shlex.quote(word) for word in words)


def _meeting_place(site: Site, observed: Observed) -> list[Manifest]:
    """Where the ranks meet. Pods that share a machine's network share its ports: then it is a free one."""
    port = {"name": "BIREME_PORT", "value": str(observed.settings.torch_port)}
    if site.uses_ssh:
        return [port]
    return [{"name": "BIREME_MASTER_HOST", "value": "127.0.0.1"}, port | {"value": "free"}]
