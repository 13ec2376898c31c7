"""Hooks and probes of a pod's containers: asked as ordered, and told of when they fail."""

from collections.abc import Callable, Coroutine
from datetime import datetime
from typing import Any, Protocol

from bireme.kube.client import Client
from bireme.node import probes
from bireme.node.ailments import Report, blame, report_hook, report_probe
from bireme.node.dealings import ContainerOrder, finish_hook, note
from bireme.node.folders import PodFolder
from bireme.node.handlers import run_handler
from bireme.node.networks import Networks
from bireme.node.notices import report
from bireme.node.orders import RunHook, RunProbe
from bireme.node.seen import Dealings, Object


class Patient(Protocol):
    """Whose containers are cared for."""

    folder: PodFolder

    @property
    def pod(self) -> Object: ...

    def container_spec(self, name: str) -> Object: ...

    def runs(self, container: str) -> bool: ...

    def errand(self, work: Coroutine[Any, Any, None]) -> None: ...

    def wake(self) -> None: ...


class Care:
    """What was done for each container, and what came of it."""

    def __init__(
        self, patient: Patient, client: Client, networks: Networks, now: Callable[[], datetime]
    ) -> None:
        self._patient, self._client, self._networks, self._now = patient, client, networks, now
        self.dealings: dict[str, Dealings] = {}
        self._blamed: dict[tuple[str, int], str] = {}

    def blame(self, container: str, attempt: int) -> str:
        """Why an attempt at a container was ended, if a probe or hook was the reason."""
        return self._blamed.get((container, attempt), "")

    def note(self, order: ContainerOrder) -> None:
        self.dealings[order.container] = note(self.dealings.get(order.container), order, self._now())

    def run_hook(self, order: RunHook) -> None:
        async def errand() -> None:
            error = await self._handle(order.container, order.handler, None)
            if (known := self._dealings_with(order)) is not None:
                self.dealings[order.container] = finish_hook(known, order.hook, self._now(), error)
                if error:
                    self._report(order, report_hook(order.hook, error))
            self._patient.wake()

        self._patient.errand(errand())

    def run_probe(self, order: RunProbe) -> None:
        probe = self._patient.container_spec(order.container)[order.probe]

        async def errand() -> None:
            error = await self._handle(order.container, probe, probe.get("timeoutSeconds", 1))
            if (known := self._dealings_with(order)) is not None:
                made = probes.finish(known, order.probe, probe, not error)
                self.dealings[order.container] = made
                if error:
                    past = probes.history(made, order.probe)
                    again = self._patient.pod["spec"].get("restartPolicy") != "Never"
                    self._report(order, report_probe(order, error, past, restarts=again))
            self._patient.wake()

        self._patient.errand(errand())

    def _report(self, order: RunHook | RunProbe, reports: tuple[Report, ...]) -> None:
        """Tell what ails a container; one that has ended meanwhile is asked in vain, and not ill."""
        if reports and self._patient.runs(order.container):
            self._blamed |= {(order.container, order.attempt): why} if (why := blame(reports)) else {}
            told = report(self._client, self._patient.pod, order.container, reports, self._now())
            self._patient.errand(told)

    async def _handle(self, container: str, handler: Object, timeout_seconds: float | None) -> str:
        patient = self._patient
        spec, address = patient.container_spec(container), self._networks.address(patient.pod)
        return await run_handler(patient.folder, spec, address, handler, timeout_seconds)

    def _dealings_with(self, order: RunHook | RunProbe) -> Dealings | None:
        """Those of the order's own attempt; None if there was another since."""
        known = self.dealings.get(order.container)
        return known if known is not None and known.attempt == order.attempt else None
