"""Creating, querying and controlling jobs and runs, with and without an event loop."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from server import Server, ended, machine, until

from bellwether import (
    AsyncBellwether,
    Bellwether,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    JobSpec,
    NotFound,
    ProblemError,
    Resources,
    Run,
    Unavailable,
    UnexpectedAnswer,
    Worker,
    WorkerInfo,
)
from bellwether.settings import base_url

YEARLY: JobSpec = {"schedule": "@yearly", "command": "true"}
Start = Callable[[Worker], threading.Thread]


def test_a_job_is_created_changed_paused_and_deleted(client: Bellwether) -> None:
    spec: JobSpec = {**YEARLY, "key": "life", "labels": {"team": "a"}, "retry": {"max": 2}}
    job = client.create_job(spec)
    assert (job.key, job.status, job.labels) == ("life", "scheduled", {"team": "a"})
    assert job.created_at.tzinfo is not None
    assert client.create_job(spec).id == job.id, "the same key and body"
    with pytest.raises(Conflict):
        client.create_job({**spec, "command": "false"})
    assert client.put_job("life", {**YEARLY, "command": ["echo", "hi"]}).command == ["echo", "hi"]
    assert client.patch_job("life", {"description": "x"}).description == "x"
    assert client.patch_job("life", {"description": None}).description is None
    paused = client.pause_job("life", "for now").paused
    assert paused is not None
    assert paused.note == "for now"
    assert client.resume_job("life").paused is None
    maintained = client.maintain_job("life", lasting="1h", note="disk").maintenance
    assert maintained is not None
    assert maintained.until is not None
    client.resume_job("life")
    assert len(client.next_times("life", 2).times) == 2
    run = client.get_run(client.trigger("life"))
    assert (run.job_id, run.status) == (job.id, "queued")
    assert [event.event for event in client.run_events(run.id)]
    assert next(client.ticks("life")).fate == "triggered"
    client.cancel_run(run.id)
    assert ended(client, job.id).status == "canceled"
    assert client.why("life").answer
    assert client.get_job("life").runs == 1
    client.delete_job("life")
    with pytest.raises(NotFound) as missing:
        client.get_job("life")
    assert (missing.value.status, missing.value.code) == (404, "job_not_found")


def test_problems_name_code_field_and_detail(client: Bellwether) -> None:
    with pytest.raises(InvalidRequest) as refused:
        client.create_job({"schedule": {"cron": "0 0 30 2 *"}, "command": "true"})
    problem = refused.value
    assert (problem.code, problem.field, problem.status) == ("never_fires", "schedule.cron", 422)
    assert "never fire" in problem.detail
    assert isinstance(problem, ProblemError)


def test_lists_go_over_all_pages_and_batches_answer_for_each_job(client: Bellwether) -> None:
    specs: list[JobSpec] = [{**YEARLY, "key": f"page-{n:03}", "group": "pages"} for n in range(250)]
    answer = client.create_jobs([*specs, {"key": "page-bad", "command": "true"}])
    assert (answer.created, answer.existing, answer.failed) == (250, 0, 1)
    error = answer.results[-1].error
    assert error is not None
    assert error.code == "missing_schedule"
    assert client.create_jobs(specs).existing == 250
    keys = [job.key for job in client.list_jobs(key_prefix="page-")]
    assert keys == [spec["key"] for spec in specs]
    client.pause_group("pages", "all")
    group = next(group for group in client.list_groups() if group.name == "pages")
    assert (group.jobs, group.paused is not None) == (250, True)
    client.resume_group("pages")
    client.maintain_group("pages", until=datetime.now(timezone.utc) + timedelta(hours=1))
    assert client.get_job("page-000").group_maintenance is not None


def test_schedules_can_be_previewed(client: Bellwether) -> None:
    start = datetime(2026, 1, 1, tzinfo=timezone.utc)
    preview = client.preview("0 12 * * *", count=2, start=start)
    assert [at.day for at in preview.times] == [1, 2]
    full = client.preview({"every": "90m", "except": ["* 3 * * *"]}, count=1)
    assert full.description
    with pytest.raises(ValueError, match="time zone"):
        client.preview("0 12 * * *", start=datetime(2026, 1, 1))


def test_output_can_be_followed_and_workers_are_listed(
    client: Bellwether, server: Server, start: Start
) -> None:
    worker = Worker("followed", server=server.address, labels={"disk": "fast"})
    go = threading.Event()

    @worker.handler("print")
    def work(run: Run[object]) -> None:
        run.write("grüße\n")
        assert go.wait(30)

    start(worker)
    job = client.create_job(
        {
            "schedule": {"delay": "0s"},
            "queue": "followed",
            "job_type": "print",
            "requires": {"disk": "fast"},
        }
    )
    run = next(iter(_runs(client, job.id)))
    chunks = client.follow_output(run)
    go.set()
    assert "".join(chunks) == "grüße\n"
    assert client.output(run, stream="stderr") == ""
    info = next(info for info in client.list_workers() if info.name == worker.name)
    assert (info.labels, info.job_types) == ({"disk": "fast"}, ["print"])
    with pytest.raises(NotFound):
        list(client.follow_output("run_0000000000000-1"))


def _runs(client: Bellwether, job: str) -> Iterator[str]:
    while True:
        yield from (run.id for run in client.list_runs(job))


def test_namespaces_keep_keys_apart(server: Server) -> None:
    with Bellwether(server.address, namespace="one") as one, Bellwether(server.address) as other:
        assert one.create_job({**YEARLY, "key": "same"}).namespace == "one"
        assert [job.key for job in one.list_jobs()] == ["same"]
        with pytest.raises(NotFound):
            other.get_job("same")
        one.delete_job("same")


def test_the_environment_says_where_the_server_is(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BELLWETHER_SERVER", server.address)
    monkeypatch.setenv("BELLWETHER_NAMESPACE", "env")
    with Bellwether() as client:
        assert client.create_job(YEARLY).namespace == "env"


def test_asyncio_has_the_same(server: Server) -> None:
    async def scenario() -> None:
        async with AsyncBellwether(server.address, namespace="async") as client:
            specs: list[JobSpec] = [{**YEARLY, "key": f"a-{n}"} for n in range(120)]
            assert (await client.create_jobs(specs)).created == 120
            assert len([job async for job in client.list_jobs(key_prefix="a-")]) == 120
            job = await client.put_job("a-0", {**YEARLY, "command": "false"})
            run = await client.trigger("a-0")
            assert (await client.get_run(run)).job_id == job.id
            await client.cancel_run(run)
            assert [text async for text in client.follow_output(run)] == []
            assert (await client.why("a-0")).answer
            assert await client.run_events(run)
            assert isinstance(await client.list_workers(), list)
            with pytest.raises(NotFound):
                await client.get_job("nothing")

    asyncio.run(scenario())


def test_a_job_runs_on_all_machines(client: Bellwether, server: Server, tmp_path: Path) -> None:
    names, queue = ["m1", "m2"], "everywhere"
    flags = ["--queue", queue, "--resources", "cpu=2,memory=1G"]
    with ExitStack() as machines:
        for name in names:
            machines.enter_context(machine(server, name, tmp_path, *flags))

        def workers() -> list[WorkerInfo]:
            return [info for info in client.list_workers() if info.queues == [queue]]

        until("both are there", lambda: len(workers()) == 2)
        assert {info.resources for info in workers()} == {Resources(2, "1G")}
        job = client.create_job(
            {
                **YEARLY,
                "queue": queue,
                "target_workers": "all",
                "resources": {"cpu": 0.5, "memory": 64 << 20},
                "memory_limit": "512M",
            }
        )
        assert (job.target_workers, job.memory_limit) == ("all", "512M")
        assert job.resources == Resources(0.5, "64M")
        runs = client.trigger_runs(job.id)
        assert sorted(str(client.get_run(run).pinned_to) for run in runs) == names
        tick = next(client.ticks(job.id))
        assert (tick.run_id, tick.runs) == (runs[0], 2)

        def are_over() -> bool:
            return all(client.get_run(run).status == "succeeded" for run in runs)

        until("both have run", are_over)

        async def scenario() -> list[str]:
            async with AsyncBellwether(server.address) as client:
                return await client.trigger_runs(job.id)

        assert len(asyncio.run(scenario())) == 2
        client.delete_job(job.id)


def test_nobody_listening_is_told_from_no_answer() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    with Bellwether(address, retries=0) as client, pytest.raises(ConnectionFailed) as failed:
        client.get_job("x")
    assert failed.value.refused

    async def scenario() -> None:
        async with AsyncBellwether(address, retries=0) as client:
            with pytest.raises(ConnectionFailed) as failed:
                await client.get_job("x")
            assert failed.value.refused

    asyncio.run(scenario())


UNKNOWN = 5030
"""For `outcome_unknown`, as servers sent it that said when to ask again also then."""


class Script(BaseHTTPRequestHandler):
    """Answers from a list, and notes what it was asked."""

    answers: list[int]
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.command)
        self.rfile.read(int(self.headers.get("content-length", 0)))
        status = self.answers.pop(0)
        if status == 0:
            return  # The connection ends without an answer.
        code = "overloaded"
        if status == UNKNOWN:
            status, code = 503, "outcome_unknown"
        body = json.dumps({"status": status, "code": code, "detail": "x", "items": []})
        self.send_response(status)
        if status == 503:
            self.send_header("retry-after", "0")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    do_POST = do_GET  # noqa: N815

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def script() -> Iterator[Callable[[list[int]], tuple[Bellwether, list[str]]]]:
    server = HTTPServer(("127.0.0.1", 0), Script)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    clients: list[Bellwether] = []

    def script(answers: list[int]) -> tuple[Bellwether, list[str]]:
        Script.answers, Script.asked = answers, []
        clients.append(Bellwether(f"127.0.0.1:{server.server_port}"))
        return clients[-1], Script.asked

    yield script
    for client in clients:
        client.close()
    server.shutdown()
    server.server_close()


def test_requests_are_repeated_only_where_that_is_safe(
    script: Callable[[list[int]], tuple[Bellwether, list[str]]],
) -> None:
    client, asked = script([0, 500, 200])
    assert client.list_workers() == []
    assert len(asked) == 3, "a read"
    client, asked = script([0, 200])
    with pytest.raises(UnexpectedAnswer):
        client.create_job({**YEARLY, "key": "k"})
    assert len(asked) == 2, "creation under a key"
    client, asked = script([0])
    with pytest.raises(ConnectionFailed):
        client.create_job(YEARLY)
    assert len(asked) == 1, "it may have been created"
    client, asked = script([0])
    with pytest.raises(ConnectionFailed):
        client.trigger("k")
    assert len(asked) == 1, "it may have been triggered"
    client, asked = script([503, 503, 503, 503])
    with pytest.raises(Unavailable):
        client.trigger("k")
    assert len(asked) == 4, "the server has not done it, and says when to ask again"
    changes: list[Callable[[Bellwether], object]] = [
        lambda client: client.trigger("k"),
        lambda client: client.create_job(YEARLY),
    ]
    for change in changes:
        client, asked = script([UNKNOWN])
        with pytest.raises(Unavailable) as unknown:
            change(client)
        assert unknown.value.code == "outcome_unknown"
        assert len(asked) == 1, "it may have been done"
    client, asked = script([UNKNOWN, 200])
    assert client.list_workers() == []
    assert len(asked) == 2, "a read"
    client, asked = script([UNKNOWN, 200])
    with pytest.raises(UnexpectedAnswer):
        client.create_job({**YEARLY, "key": "k"})
    assert len(asked) == 2, "creation under a key"


def test_addresses_may_be_short_or_whole() -> None:
    for text, url in [
        ("127.0.0.1:2355", "http://127.0.0.1:2355"),
        ("localhost", "http://localhost:2355"),
        ("[::1]:9000", "http://[::1]:9000"),
        ("https://b.example.com/sub/", "https://b.example.com/sub"),
    ]:
        assert base_url(text) == url
    for bad in ["", "ftp://x", "http://u:p@h", "http://h/?q=1"]:
        with pytest.raises(ValueError, match=r"must|is not"):
            base_url(bad)
