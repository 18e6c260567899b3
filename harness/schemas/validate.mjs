// Whether a message is what the official schemas say.

import { isDeepStrictEqual } from "node:util";

import * as core from "@modelcontextprotocol/core";
import * as v1 from "@modelcontextprotocol/ext-tasks/core/v1";
import * as v2 from "@modelcontextprotocol/ext-tasks/core/v2";
import { Ajv } from "ajv";
import { Ajv2020 } from "ajv/dist/2020.js";
import addFormats from "ajv-formats";

import { closed, definitions, jsonSchemas } from "./official.mjs";

const NEWEST = "2026-07-28";
const schemas = new Map();
for (const [revision, schema] of jsonSchemas(import.meta.url)) {
  schemas.set(revision, new Schema(revision, schema));
}

/** Results of methods whose result is not named after their request. */
const RESULTS = {
  ping: "EmptyResult",
  "logging/setLevel": "EmptyResult",
  "resources/subscribe": "EmptyResult",
  "resources/unsubscribe": "EmptyResult",
  "tasks/result": "CallToolResult",
};

/** The zod schemas of core, by method: results, and what the server says by itself. */
const CORE_RESULTS = {
  initialize: core.InitializeResultSchema,
  "server/discover": core.DiscoverResultSchema,
  ping: core.EmptyResultSchema,
  "logging/setLevel": core.EmptyResultSchema,
  "tools/list": core.ListToolsResultSchema,
  "tools/call": core.CallToolResultSchema,
  "prompts/list": core.ListPromptsResultSchema,
  "prompts/get": core.GetPromptResultSchema,
  "resources/list": core.ListResourcesResultSchema,
  "resources/templates/list": core.ListResourceTemplatesResultSchema,
  "resources/read": core.ReadResourceResultSchema,
  "resources/subscribe": core.EmptyResultSchema,
  "resources/unsubscribe": core.EmptyResultSchema,
  "completion/complete": core.CompleteResultSchema,
  "subscriptions/listen": core.SubscriptionsListenResultSchema,
  "tasks/get": core.GetTaskResultSchema,
  "tasks/cancel": core.CancelTaskResultSchema,
  "tasks/list": core.ListTasksResultSchema,
  "tasks/result": core.CallToolResultSchema,
};

const CORE_SAID = {
  "elicitation/create": core.ElicitRequestSchema,
  "sampling/createMessage": core.CreateMessageRequestSchema,
  "roots/list": core.ListRootsRequestSchema,
  "tasks/get": core.GetTaskRequestSchema,
  "tasks/result": core.GetTaskPayloadRequestSchema,
  "tasks/cancel": core.CancelTaskRequestSchema,
  "notifications/cancelled": core.CancelledNotificationSchema,
  "notifications/message": core.LoggingMessageNotificationSchema,
  "notifications/progress": core.ProgressNotificationSchema,
  "notifications/prompts/list_changed": core.PromptListChangedNotificationSchema,
  "notifications/resources/list_changed": core.ResourceListChangedNotificationSchema,
  "notifications/resources/updated": core.ResourceUpdatedNotificationSchema,
  "notifications/subscriptions/acknowledged": core.SubscriptionsAcknowledgedNotificationSchema,
  "notifications/tasks/status": core.TaskStatusNotificationSchema,
  "notifications/tools/list_changed": core.ToolListChangedNotificationSchema,
};

/** Those of tasks, which are stricter. */
const TASKS = {
  "2025-11-25": {
    results: {
      "tools/list": null,
      "tasks/get": v1.GetTaskResultV1Schema,
      "tasks/cancel": v1.CancelTaskResultV1Schema,
      "tasks/list": v1.ListTasksResultV1Schema,
      "tasks/result": v1.CallToolResultV1Schema,
    },
    said: {
      "notifications/tasks/status": v1.TaskStatusNotificationV1Schema,
      "tasks/get": v1.GetTaskRequestV1Schema,
      "tasks/result": v1.GetTaskResultRequestV1Schema,
      "tasks/cancel": v1.CancelTaskRequestV1Schema,
    },
  },
  "2026-07-28": {
    results: {
      "tools/call": v2.CallToolResultV2Schema,
      "tasks/get": v2.GetTaskResultV2Schema,
      "tasks/update": v2.UpdateTaskResultV2Schema,
      "tasks/cancel": v2.CancelTaskResultV2Schema,
    },
    said: { "notifications/tasks": v2.TaskStatusNotificationV2Schema },
  },
};

/** Everything that is wrong with a message that was written down. */
export function wrongs({ revision, asked, message }) {
  // A client that has not said who it is gets errors alone, and those are the same in all revisions.
  const known = schemas.has(revision) || revision === "2024-11-05";
  if (!known && !("error" in message)) return [`a message in revision ${revision}`];
  // The suite has no schema of 2024-11-05; the next one differs in additions only.
  const era = revision === "2024-11-05" ? "2025-03-26" : known ? revision : NEWEST;
  // What can't be read has no id to answer to, for which only later revisions have a schema.
  const schema = schemas.get("error" in message && !("id" in message) ? NEWEST : era);
  if ("method" in message) return said(schema, message);
  if ("error" in message) return schema.wrongs(schema.error(message.error?.code), message);
  if ("result" in message) return answered(schema, asked, message);
  return ["this is no message"];
}

function said(schema, message) {
  const { method } = message;
  const wrong = [];
  const tasks = TASKS[schema.revision]?.said[method];
  if (tasks) wrong.push(...strictly(`ext-tasks ${method}`, tasks, message));
  if (method === "notifications/tasks") {
    // The schema of the notification is open; that of a task is not.
    const { _meta, ...task } = message.params ?? {};
    wrong.push(...strictly("DetailedTask", v2.DetailedTaskV2Schema, task));
  }
  const { jsonrpc, id, ...bare } = message;
  const zod = CORE_SAID[method];
  if (zod) wrong.push(...loosely(`core ${method}`, zod, bare));
  const definition = schema.methods.get(method);
  // Up to 2025-06-18 the frame is not part of it.
  const framed = definition && schema.all[definition].properties.jsonrpc;
  if (definition) wrong.push(...schema.wrongs(definition, framed ? message : bare));
  const frame = "id" in message ? core.JSONRPCRequestSchema : core.JSONRPCNotificationSchema;
  wrong.push(...loosely("core frame", frame, message));
  // In 2026-07-28 only the extension knows notifications of tasks.
  if (!tasks && !(zod && definition)) wrong.push(`no schema for ${method} in ${schema.revision}`);
  return wrong;
}

function answered(schema, asked, message) {
  const { result } = message;
  const wrong = [...loosely("core frame", core.JSONRPCResultResponseSchema, message)];
  wrong.push(...schema.wrongs(schema.response, message));
  const modern = schema.revision === NEWEST;
  if (modern && result.resultType === "task") {
    if (asked !== "tools/call") wrong.push(`a task in answer to ${asked}`);
    return [...wrong, ...strictly("CreateTaskResult v2", v2.CreateTaskResultV2Schema, result)];
  }
  if (schema.revision === "2025-11-25" && asked === "tools/call" && "task" in result) {
    wrong.push(...strictly("CreateTaskResult v1", v1.CreateTaskResultV1Schema, result));
    wrong.push(...loosely("core CreateTaskResult", core.CreateTaskResultSchema, result));
    return [...wrong, ...schema.wrongs("CreateTaskResult", result)];
  }
  if (modern && result.resultType === "input_required") {
    wrong.push(...schema.wrongs("InputRequiredResult", result));
    const zod = v2.InputRequiredCallToolResultV2Schema;
    return asked === "tools/call" ? [...wrong, ...strictly("input required", zod, result)] : wrong;
  }
  if (modern && result.resultType !== "complete") wrong.push(`resultType ${result.resultType}`);
  const tasks = TASKS[schema.revision]?.results[asked];
  if (tasks) wrong.push(...strictly(`ext-tasks ${asked}`, tasks, result));
  if (modern && asked.startsWith("tasks/")) {
    // It is what the call would have returned, of which there is no schema but the call's.
    const inner = result.result && { resultType: "complete", ...result.result };
    if (inner) wrong.push(...schema.wrongs("CallToolResult", inner));
    // The schemas of these two are open, and the text calls them empty.
    if (asked !== "tasks/get") wrong.push(...schema.wrongs("EmptyResult", result));
    return tasks ? wrong : [...wrong, `no schema for ${asked}`];
  }
  const zod = CORE_RESULTS[asked];
  // In core a result says nothing of its type and of how long it holds.
  const { resultType, ttlMs, cacheScope, ...old } = result;
  if (zod) wrong.push(...loosely(`core ${asked}`, zod, modern ? old : result));
  const definition = schema.methods.has(asked) && (schema.results.get(asked) ?? RESULTS[asked]);
  if (definition) wrong.push(...schema.wrongs(definition, result));
  if (!zod || !definition) wrong.push(`no schema for the result of ${asked} in ${schema.revision}`);
  return wrong;
}

/** What zod has against a value. */
function loosely(name, schema, value) {
  const { success, error } = schema.safeParse(value);
  return success ? [] : error.issues.map((issue) => `${name}: ${issue.path.join(".")}: ${issue.message}`);
}

/** The same, and what it would not pass on: fields that it doesn't know. */
function strictly(name, schema, value) {
  const { success, data } = schema.safeParse(value);
  if (!success) return loosely(name, schema, value);
  const known = JSON.parse(JSON.stringify(data));
  return isDeepStrictEqual(known, value) ? [] : [`${name}: fields that it doesn't know`];
}

/** The JSON Schema of a revision. */
function Schema(revision, official) {
  const all = definitions(official);
  const dialect = official.$schema.includes("2020-12") ? Ajv2020 : Ajv;
  const ajv = new dialect({ strict: false, allErrors: true });
  addFormats.default(ajv);
  ajv.addFormat("byte", /^[A-Za-z0-9+/]*={0,2}$/);
  ajv.addSchema({ ...closed(revision, official), $id: "mcp" });
  const keep = "$defs" in official ? "$defs" : "definitions";

  const methods = new Map();
  const results = new Map();
  const errors = new Map();
  for (const [name, { properties, anyOf }] of Object.entries(all)) {
    const method = properties?.method?.const;
    if (method && !anyOf) methods.set(method, name);
    const result = name.replace(/Request$/, "Result");
    if (method && result !== name && result in all) results.set(method, result);
    for (const part of properties?.error?.allOf ?? []) {
      if (part.properties?.code?.const) errors.set(part.properties.code.const, name);
    }
  }
  const either = (...names) => names.find((name) => name in all);
  const error = either("JSONRPCErrorResponse", "JSONRPCError");
  return {
    revision,
    all,
    methods,
    results,
    response: either("JSONRPCResultResponse", "JSONRPCResponse"),
    error: (code) => errors.get(code) ?? error,
    wrongs(name, value) {
      const check = ajv.getSchema(`mcp#/${keep}/${name}`);
      if (!check) return [`there is no ${name} in ${revision}`];
      if (check(value)) return [];
      const show = ({ instancePath, message, params }) =>
        `${name}${instancePath}: ${message} ${params.additionalProperty ?? ""}`;
      return check.errors.map(show);
    },
  };
}
