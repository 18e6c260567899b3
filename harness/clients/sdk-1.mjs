// @modelcontextprotocol/sdk 1.x, with its experimental tasks.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  CallToolResultSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
  ProgressNotificationSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { run } from "./contract.mjs";

await run(async ({ url, command, session }, answer, hear) => {
  const client = new Client(
    { name: "sdk-1", version: "1.32" },
    { capabilities: { elicitation: { form: {} } } },
  );
  client.setRequestHandler(ElicitRequestSchema, ({ params }) =>
    answer(params.message, params.requestedSchema),
  );
  client.setNotificationHandler(LoggingMessageNotificationSchema, ({ params }) =>
    hear(`log: ${params.data}`),
  );
  const onprogress = hear && (({ message }) => hear(message));
  // It knows progress by the number of the request, which was another in the process that began it.
  if (session)
    client.setNotificationHandler(ProgressNotificationSchema, ({ params }) => onprogress(params));
  // A second response, say.
  client.onerror = ({ message }) => message.includes("unknown") && hear?.(message);
  const transport = url
    ? new StreamableHTTPClientTransport(new URL(url), { sessionId: session })
    : new StdioClientTransport({ command: command[0], args: command.slice(1) });
  await client.connect(transport);
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
    call: (name, args, { keep: onresumptiontoken, token: resumptionToken } = {}) => {
      const options = { onprogress, onresumptiontoken, resumptionToken };
      return client.callTool({ name, arguments: args }, undefined, options);
    },
    session: () => transport.sessionId,
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
