// @modelcontextprotocol/sdk 1.x, with its experimental tasks.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { CallToolResultSchema, ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { run } from "./contract.mjs";

await run(async ({ url, command }, answer) => {
  const client = new Client(
    { name: "sdk-1", version: "1.32" },
    { capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler(ElicitRequestSchema, ({ params }) =>
    answer(params.message, params.requestedSchema),
  );
  await client.connect(
    url
      ? new StreamableHTTPClientTransport(new URL(url))
      : new StdioClientTransport({ command: command[0], args: command.slice(1) }),
  );
  const { tasks } = client.experimental;
  // It checks results against the schemas of the tools that it knows.
  await client.listTools();

  const task = (id) => ({
    id,
    status: async () => (await tasks.getTask(id)).status,
    cancel: () => tasks.cancelTask(id),
    settle: async () => {
      const result = await tasks.getTaskResult(id, CallToolResultSchema);
      return { status: (await tasks.getTask(id)).status, result };
    },
  });
  return {
    call: (name, args) => client.callTool({ name, arguments: args }),
    start: async (name, args) => {
      const stream = tasks.callToolStream({ name, arguments: args }, undefined, { task: {} });
      // The rest of the stream would poll, and wait for the result.
      const { value } = await stream.next();
      if (value.type !== "taskCreated") throw new Error(`not a task: ${JSON.stringify(value)}`);
      return task(value.task.taskId);
    },
    resume: task,
    list: async () => (await tasks.listTasks()).tasks.map(({ taskId }) => taskId),
    close: () => client.close(),
  };
});
