// What every client does, whatever its way of doing it: `node CLIENT.mjs PHASE TARGET [TASK]`.
//
// The target is JSON: `generation` is a protocol version; `url` is where the server listens, or
// `command` is how to start it on stdio; `session` is one that another process began. `connect(target,
// answer, hear)` gives a client, and tells `hear` in words what the server says on the way:
//   call(tool, arguments, { keep, token })
//                            calls a tool without a task, gives its result. `keep` is told from where
//                            its stream can be taken up; with a `token` of another process it is that
//                            process' call which is taken up
//   session()                the id of the session
//   start(tool, arguments)   begins a task
//   resume(id)               takes up one that another process began
//   list()                   ids of tasks, where the client can
//   close()
// and a task has `id`, `status()`, `cancel()` and `settle()`, which goes to its end with answers on the
// way: `status`, and `result` or an `error` in words.
//
// With tasks a client does `whole`; then `begin`, and in another process `finish`. Without tasks, over
// HTTP, it does `stays`; then `leaves`, and in another process `returns`; or, in a generation that can't
// take up calls, `lost`.
import assert from "node:assert/strict";
import { once } from "node:events";

const NOTE = "by the back door";
// The last is as far as numbers go here.
const NUMBERS = [1, 1.5, Number.MAX_SAFE_INTEGER];
// What `carry` says before its question, and after.
const BEFORE = ["packed", "log: packed"];
const AFTER = ["sent", "log: sent"];

export async function run(connect) {
  const [phase, target, taken] = process.argv.slice(2);
  const phases = { whole, begin, finish, stays, leaves, returns, lost };
  await phases[phase](connect, JSON.parse(target), taken);
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

// Two calls without tasks, one of which sleeps and the other asks. Then the server is killed and started
// again, which the runner tells by a line. The client takes up both streams by itself.
async function stays(connect, target) {
  const questions = new Questions();
  const heard = [];
  const client = await connect(target, questions.answer, (words) => heard.push(words));
  const dozed = client.call("doze", { item: "stays" });
  await when(() => heard.length);
  const carried = client.call("carry", { item: "stays", numbers: NUMBERS });
  await when(() => questions.asked.length);
  assert.deepEqual(heard, ["dozing", ...BEFORE]);

  console.log(JSON.stringify({ asked: true }));
  await once(process.stdin, "data");
  questions.open();
  assert.equal((await dozed).content[0].text, "stays has slept.");
  const { structuredContent } = await carried;
  assert.deepEqual(structuredContent, { item: "stays", numbers: NUMBERS, note: NOTE });
  assert.deepEqual(heard, ["dozing", ...BEFORE, ...AFTER]);
  assert.deepEqual(questions.asked, ["Send stays?"]);
  await client.close();
}

// Calls without a task, and stays until it is killed.
async function leaves(connect, target) {
  const questions = new Questions();
  const tokens = [];
  const client = await connect(target, questions.answer, () => {});
  const keep = (token) => tokens.push(token);
  client.call("carry", { item: "returns", numbers: NUMBERS }, { keep });
  await when(() => questions.asked.length);
  // The first is of no message. Not the question's: who has that one is not asked again.
  console.log(JSON.stringify({ session: client.session(), token: tokens[BEFORE.length] }));
  setInterval(() => {}, 1_000);
  await new Promise(() => {});
}

async function returns(connect, target, left) {
  const { session, token } = JSON.parse(left);
  const questions = new Questions();
  const heard = [];
  const hear = (words) => heard.push(words);
  const client = await connect({ ...target, session }, questions.answer, hear);
  const carried = client.call("carry", {}, { token });
  await when(() => questions.asked.length);
  // The session is its own now, for more than this call, although its requests are counted anew: one of
  // these has the number that the call had.
  for (const item of ["one", "two", "three"]) {
    const quick = await client.call("quick", { item });
    assert.equal(quick.content[0].text, `${item} is done.`);
  }

  questions.open();
  const { structuredContent } = await carried;
  assert.deepEqual(structuredContent, { item: "returns", numbers: NUMBERS, note: NOTE });
  assert.deepEqual(heard, AFTER);
  assert.deepEqual(questions.asked, ["Send returns?"]);
  await client.close();
}

// A call that is not answered, because its server is killed. It fails, and does not wait for ever.
async function lost(connect, target) {
  const client = await connect(target, () => assert.fail("it asks nothing"), () => {});
  await assert.rejects(client.call("hold", { item: "lost" }));
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

async function when(holds) {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
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
