"""HTTP servers that do not tell what they are made of.

aiohttp adds a header `Server` with its own version and Python's to each answer, also before any login. It has
no option to leave it out.
"""

from typing import Any

from aiohttp import web


def omit_server_header(server: web.Server | None) -> None:
    """Let no answer of a server have the header `Server`, not even that to a line that is no HTTP.

    Call it before the first connection is accepted.
    """
    assert server is not None, "the runner is set up"
    make = server.request_factory

    def make_request(*args: Any, **kwargs: Any) -> Any:
        request: Any = make(*args, **kwargs)
        # aiohttp calls it once the headers of an answer are complete. The signal on_response_prepare is
        # called from here, but only for requests that could be read, and only in applications.
        hook = request._prepare_hook

        async def prepare(response: web.StreamResponse) -> None:
            response.headers.popall("Server", None)
            await hook(response)

        request._prepare_hook = prepare
        return request

    server.request_factory = make_request
