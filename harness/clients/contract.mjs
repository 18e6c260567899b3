// What every client does, whatever its way of doing it: `node CLIENT.mjs PHASE TARGET [TASK]`.
//
// The target is JSON: `generation` is a protocol version; `url` is where the server listens, or
// `command` is how to start it on stdio. `connect(target, answer)` gives a client:
//   call(tool, arguments)    calls a tool without a task, gives its result
//   start(tool, arguments)   begins a task
//   resume(id)               takes up one that another process began
//   list()                   ids of tasks, where the client can
//   close()
// and a task has `id`, `status()`, `cancel()` and `settle()`, which goes to its end with answers on the
// way: `status`, and `result` or an `error` in words.
import assert from "node:assert/strict";

const NOTE = "by the back door";

export async function run(connect) {
  const [phase, target, task] = process.argv.slice(2);
  await { whole, begin, finish }[phase](connect, JSON.parse(target), task);
  // Streams that a client left open are no reason to stay.
  process.exit(0);
}

async function whole(connect, target) {
  const questions = new Questions();
  const client = await connect(target, questions.answer);

  const plain = await client.call("plain", { name: "Ada" });
  assert.equal(plain.content[0].text, "Hello, Ada!");

  const quick = await client.start("quick", { item: "whole" });
  const done = await quick.settle();
  assert.equal(done.status, "completed");
  assert.equal(done.result.content[0].text, "whole is done.");

  const order = await client.start("order", { item: "whole" });
  await until(order, "input_required");
  await approve(order, questions, "whole");
  assert.equal(await order.status(), "completed");

  const fails = await client.start("fails", { item: "whole" });
  const failed = await fails.settle();
  assert.equal(failed.status, target.generation === "2025-11-25" ? "failed" : "completed");
  assert.match(failed.error ?? failed.result.content[0].text, /whole can't be done/);
  if (failed.result) assert.equal(failed.result.isError, true);

  const slow = await client.start("slow", {});
  assert.equal(await slow.status(), "working");
  await slow.cancel();
  assert.equal(await slow.status(), "cancelled");

  if (client.list) {
    const ids = await client.list();
    for (const { id } of [quick, order, fails, slow]) assert(ids.includes(id), `${id} is listed`);
  }
  await client.close();
}

// Begins an order, and stays until it is killed.
async function begin(connect, target) {
  const client = await connect(target, () => new Promise(() => {}));
  const order = await client.start("order", { item: "killed" });
  await until(order, "input_required");
  console.log(JSON.stringify({ task: order.id }));
  setInterval(() => {}, 1_000);
  await new Promise(() => {});
}

async function finish(connect, target, id) {
  const questions = new Questions();
  const client = await connect(target, questions.answer);
  const order = await client.resume(id);
  assert.equal(await order.status(), "input_required");
  await approve(order, questions, "killed");
  assert.equal(await order.status(), "completed");
  await client.close();
}

async function approve(order, questions, item) {
  questions.open();
  const { status, result } = await order.settle();
  assert.equal(status, "completed");
  assert.deepEqual(result.structuredContent, { item, shipped: true, note: NOTE });
  assert.deepEqual(questions.asked, [`Ship ${item}?`]);
}

// Answers when it is told to, so that a question can be seen open before.
class Questions {
  asked = [];
  ready = new Promise((resolve) => (this.open = resolve));
  answer = async (message, schema) => {
    this.asked.push(message);
    assert.deepEqual(Object.keys(schema.properties), ["approve", "note"]);
    await this.ready;
    return { action: "accept", content: { approve: true, note: NOTE } };
  };
}

// The runner has a limit for the whole process.
async function until(task, wanted) {
  for (;;) {
    const status = await task.status();
    if (status === wanted) return;
    assert.equal(status, "working", `waiting for ${wanted}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
