// Holds every message in a directory of traffic against the official schemas: `cargo xtask schemas`.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

import { selfTest } from "./self-test.mjs";
import { wrongs } from "./validate.mjs";

const [dir, least] = process.argv.slice(2);
selfTest();

const counts = new Map();
let failed = 0;
let total = 0;
for (const file of readdirSync(dir).filter((name) => name.endsWith(".jsonl"))) {
  for (const line of readFileSync(join(dir, file), "utf8").split("\n").filter(Boolean)) {
    const heard = JSON.parse(line);
    const { message } = heard;
    total++;
    const kind = "error" in message ? "errors" : (heard.asked ?? message.method ?? "unknown");
    const key = `${heard.revision ?? "none"}  ${kind}`;
    counts.set(key, (counts.get(key) ?? 0) + 1);
    const wrong = wrongs(heard);
    if (wrong.length > 0) {
      failed++;
      console.log(`\n${heard.test} (${heard.revision}, ${heard.asked ?? "by itself"}):`);
      console.log(`  ${JSON.stringify(message).slice(0, 600)}`);
      for (const one of wrong.slice(0, 6)) console.log(`  ${one}`);
    }
  }
}
console.log();
for (const [key, count] of [...counts].sort()) console.log(`${String(count).padStart(6)}  ${key}`);
console.log(`\n${total} messages, ${failed} not as the schemas have them`);
if (total < Number(least)) console.log(`there should be at least ${least}`);
process.exit(failed > 0 || total < Number(least) ? 1 : 0);
