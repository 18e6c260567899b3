"""FastMCP's client, with its tasks."""

import contextlib

from contract import Done, run
from fastmcp import Client as FastMCP
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from fastmcp_tasks.client import ToolTask, call_tool_task
from fastmcp_tasks.client_models import ClientCreateTaskResult


@contextlib.asynccontextmanager
async def connect(target, answer):
    async def elicit(message, response_type, params, context):
        return ElicitResult(action="accept", content=await answer(message))

    if "url" in target:
        transport = target["url"]
    else:
        command, *args = target["command"]
        transport = StdioTransport(command=command, args=args)
    async with FastMCP(transport, elicitation_handler=elicit) as client:
        yield Client(client)


class Client:
    patient = True

    def __init__(self, client):
        self.client = client

    async def call(self, tool, arguments):
        result = await self.client.call_tool(tool, arguments)
        return Done(None, result.content[0].text, result.structured_content, result.is_error)

    async def start(self, tool, arguments):
        task = await call_tool_task(self.client, tool, arguments, raise_on_error=False)
        return Task(task)

    async def resume(self, task):
        """It has no way to take a task up by its id, but a handle can be made of one."""
        seen = ClientCreateTaskResult(
            resultType="task", taskId=task, status="working", createdAt="", lastUpdatedAt=""
        )
        return Task(ToolTask(self.client, "order", seen, raise_on_error=False))


class Task:
    def __init__(self, task):
        self.task, self.id = task, task.task_id

    async def status(self):
        return (await self.task.status()).status

    async def cancel(self):
        await self.task.cancel()

    async def settle(self):
        result = await self.task.result()
        text = result.content[0].text
        return Done(await self.status(), text, result.structured_content, result.is_error)


run(connect)
