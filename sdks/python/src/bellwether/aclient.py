"""The client for asyncio. `client` has the same for programs without an event loop."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from types import TracebackType
from typing import Any, Literal, TypeVar

import httpx2

from . import exchange
from .calls import Call, Calls, Page, maintenance, merged
from .errors import BellwetherError
from .model import (
    Batch,
    BatchAnswer,
    Group,
    Job,
    JobStatus,
    NextTimes,
    Preview,
    RunEvent,
    RunRecord,
    Tick,
    Why,
    WorkerInfo,
)
from .servers import Servers
from .settings import settings
from .spec import FullSchedule, JobSpec

T = TypeVar("T")


class AsyncBellwether:
    """A connection to a server, for one event loop; tasks may share it.

    What is not given comes from `BELLWETHER_SERVER`, `BELLWETHER_TOKEN`, `BELLWETHER_NAMESPACE`
    and `BELLWETHER_CA_FILE`. A request that fails is sent again, `retries` times at most, if it
    certainly was not done or does no harm when done twice.

    Of a cluster several servers may be given, with commas between them. The first that can be
    reached is asked, and then stays the one that is asked first.
    """

    def __init__(
        self,
        server: str | None = None,
        *,
        token: str | None = None,
        namespace: str | None = None,
        ca_file: str | None = None,
        timeout: float = 60.0,
        retries: int = 3,
    ) -> None:
        self._settings = settings(server, token, namespace, ca_file)
        self._servers = Servers(self._settings.bases)
        self._calls = Calls(self._settings.namespace)
        self._retries = retries
        self._http = httpx2.AsyncClient(
            headers=self._settings.headers,
            timeout=self._servers.timeout(timeout),
            verify=self._settings.tls(),
        )

    async def __aenter__(self) -> AsyncBellwether:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def create_job(self, spec: JobSpec) -> Job:
        """Create a job. One that is there with the same key and body is returned."""
        return await self._send(self._calls.create_job(spec))

    async def create_jobs(self, specs: Iterable[JobSpec]) -> BatchAnswer:
        """Create many jobs, each accepted or refused on its own."""
        return merged([await self._send(call) for call in self._calls.batches(specs)])

    async def create_batch(
        self,
        template: JobSpec,
        items: Iterable[Any],
        *,
        key: str | None = None,
        description: str | None = None,
        on_complete: str | None = None,
        schedule_time: datetime | None = None,
    ) -> Batch:
        """Run a template for each item: all of them are accepted, or none.

        Items are sent as they come, so there may be a million of them. Under a key the same batch
        is created once, however often it is sent.
        """
        head = dict(
            key=key,
            description=description,
            on_complete=on_complete,
            schedule_time=schedule_time,
        )
        return await self._send(self._calls.create_batch(template, items, head))

    async def get_batch(self, batch: str) -> Batch:
        """Return a batch and how far it is, by its id or key."""
        return await self._send(self._calls.get_batch(batch))

    def list_batches(self) -> AsyncIterator[Batch]:
        """List batches, newest first."""
        return self._all(lambda cursor: self._calls.list_batches(cursor))

    async def cancel_batch(self, batch: str, note: str | None = None) -> Batch:
        """Cancel a batch: what has not begun never does, what runs is stopped."""
        return await self._send(self._calls.cancel_batch(batch, note))

    def batch_runs(self, batch: str, *, status: str | None = None) -> AsyncIterator[RunRecord]:
        """List the runs of a batch, newest first; several statuses with commas."""
        return self._all(lambda cursor: self._calls.batch_runs(batch, status, cursor))

    async def put_job(self, key: str, spec: JobSpec) -> Job:
        """Create a job under a key, or replace the one that has it."""
        return await self._send(self._calls.put_job(key, spec))

    async def patch_job(self, job: str, changes: Mapping[str, Any]) -> Job:
        """Change parts of a job: a JSON merge patch, in which `None` removes."""
        return await self._send(self._calls.patch_job(job, changes))

    async def get_job(self, job: str) -> Job:
        """Return a job, by its id or key."""
        return await self._send(self._calls.get_job(job))

    async def delete_job(self, job: str) -> None:
        """Delete a job with its history. Open runs are canceled."""
        await self._send(self._calls.delete_job(job))

    def list_jobs(
        self,
        *,
        group: str | None = None,
        owner: str | None = None,
        status: JobStatus | None = None,
        label: str | None = None,
        key_prefix: str | None = None,
    ) -> AsyncIterator[Job]:
        """List jobs, fetched as they are asked for. A label is written `name=value`."""
        query = dict(group=group, owner=owner, status=status, label=label, key_prefix=key_prefix)
        return self._all(lambda cursor: self._calls.list_jobs(**query, cursor=cursor))

    async def pause_job(self, job: str, note: str | None = None) -> Job:
        """Pause a job: nothing is launched until it is resumed."""
        return await self._send(self._calls.control_job(job, "pause", {"note": note}))

    async def resume_job(self, job: str) -> Job:
        """End a job's pause and its maintenance."""
        return await self._send(self._calls.control_job(job, "resume"))

    async def maintain_job(
        self,
        job: str,
        *,
        until: datetime | None = None,
        lasting: str | None = None,
        note: str | None = None,
    ) -> Job:
        """Put a job into maintenance: its ticks are skipped, and shown as such."""
        body = maintenance(until, lasting, note)
        return await self._send(self._calls.control_job(job, "maintenance", body))

    async def trigger(self, job: str) -> str:
        """Run a job now, also one that is paused; returns the run's id.

        Of a job that runs on all workers it is the first of several.
        """
        return await self._send(self._calls.trigger(job))

    async def trigger_runs(self, job: str) -> list[str]:
        """Run a job now; returns the ids of all its runs: several if it runs on all workers."""
        return await self._send(self._calls.trigger_runs(job))

    async def next_times(self, job: str, count: int | None = None) -> NextTimes:
        """Return the next planned times of a job."""
        return await self._send(self._calls.next_times(job, count))

    async def why(self, job: str, at: datetime | None = None) -> Why:
        """Say in words why a job did or did not run at a time; now if there is none."""
        return await self._send(self._calls.why(job, at))

    def ticks(self, job: str) -> AsyncIterator[Tick]:
        """List what became of each tick of a job, newest first."""
        return self._all(lambda cursor: self._calls.ticks(job, cursor))

    async def preview(
        self,
        schedule: str | FullSchedule,
        *,
        count: int | None = None,
        start: datetime | None = None,
    ) -> Preview:
        """Say what a schedule means and when it would fire."""
        return await self._send(self._calls.preview(schedule, count, start))

    def list_runs(
        self,
        job: str | None = None,
        *,
        status: str | None = None,
        queue: str | None = None,
        group: str | None = None,
    ) -> AsyncIterator[RunRecord]:
        """List runs, newest first: of a job, or of all that the filters leave."""
        if job is not None:
            if status or queue or group:
                raise ValueError("runs of one job cannot be filtered")
            return self._all(lambda cursor: self._calls.runs_of_job(job, cursor))
        query = dict(status=status, queue=queue, group=group)
        return self._all(lambda cursor: self._calls.list_runs(**query, cursor=cursor))

    async def get_run(self, run: str) -> RunRecord:
        """Return a run with its attempts."""
        return await self._send(self._calls.get_run(run))

    async def run_events(self, run: str) -> list[RunEvent]:
        """Return what happened to a run, oldest first."""
        return (await self._send(self._calls.run_events(run))).items

    async def cancel_run(self, run: str) -> None:
        """Cancel a run. One that is under way is stopped."""
        await self._send(self._calls.control_run(run, "cancel"))

    async def retry_run(self, run: str) -> None:
        """Give a run that has ended badly another go, under the same idempotency key."""
        await self._send(self._calls.control_run(run, "retry"))

    async def output(
        self,
        run: str,
        *,
        attempt: int | None = None,
        stream: Literal["stdout", "stderr"] | None = None,
    ) -> str:
        """Return what a run printed; of its last attempt if there is none given."""
        return await self._send(self._calls.output(run, attempt, stream))

    async def follow_output(
        self,
        run: str,
        *,
        attempt: int | None = None,
        stream: Literal["stdout", "stderr"] | None = None,
    ) -> AsyncIterator[str]:
        """Yield what a run prints as it is printed, until the run has ended."""
        call = self._calls.output(run, attempt, stream, follow=True)
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        forever = self._servers.timeout(None)
        turn = self._servers.round()
        while True:
            try:
                async with self._http.stream(
                    "GET", turn.url(call.path), params=call.query, timeout=forever
                ) as response:
                    turn.answered()
                    if response.status_code >= 300:
                        body = await response.aread()
                        raise exchange.refusal(response.status_code, response.headers, body)
                    async for chunk in response.aiter_bytes():
                        if text := decoder.decode(chunk):
                            yield text
                    return
            except httpx2.HTTPError as error:
                turn.failed(error)

    def list_groups(self) -> AsyncIterator[Group]:
        """List groups, by namespace and name."""
        return self._all(lambda cursor: self._calls.list_groups(cursor))

    async def pause_group(self, group: str, note: str | None = None) -> None:
        """Pause all jobs of a group, present and future."""
        await self._send(self._calls.control_group(group, "pause", {"note": note}))

    async def resume_group(self, group: str) -> None:
        """End a group's pause and its maintenance."""
        await self._send(self._calls.control_group(group, "resume"))

    async def maintain_group(
        self,
        group: str,
        *,
        until: datetime | None = None,
        lasting: str | None = None,
        note: str | None = None,
    ) -> None:
        """Put a group into maintenance: ticks of its jobs are skipped, and shown as such."""
        body = maintenance(until, lasting, note)
        await self._send(self._calls.control_group(group, "maintenance", body))

    async def list_workers(self) -> list[WorkerInfo]:
        """List the workers."""
        return (await self._send(self._calls.list_workers())).items

    async def drain_worker(self, worker: str) -> None:
        """Make a worker take nothing more. What it has it finishes."""
        await self._send(self._calls.drain_worker(worker))

    async def _send(self, call: Call[T]) -> T:
        attempt = 0
        while True:
            try:
                return await self._send_once(call)
            except BellwetherError as error:
                pause = exchange.pause_before_retry(call, error, attempt)
                if pause is None or attempt >= self._retries:
                    raise
            attempt += 1
            await asyncio.sleep(pause)

    async def _send_once(self, call: Call[T]) -> T:
        turn = self._servers.round()
        while True:
            # Lines are begun when there is a connection to send them by, so not before it is made.
            body = call.body if call.lines is None else call.lines.pieces_async()
            headers = {} if body is None else {"content-type": call.content_type}
            url = turn.url(call.path)
            try:
                response = await self._http.request(
                    call.method, url, params=call.query, content=body, headers=headers
                )
                break
            except httpx2.HTTPError as error:
                turn.failed(error)
        turn.answered()
        return exchange.answer(call, response.status_code, response.headers, response.content)

    async def _all(self, fetch: Callable[[str | None], Call[Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            page = await self._send(fetch(cursor))
            for item in page.items:
                yield item
            # An empty page is not the end: only a missing cursor is.
            if (cursor := page.next_cursor) is None:
                return
