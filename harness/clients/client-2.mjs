// @modelcontextprotocol/client 2.x by itself, which knows no tasks, in both generations.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { run } from "./contract.mjs";

const MODERN = "2026-07-28";

await run(async ({ generation, url, session }, answer, hear) => {
  const client = new Client(
    { name: "client-2", version: "2.4" },
    {
      capabilities: { elicitation: { form: {} } },
      ...(generation === MODERN && { versionNegotiation: { mode: { pin: MODERN } } }),
    },
  );
  client.setRequestHandler("elicitation/create", ({ params }) =>
    answer(params.message, params.requestedSchema),
  );
  client.setNotificationHandler("notifications/message", ({ params }) =>
    hear(`log: ${params.data}`),
  );
  const onprogress = ({ message }) => hear(message);
  // It knows progress by the number of the request, which was another in the process that began it.
  if (session)
    client.setNotificationHandler("notifications/progress", ({ params }) => onprogress(params));
  // A second response, say.
  client.onerror = ({ message }) => message.includes("unknown") && hear(message);
  const transport = new StreamableHTTPClientTransport(new URL(url), { sessionId: session });
  await client.connect(transport);
  return {
    call: (name, args, { keep: onresumptiontoken, token: resumptionToken } = {}) => {
      const options = { onprogress, onresumptiontoken, resumptionToken };
      return client.callTool({ name, arguments: args }, options);
    },
    session: () => transport.sessionId,
    close: () => client.close(),
  };
});
