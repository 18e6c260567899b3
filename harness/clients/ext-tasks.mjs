// @modelcontextprotocol/ext-tasks with @modelcontextprotocol/client, in both generations.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import {
  createApplicationInputHandler,
  createTaskSessionFromClient,
  toolDeclarationFromMcpTool,
} from "@modelcontextprotocol/ext-tasks/client";
import { run } from "./contract.mjs";

const MODERN = "2026-07-28";
const info = { name: "ext-tasks", version: "0.2.2" };
const capabilities = { elicitation: { form: {} } };

await run(async ({ generation, url, command }, answer) => {
  const modern = generation === MODERN;
  const client = new Client(info, {
    capabilities,
    ...(modern && { versionNegotiation: { mode: { pin: MODERN } } }),
  });
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url))
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  await client.connect(transport);

  const { tools } = await client.listTools();
  const declarations = new Map(tools.map((tool) => [tool.name, toolDeclarationFromMcpTool(tool)]));
  const endpointId = "steadfast-clients";
  const session = createTaskSessionFromClient(client, {
    endpointId,
    tools: { currentTool: (name) => declarations.get(name) },
    onInputRequest: createApplicationInputHandler({
      elicitation: ({ params }) => answer(params.message, params.requestedSchema),
    }),
    ...(modern && {
      rawDispatch: dispatcher(transport),
      v2RequestFraming: {
        protocolVersion: MODERN,
        clientInfo: info,
        clientCapabilities: capabilities,
      },
    }),
  });

  const task = (execution) => {
    const { taskId: id } = execution.handle;
    const controller = session.task(id);
    return {
      id,
      status: async () => (await controller.snapshot()).status,
      cancel: () => execution.cancel(),
      settle: async () => {
        const { status, result, error } = (await execution.settle()).outcome;
        return { status, result, error: error?.message };
      },
    };
  };
  return {
    call: async (tool, args) => {
      const execution = await session.callTool(tool, args);
      return (await execution.settle()).outcome.result;
    },
    start: async (tool, args) =>
      task(await session.callTool(tool, args, { task: { preference: "require" } })),
    resume: async (taskId) =>
      task(
        await session.resumeTask({
          endpointId,
          generation: modern ? "v2" : "v1",
          taskId,
          originalOperation: "tools/call",
        }),
      ),
    ...(!modern && {
      list: async () => (await session.listTasks()).tasks.map(({ taskId }) => taskId),
    }),
    close: async () => {
      await session.close();
      await client.close();
    },
  };
});

// The client itself knows no results that are tasks: in the new generation ext-tasks leaves it to its
// host to send its requests. They go over the client's own transport.
function dispatcher(transport) {
  const open = new Map();
  const others = transport.onmessage;
  transport.onmessage = (message, extra) => {
    const settle = open.get(message.id);
    if (!settle || message.method) return others(message, extra);
    open.delete(message.id);
    settle(message);
  };
  let count = 0;
  return async (request) => {
    const id = `ext-tasks-${++count}`;
    const response = new Promise((resolve) => open.set(id, resolve));
    await transport.send({ jsonrpc: "2.0", id, ...request });
    const { error, result } = await response;
    return error ? { kind: "error", error } : { kind: "result", result };
  };
}
