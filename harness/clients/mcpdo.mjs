// mcpdo, the shell client of the Inspector: each command is a process, a daemon holds the connections.
//
// Its tools/call follows a task to the end by itself and does not say its id. So the id comes from the
// list of tasks on a second connection, of 2025-11-25, because later ones have no list.
import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { run } from "./contract.mjs";

const OLD = "2025-11-25";
const here = dirname(fileURLToPath(import.meta.url));
const build = join(here, "node_modules/@modelcontextprotocol/inspector/clients/mcpdo/build");

await run(async ({ generation, url, command }, answer) => {
  const old = generation === OLD;
  const { daemon, mcpdo } = await startDaemon();
  const connect = (name, era) => {
    const to = url ? ["--transport", "http", url] : ["--transport", "stdio", "--", ...command];
    return mcpdo(name, "connect", "--era", era, ...to);
  };
  await connect("calls", old ? "legacy" : "modern");
  await connect("looks", old ? "legacy" : "modern");
  await connect("lists", "legacy");

  // Answers what a command came back with, until it comes back with a result.
  const answered = async (said) => {
    while (said.elicitationPending) {
      const { elicitationId, message, requestedSchema } = said.elicitationPending;
      const { content } = await answer(message, requestedSchema);
      said = await mcpdo("calls", "elicitation/respond", elicitationId, JSON.stringify(content));
    }
    return said;
  };
  const list = async () => (await mcpdo("lists", "tasks/list")).tasks.map(({ taskId }) => taskId);
  const known = new Set(await list());
  const get = async (id) => (await mcpdo("looks", "tasks/get", id)).task;
  const task = (id, end) => ({
    id,
    status: async () => (await get(id)).status,
    cancel: () => mcpdo("looks", "tasks/cancel", id),
    settle: async () => {
      const said = await end();
      const { status } = await get(id);
      return said.error ? { status, error: said.error.message } : { status, result: said };
    },
  });
  return {
    call: (tool, args) => mcpdo("calls", "tools/call", tool, JSON.stringify(args)),
    start: async (tool, args) => {
      const call = mcpdo("calls", "tools/call", "--task", tool, JSON.stringify(args));
      // Nobody may come back for it.
      call.catch(() => {});
      for (;;) {
        const id = (await list()).find((id) => !known.has(id));
        if (id) {
          known.add(id);
          return task(id, async () => answered(await call));
        }
      }
    },
    resume: async (id) =>
      task(id, async () => {
        if (old) return answered(await mcpdo("calls", "tasks/result", id));
        const responses = {};
        for (const [key, { params }] of Object.entries((await get(id)).raw.inputRequests))
          responses[key] = await answer(params.message, params.requestedSchema);
        const update = JSON.stringify(responses);
        await mcpdo("calls", "tasks/update", id, "--input-responses", update);
        return mcpdo("calls", "tasks/result", id);
      }),
    list,
    close: () => daemon.kill(),
  };
});

// A daemon of our own, that ends with this process: mcpdo's would stay.
async function startDaemon() {
  const dir = await mkdtemp(join(tmpdir(), "mcpdo-"));
  const env = {
    ...process.env,
    MCP_INSPECTOR_DAEMON_DIR: dir,
    MCP_INSPECTOR_DAEMON_TOKEN: "0123456789abcdef0123456789abcdef",
    MCP_INSPECTOR_SECRET_STORE: "memory",
    MCP_STORAGE_DIR: dir,
  };
  const daemon = spawn(process.execPath, [join(build, "mcpdod.js")], { env, stdio: "ignore" });
  await once(daemon, "spawn");
  const mcpdo = (connection, ...words) => {
    const args = [join(build, "mcp-bin.js"), "--format", "json", "--connection", connection];
    return new Promise((resolve, reject) =>
      execFile(process.execPath, [...args, ...words], { env }, (error, out, err) => {
        try {
          resolve(JSON.parse(out || err));
        } catch {
          reject(new Error(`mcpdo ${words.join(" ")}: ${error} ${out} ${err}`));
        }
      }),
    );
  };
  while ((await mcpdo("none", "daemon", "status")).running === false);
  return { daemon, mcpdo };
}
