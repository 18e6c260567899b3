"""Python's mcp 1.x, with its experimental tasks."""

import contextlib
import warnings

import httpx
from contract import Done, run
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import ClientMessageMetadata

# Tasks are gone from mcp 2, and 1.30 says so.
warnings.simplefilter("ignore", DeprecationWarning)


@contextlib.asynccontextmanager
async def connect(target, answer, hear=lambda _: None):
    async def elicit(_, params):
        meta = params.meta and params.meta.model_extra or {}
        related = meta.get("io.modelcontextprotocol/related-task", {})
        content = await answer(params.message, related.get("taskId"))
        return types.ElicitResult(action="accept", content=content)

    async def notice(message):
        match message:
            case types.ServerNotification(root=types.LoggingMessageNotification(params=params)):
                hear(f"log: {params.data}")
            case types.ServerNotification(root=types.ProgressNotification(params=params)):
                hear(params.message)
            # A second response, say.
            case Exception():
                hear(str(message))

    taken_up = target.get("session")
    if "url" in target:
        http = None
        if taken_up:
            # It has no way of its own to take up a session.
            version = target["generation"]
            headers = {"Mcp-Session-Id": taken_up, "MCP-Protocol-Version": version}
            http = httpx.AsyncClient(headers=headers, timeout=None)
        transport = streamable_http_client(target["url"], http_client=http)
    else:
        command, *args = target["command"]
        transport = stdio_client(StdioServerParameters(command=command, args=args))
    handlers = {"elicitation_callback": elicit, "message_handler": notice}
    async with transport as (read, write, *session_id):
        async with ClientSession(read, write, **handlers) as session:
            if not taken_up:
                await session.initialize()
            yield Client(session, *session_id)


class Client:
    patient = False

    def __init__(self, session, session_id=None):
        self.client, self.session = session, session_id

    async def call(self, tool, arguments, keep=None, token=None):
        """What `call_tool` does; but that one has no way to say where a stream is taken up."""

        async def update(token):
            if keep:
                keep(token)

        async def progress(*_):
            """The handler of all messages hears it; without this it is not asked for."""

        params = types.CallToolRequestParams(name=tool, arguments=arguments)
        request = types.ClientRequest(types.CallToolRequest(params=params))
        stream = ClientMessageMetadata(resumption_token=token, on_resumption_token_update=update)
        kind = types.CallToolResult
        result = await self.client.send_request(request, kind, None, stream, progress)
        return Done(None, result.content[0].text, result.structuredContent, result.isError)

    async def start(self, tool, arguments):
        created = await self.client.experimental.call_tool_as_task(tool, arguments)
        return Task(self.client, created.task.taskId)

    async def resume(self, task):
        return Task(self.client, task)

    async def list(self):
        return [task.taskId for task in (await self.client.experimental.list_tasks()).tasks]


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
