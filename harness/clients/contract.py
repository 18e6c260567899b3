"""What every client does, whatever its way of doing it: `python CLIENT.py PHASE TARGET [TASK]`.

The same as contract.mjs, which explains it. `connect(target, answer, hear)` is an async context manager;
`answer(message, task)` is told the task if the client knows it. A client that is not `patient` reads
nothing while a question is with its user, so that it can't look at the task in the meantime.
"""

import asyncio
import contextlib
import json
import sys

NOTE = "by the back door"
# The last is more than a float can hold.
NUMBERS = [1, 1.5, 9007199254740993]
# What `carry` says before its question, and after.
BEFORE = ["packed", "log: packed"]
AFTER = ["sent", "log: sent"]


def run(connect):
    phase, target, *taken = sys.argv[1:]
    phases = [whole, begin, finish, stays, leaves, returns, lost]
    named = {each.__name__: each for each in phases}
    asyncio.run(named[phase](connect, json.loads(target), *taken))


async def whole(connect, target):
    questions = Questions()
    async with connect(target, questions.answer) as client:
        questions.ready_if(not client.patient)
        same((await client.call("plain", {"name": "Ada"})).text, "Hello, Ada!")

        quick = await client.start("quick", {"item": "whole"})
        done = await quick.settle()
        same((done.status, done.text), ("completed", "whole is done."))

        order = await client.start("order", {"item": "whole"})
        if client.patient:
            await until(order, "input_required")
        await approve(order, questions, "whole")

        fails = await client.start("fails", {"item": "whole"})
        failed = await fails.settle()
        old = target["generation"] == "2025-11-25"
        same((failed.status, failed.is_error), ("failed" if old else "completed", True))
        assert "whole can't be done" in failed.text, failed.text

        slow = await client.start("slow", {})
        same(await slow.status(), "working")
        await slow.cancel()
        same(await slow.status(), "cancelled")

        if hasattr(client, "list"):
            ids = await client.list()
            for task in (quick, order, fails, slow):
                assert task.id in ids, f"{task.id} is not listed"


async def begin(connect, target):
    """Begins an order, and stays with its question until it is killed."""

    async def think(_, task=None):
        print(json.dumps({"task": task or order.id}), flush=True)
        await asyncio.Event().wait()

    async with connect(target, think) as client:
        order = await client.start("order", {"item": "killed"})
        await order.settle()


async def finish(connect, target, task):
    questions = Questions()
    async with connect(target, questions.answer) as client:
        questions.ready_if(not client.patient)
        order = await client.resume(task)
        if client.patient:
            same(await order.status(), "input_required")
        await approve(order, questions, "killed")


async def stays(connect, target):
    """Two calls, over a kill of the server. The client takes up their streams by itself."""
    questions, heard = Questions(), []
    async with connect(target, questions.answer, heard.append) as client:
        dozed = asyncio.create_task(client.call("doze", {"item": "stays"}))
        await when(lambda: heard)
        arguments = {"item": "stays", "numbers": NUMBERS}
        carried = asyncio.create_task(client.call("carry", arguments))
        await when(lambda: questions.asked)
        same(heard, ["dozing", *BEFORE])

        print(json.dumps({"asked": True}), flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        questions.ready_if(True)
        same((await dozed).text, "stays has slept.")
        same_parcel(await carried, "stays")
        same(heard, ["dozing", *BEFORE, *AFTER])
        same(questions.asked, ["Send stays?"])


async def leaves(connect, target):
    """Calls, and stays until it is killed."""
    questions, tokens = Questions(), []
    async with connect(target, questions.answer, lambda _: None) as client:
        arguments = {"item": "returns", "numbers": NUMBERS}
        carried = asyncio.create_task(client.call("carry", arguments, keep=tokens.append))
        await when(lambda: questions.asked)
        # The first is of no message. Not the question's: who has that one is not asked again.
        left = {"session": client.session(), "token": tokens[len(BEFORE)]}
        print(json.dumps(left), flush=True)
        await carried


async def returns(connect, target, left):
    left = json.loads(left)
    questions, heard = Questions(), []
    target["session"] = left["session"]
    async with connect(target, questions.answer, heard.append) as client:
        carried = asyncio.create_task(client.call("carry", {}, token=left["token"]))
        await when(lambda: questions.asked)
        # The session is its own now, for more than this call, although its requests are counted anew:
        # one of these has the number that the call had.
        names, begun = ["one", "two", "three"], set()
        calls = [client.call("quick", {"item": item}, keep=begun.add) for item in names]
        calls = [asyncio.create_task(call) for call in calls]
        await when(lambda: len(begun) == len(names))
        questions.ready_if(True)
        for call, item in zip(calls, names):
            same((await call).text, f"{item} is done.")
        same_parcel(await carried, "returns")
        same(heard, AFTER)
        same(questions.asked, ["Send returns?"])


async def lost(connect, target):
    """A call that is not answered, because its server is killed. It fails, and does not wait for ever."""
    failed = False
    # Some fail again when they are closed.
    with contextlib.suppress(Exception):
        async with connect(target, None) as client:
            try:
                await client.call("hold", {"item": "lost"})
            except Exception:
                failed = True
    assert failed, "it did not fail"


def same_parcel(found, item):
    """In words, because 1 is no different from 1.0 to Python otherwise."""
    same(repr(found.structured), repr({"item": item, "numbers": NUMBERS, "note": NOTE}))


async def approve(order, questions, item):
    questions.ready_if(True)
    done = await order.settle()
    same(done.status, "completed")
    same(done.structured, {"item": item, "shipped": True, "note": NOTE})
    same(questions.asked, [f"Ship {item}?"])
    same(await order.status(), "completed")


class Questions:
    """Answers when it is told to, so that a question can be seen open before."""

    def __init__(self):
        self.asked = []
        self.ready = asyncio.Event()

    def ready_if(self, ready):
        if ready:
            self.ready.set()

    async def answer(self, message, _=None):
        self.asked.append(message)
        await self.ready.wait()
        return {"approve": True, "note": NOTE}


class Done:
    """The end of a task, or of a call."""

    def __init__(self, status, text, structured, is_error):
        self.status, self.text = status, text
        self.structured, self.is_error = structured, is_error


async def when(holds):
    while not holds():
        await asyncio.sleep(0.005)


async def until(task, wanted):
    """The runner has a limit for the whole process."""
    while (status := await task.status()) != wanted:
        same(status, "working")
        await asyncio.sleep(0.02)


def same(found, wanted):
    assert found == wanted, f"{found!r} in place of {wanted!r}"
