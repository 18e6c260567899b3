"""Python's mcp 1.x, with its experimental tasks."""

import contextlib
import warnings

from contract import Done, run
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

# Tasks are gone from mcp 2, and 1.30 says so.
warnings.simplefilter("ignore", DeprecationWarning)


@contextlib.asynccontextmanager
async def connect(target, answer):
    async def elicit(_, params):
        related = params.meta.model_extra["io.modelcontextprotocol/related-task"]
        content = await answer(params.message, related["taskId"])
        return types.ElicitResult(action="accept", content=content)

    if "url" in target:
        transport = streamable_http_client(target["url"])
    else:
        command, *args = target["command"]
        transport = stdio_client(StdioServerParameters(command=command, args=args))
    async with transport as (read, write, *_):
        async with ClientSession(read, write, elicitation_callback=elicit) as session:
            await session.initialize()
            yield Client(session)


class Client:
    patient = False

    def __init__(self, session):
        self.session = session

    async def call(self, tool, arguments):
        return (await self.session.call_tool(tool, arguments)).content[0].text

    async def start(self, tool, arguments):
        created = await self.session.experimental.call_tool_as_task(tool, arguments)
        return Task(self.session, created.task.taskId)

    async def resume(self, task):
        return Task(self.session, task)

    async def list(self):
        return [task.taskId for task in (await self.session.experimental.list_tasks()).tasks]


class Task:
    def __init__(self, session, id):
        self.tasks, self.id = session.experimental, id

    async def status(self):
        return (await self.tasks.get_task(self.id)).status

    async def cancel(self):
        await self.tasks.cancel_task(self.id)

    async def settle(self):
        async for _ in self.tasks.poll_task(self.id):
            pass
        result = await self.tasks.get_task_result(self.id, types.CallToolResult)
        text = result.content[0].text
        return Done(await self.status(), text, result.structuredContent, result.isError)


run(connect)
