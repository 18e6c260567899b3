// A check that lets everything pass proves nothing: broken messages must not.

import { wrongs } from "./validate.mjs";

const response = (result) => ({ jsonrpc: "2.0", id: 1, result });
const said = (method, params) => ({ jsonrpc: "2.0", method, params });
const times = { createdAt: "2026-01-01T00:00:00Z", lastUpdatedAt: "2026-01-01T00:00:00Z" };
const old = { taskId: "t", status: "working", ...times, ttl: null };
const task = { taskId: "t", status: "working", ...times, ttlMs: null };
const text = { type: "text", text: "x" };
const complete = { resultType: "complete" };

/** Good messages, each with ways to break it. */
const CASES = [
  ["2025-11-25", "tools/call", response({ content: [text] }), {
    "no content": (m) => delete m.result.content,
    "a block without its text": (m) => delete m.result.content[0].text,
    "an unknown kind of block": (m) => (m.result.content[0].type = "song"),
    "a field nobody knows": (m) => (m.result.more = 1),
    "no frame": (m) => delete m.jsonrpc,
    "an id that is no id": (m) => (m.id = null),
  }],
  ["2025-11-25", "tools/call", response({ task: old }), {
    "no ttl": (m) => delete m.result.task.ttl,
    "a status nobody knows": (m) => (m.result.task.status = "running"),
    "the words of the other generation": (m) => (m.result.task.ttlMs = 1),
    "a fraction": (m) => (m.result.task.pollInterval = 1.5),
  }],
  ["2025-11-25", "tasks/get", response(old), {
    "no time": (m) => delete m.result.createdAt,
    "a field nobody knows": (m) => (m.result.result = {}),
  }],
  ["2025-11-25", undefined, said("notifications/tasks/status", old), {
    "no id": (m) => delete m.params.taskId,
    "of another revision": (m) => (m.method = "notifications/tasks"),
  }],
  ["2025-06-18", undefined, { ...said("elicitation/create", { message: "?", requestedSchema: { type: "object", properties: {} } }), id: "a" }, {
    "no schema": (m) => delete m.params.requestedSchema,
    "a field of a later revision": (m) => (m.params.mode = "form"),
  }],
  ["2026-07-28", "tools/call", response({ ...complete, content: [text] }), {
    "no type of result": (m) => delete m.result.resultType,
    "another type of result": (m) => (m.result.resultType = "done"),
    "a field nobody knows": (m) => (m.result.more = 1),
  }],
  ["2026-07-28", "tools/call", response({ resultType: "task", ...task }), {
    "no ttl": (m) => delete m.result.ttlMs,
    "wrapped as before": (m) => (m.result = { resultType: "task", task }),
    "a field nobody knows": (m) => (m.result.ttl = 1),
  }],
  ["2026-07-28", "tasks/get", response({ ...complete, ...task, status: "input_required", inputRequests: { a: { method: "roots/list" } } }), {
    "no questions": (m) => delete m.result.inputRequests,
    "a question that is none": (m) => (m.result.inputRequests.a = { method: "ping" }),
    "no type of result": (m) => delete m.result.resultType,
  }],
  ["2026-07-28", "tasks/get", response({ ...complete, ...task, status: "completed", result: { content: [] } }), {
    "no result": (m) => delete m.result.result,
    "a result that is none": (m) => (m.result.result = { content: "x" }),
    "an error as well": (m) => (m.result.error = { code: 1, message: "x" }),
  }],
  ["2026-07-28", "tools/list", response({ ...complete, tools: [{ name: "a", inputSchema: { type: "object" } }], ttlMs: 1, cacheScope: "private" }), {
    "a tool without a schema": (m) => delete m.result.tools[0].inputSchema,
    "a field of an earlier revision": (m) => (m.result.tools[0].execution = {}),
    "no word of how long it holds": (m) => delete m.result.ttlMs,
  }],
  ["2026-07-28", undefined, said("notifications/tasks", task), {
    "no status": (m) => delete m.params.status,
    "a field nobody knows": (m) => (m.params.more = 1),
  }],
  ["2026-07-28", "tasks/update", response({ ...complete }), {
    "something in it": (m) => (m.result.taskId = "t"),
    "no type of result": (m) => delete m.result.resultType,
  }],
  ["2026-07-28", "tools/call", { jsonrpc: "2.0", id: 1, error: { code: -32021, message: "x", data: { requiredCapabilities: {} } } }, {
    "a code that is no number": (m) => (m.error.code = "x"),
    "no word of what is missing": (m) => delete m.error.data,
  }],
  ["2026-07-28", "ping", { jsonrpc: "2.0", id: 1, error: { code: -32601, message: "x" } }, {
    "a result, where there is no such method": (m) => (delete m.error, (m.result = { ...complete })),
  }],
];

export function selfTest() {
  for (const [revision, asked, good, breaks] of CASES) {
    const name = `${revision} ${asked ?? good.method}`;
    const wrong = wrongs({ revision, asked, message: good });
    if (wrong.length > 0) throw new Error(`self-test: ${name} is good: ${wrong.join("; ")}`);
    for (const [how, spoil] of Object.entries(breaks)) {
      const message = structuredClone(good);
      spoil(message);
      if (wrongs({ revision, asked, message }).length === 0) {
        throw new Error(`self-test: ${name} with ${how} went through`);
      }
    }
  }
}
