"""FastMCP with its tasks extension on Redis and one tool of three trivial steps, as a peer.

    python server.py REDIS_URL

Each process has a worker of its own, as it comes. Any number of them may share a Redis: they work off
one queue, and each answers for the tasks of all.
"""

import socket
import sys

import uvicorn
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension

# As it comes a worker has ten tasks at a time, and redis-py a hundred connections: with 64 clients tasks
# would wait for the one, and calls fail for want of the other.
TASKS = 64
CONNECTIONS = 1000

mcp = FastMCP("bench")
mcp.add_extension(
    TasksExtension(url=f"{sys.argv[1]}?max_connections={CONNECTIONS}", concurrency=TASKS)
)


async def step(n: int) -> int:
    return n + 1


# FastMCP records that a task waits, runs and has ended, with its result, and nothing in between: a task
# that is interrupted begins anew. Writing progress to Redis at each step would come closest to a record of
# steps, but could not be gone on from, and is not asked of it.
@mcp.tool(task=True)
async def three(n: int) -> str:
    a = await step(n)
    b = await step(a)
    return str(await step(b))


class Server(uvicorn.Server):
    """Says where it is when it is ready."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for listener in sockets or []:
            host, port = listener.getsockname()
            print(f"http://{host}:{port}/mcp", flush=True)


if __name__ == "__main__":
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    # The cheapest it can do: no event streams, no sessions, no log of requests.
    app = mcp.http_app(json_response=True, stateless_http=True)
    Server(uvicorn.Config(app, access_log=False, log_level="warning")).run(sockets=[listener])
