"""What every client does, whatever its way of doing it: `python CLIENT.py PHASE TARGET [TASK]`.

The same as contract.mjs, which explains it. `connect(target, answer)` is an async context manager;
`answer(message, task)` is told the task if the client knows it. A client that is not `patient` reads
nothing while a question is with its user, so that it can't look at the task in the meantime.
"""

import asyncio
import json
import sys

NOTE = "by the back door"


def run(connect):
    phase, target, *task = sys.argv[1:]
    phases = {"whole": whole, "begin": begin, "finish": finish}
    asyncio.run(phases[phase](connect, json.loads(target), *task))


async def whole(connect, target):
    questions = Questions()
    async with connect(target, questions.answer) as client:
        questions.ready_if(not client.patient)
        same(await client.call("plain", {"name": "Ada"}), "Hello, Ada!")

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
    """The end of a task."""

    def __init__(self, status, text, structured, is_error):
        self.status, self.text = status, text
        self.structured, self.is_error = structured, is_error


async def until(task, wanted):
    """The runner has a limit for the whole process."""
    while (status := await task.status()) != wanted:
        same(status, "working")
        await asyncio.sleep(0.02)


def same(found, wanted):
    assert found == wanted, f"{found!r} in place of {wanted!r}"
