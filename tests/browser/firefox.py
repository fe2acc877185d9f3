"""Start Firefox for Playwright, and stand between the two where they do not understand each other.

Playwright drives a Firefox of the system over WebDriver BiDi and waits for the address that it
prints. It sets the media features of every context, which firefox-esr refuses as an unknown
command, and it does not see downloads that a script begins. All else is passed on.

Usage, as Playwright's `executable_path`: python firefox.py PROGRAM [ARGUMENT …]
"""

from __future__ import annotations

import asyncio
import json
import re
import sys

from websockets.asyncio.client import ClientConnection, connect
from websockets.asyncio.server import ServerConnection, serve

_UNKNOWN = {"emulation.setMediaFeaturesOverride"}
_ADDRESS = re.compile(r"WebDriver BiDi listening on (ws://\S+)")


async def main(command: list[str]) -> int:
    firefox = await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.PIPE)
    assert firefox.stderr
    address = ""
    while not address:
        line = (await firefox.stderr.readline()).decode()
        if not line:
            return await firefox.wait()
        if found := _ADDRESS.search(line):
            address = found[1]
        else:
            print(line, end="", file=sys.stderr)

    async def follow(driver: ServerConnection) -> None:
        assert driver.request
        async with connect(address + driver.request.path, max_size=None) as browser:
            await _pass_on(driver, browser)

    async with serve(follow, "127.0.0.1", 0, max_size=None) as server:
        port = server.sockets[0].getsockname()[1]
        print(f"WebDriver BiDi listening on ws://127.0.0.1:{port}", file=sys.stderr, flush=True)
        async for _ in firefox.stderr:
            pass  # a full pipe would stop the browser
        return await firefox.wait()


def _name_download(message: str | bytes) -> str | bytes:
    """Give a download that a script began the id that Playwright waits for: its URL."""
    said = json.loads(message)
    if said.get("method") not in {
        "browsingContext.downloadWillBegin",
        "browsingContext.downloadEnd",
    }:
        return message
    said["params"]["navigation"] = said["params"]["navigation"] or said["params"]["url"]
    return json.dumps(said)


async def _pass_on(driver: ServerConnection, browser: ClientConnection) -> None:
    async def send_replies() -> None:
        async for message in browser:
            await driver.send(_name_download(message))
        await driver.close()

    replies = asyncio.create_task(send_replies())
    async for message in driver:
        said = json.loads(message)
        if said["method"] in _UNKNOWN:
            await driver.send(json.dumps({"type": "success", "id": said["id"], "result": {}}))
        else:
            await browser.send(message)
    replies.cancel()


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
