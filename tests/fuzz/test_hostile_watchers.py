"""Clients that ask for a watch and go at once, while others write: nothing of them stays."""

import asyncio
from pathlib import Path

from bireme.apiserver.kinds import CONFIG_MAP
from bireme.run.apiserver import Options, serving
from support.server_process import read_address
from support.wire import Address, Wire

MAPS = "/api/v1/namespaces/default/configmaps"
WATCHERS, WRITES = 150, 100


async def _watch_and_go(address: Address, patience: int) -> None:
    async with await Wire.open(address) as wire:
        await wire.send(wire.request("GET", f"{MAPS}?watch=true"))
        for _ in range(patience):
            await asyncio.sleep(0)


async def _write(address: Address) -> None:
    async with await Wire.open(address) as wire:
        for number in range(WRITES):
            assert (await wire.ask("POST", MAPS, {"metadata": {"name": f"n{number}"}})).code == 201


def test_a_watcher_that_goes_at_once_is_forgotten(tmp_path: Path) -> None:
    async def main() -> None:
        async with serving(Options(tmp_path / "data")) as running:
            address = read_address(tmp_path / "data")
            watches = (_watch_and_go(address, patience % 7) for patience in range(WATCHERS))
            await asyncio.gather(_write(address), *watches)
            history = running.backend.store._tables[CONFIG_MAP].history
            async with asyncio.timeout(90):
                while history._watchers:
                    await asyncio.sleep(0)

    asyncio.run(main())
