// The official schemas, out of packages from the registry.
//
// The JSON Schemas of the revisions are in the conformance suite, which checks what it sees on the wire
// with them. It exports nothing, so they are cut out of its program: they are plain literals.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import vm from "node:vm";

const REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];

/** The JSON Schema of each revision. */
export function jsonSchemas(place) {
  const require = createRequire(place);
  const home = require.resolve("@modelcontextprotocol/conformance/package.json");
  const program = readFileSync(new URL("dist/index.js", `file://${home}`), "utf8");
  const table = /\{"2025-03-26":([\w$]+),"2025-06-18":([\w$]+),"2025-11-25":([\w$]+),\[[\w$]+\]:([\w$]+)\}/;
  const names = table.exec(program);
  if (!names) throw new Error("the conformance suite has its schemas elsewhere now");
  return new Map(REVISIONS.map((revision, n) => [revision, literal(program, names[n + 1])]));
}

/** The value of a variable that is an object literal. */
function literal(program, name) {
  const head = `${name}={$schema:`;
  const start = program.indexOf(head) + name.length + 1;
  if (start <= name.length) throw new Error(`the conformance suite has no ${head}`);
  let end = start;
  for (let depth = 0; ; end++) {
    const character = program[end];
    if ("`\"'".includes(character)) {
      for (end++; program[end] !== character; end++) if (program[end] === "\\") end++;
    } else if ("{[".includes(character)) depth++;
    else if ("}]".includes(character) && --depth === 0) break;
  }
  return JSON.parse(JSON.stringify(vm.runInNewContext(`(${program.slice(start, end + 1)})`)));
}

/** The definitions of a schema. */
export const definitions = (schema) => schema.$defs ?? schema.definitions;

/**
 * The same schema without room for what it does not name. The schemas are open so that others may extend
 * them; we don't, so that what is not in them is a mistake of ours.
 */
export function closed(revision, schema) {
  const copy = structuredClone(schema);
  const all = definitions(copy);
  for (const [name, definition] of Object.entries(all)) close(definition, name);
  // Up to 2025-06-18 it is said once, of any request, that its progress can be asked for.
  const meta = all.Request.properties?.params?.properties?._meta;
  for (const [name, definition] of Object.entries(all)) {
    const params = /Request$/.test(name) ? definition.properties?.params : undefined;
    if (meta && params?.properties) params.properties._meta ??= meta;
  }
  // By itself it is any result.
  all.EmptyResult = { ...all.Result, additionalProperties: false };
  if (revision === "2025-11-25") {
    // The text and the TypeScript have `number | null`, which got lost on the way to JSON Schema.
    all.Task.properties.ttl.type = ["integer", "null"];
    // They are made of two definitions that don't know of each other.
    for (const name of ["CancelTaskResult", "GetTaskResult", "TaskStatusNotificationParams"]) {
      const meta = { _meta: { type: "object" } };
      all[name] = { ...all.Task, properties: { ...all.Task.properties, ...meta } };
    }
  }
  if (revision === "2026-07-28") {
    // The Tasks extension adds it.
    all.SubscriptionFilter.properties.taskIds = { type: "array", items: { type: "string" } };
  }
  return copy;
}

function close(schema, name) {
  if (typeof schema !== "object" || schema === null) return;
  const open = /^_meta$|MetaObject$|ResultMeta$|^(in|out)putSchema$/.test(name);
  if (schema.properties && schema.additionalProperties === undefined && !open) {
    schema.additionalProperties = false;
  }
  for (const [key, value] of Object.entries(schema)) {
    if (key === "properties") for (const name of Object.keys(value)) close(value[name], name);
    // Parts of a whole can't be closed one by one.
    else if (key !== "allOf") close(value, key);
  }
}
