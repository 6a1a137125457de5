"""Every request of the API as a value: built and read here, sent by either client.

A call says whether it may be sent twice. Reads may, and so may creating under a key, which the
server answers with what is there. The rest is sent again only if it certainly was not done.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import Any, Generic, TypeVar, cast
from urllib.parse import quote

from . import model
from .decode import decode
from .lines import Lines
from .spec import FullSchedule, JobSpec
from .times import format_instant

T = TypeVar("T")
BATCH_MAX = 10_000
"""The most jobs that a server takes with one request."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request, and how to read its answer."""

    method: str
    path: str
    read: Callable[[bytes], T]
    query: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    repeatable: bool = False
    lines: Lines | None = None
    """A body that is made while it is sent, instead of `body`."""


@dataclass(frozen=True)
class Page(Generic[T]):
    """Part of a list. If there is a cursor, there may be more."""

    items: list[T]
    next_cursor: str | None


def read_as(kind: type[T]) -> Callable[[bytes], T]:
    """Say how to read a body as a dataclass."""
    return lambda body: decode(kind, json.loads(body))


def _pages(kind: type[T]) -> Callable[[bytes], Page[T]]:
    def read(body: bytes) -> Page[T]:
        page = json.loads(body)
        return Page([decode(kind, item) for item in page["items"]], page.get("next_cursor"))

    return read


def _run_id(body: bytes) -> str:
    return cast(str, json.loads(body)["run_id"])


def _run_ids(body: bytes) -> list[str]:
    answer = json.loads(body)
    return cast(list[str], answer.get("run_ids") or [answer["run_id"]])


def _nothing(_answer: bytes) -> None:
    return None


def _text(body: bytes) -> str:
    return body.decode("utf-8", "replace")


def _query(**values: object) -> dict[str, str]:
    def show(value: object) -> str:
        if isinstance(value, datetime):
            return format_instant(value)
        if isinstance(value, bool):
            return "true" if value else "false"
        return str(value)

    return {name: show(value) for name, value in values.items() if value is not None}


def to_body(value: object) -> bytes:
    """Write a value as JSON, refusing what JSON cannot say."""
    return json.dumps(value, allow_nan=False).encode()


def _path(*parts: str) -> str:
    return "/v1/" + "/".join(quote(part, safe=":") for part in parts)


@dataclass(frozen=True)
class Calls:
    """All calls, in one namespace if one is given."""

    namespace: str | None = None

    def _get(self, read: Callable[[bytes], T], *path: str, **query: object) -> Call[T]:
        return Call("GET", _path(*path), read, _query(**query), repeatable=True)

    def _post(self, read: Callable[[bytes], T], *path: str, body: object = None) -> Call[T]:
        of_run = path[0] == "runs"
        query = {} if of_run else _query(namespace=self.namespace)
        content = None if body is None else to_body(body)
        return Call("POST", _path(*path), read, query, content)

    def _placed(self, spec: JobSpec) -> JobSpec:
        if self.namespace is None or "namespace" in spec:
            return spec
        return cast(JobSpec, {**spec, "namespace": self.namespace})

    def create_job(self, spec: JobSpec) -> Call[model.Job]:
        """Create a job."""
        body = to_body(self._placed(spec))
        return Call("POST", "/v1/jobs", read_as(model.Job), body=body, repeatable="key" in spec)

    def batches(self, specs: Iterable[JobSpec]) -> Iterator[Call[model.BatchAnswer]]:
        """Create many jobs, ten thousand with each call."""
        rest = iter(specs)
        while chunk := list(islice(rest, BATCH_MAX)):
            lines = b"".join(to_body(self._placed(spec)) + b"\n" for spec in chunk)
            yield Call(
                "POST",
                "/v1/jobs:batch",
                read_as(model.BatchAnswer),
                body=lines,
                content_type="application/x-ndjson",
                repeatable=all("key" in spec for spec in chunk),
            )

    def create_batch(
        self, template: JobSpec, items: Iterable[object], head: Mapping[str, object]
    ) -> Call[model.Batch]:
        """Create a batch."""
        said = _query(namespace=self.namespace, **head)
        lines = Lines(to_body({**said, "template": template}), items, to_body)
        return Call(
            "POST",
            "/v1/batches",
            read_as(model.Batch),
            content_type="application/x-ndjson",
            repeatable="key" in said,
            lines=lines,
        )

    def get_batch(self, batch: str) -> Call[model.Batch]:
        """Return a batch."""
        return self._get(read_as(model.Batch), "batches", batch, namespace=self.namespace)

    def list_batches(self, cursor: str | None) -> Call[Page[model.Batch]]:
        """Return a page of batches."""
        query = _query(namespace=self.namespace, cursor=cursor)
        return self._get(_pages(model.Batch), "batches", **query)

    def cancel_batch(self, batch: str, note: str | None) -> Call[model.Batch]:
        """Cancel a batch."""
        return self._post(read_as(model.Batch), "batches", batch, "cancel", body={"note": note})

    def batch_runs(
        self, batch: str, status: str | None, cursor: str | None
    ) -> Call[Page[model.RunRecord]]:
        """Return a page of a batch's runs."""
        query = _query(namespace=self.namespace, status=status, cursor=cursor)
        return self._get(_pages(model.RunRecord), "batches", batch, "runs", **query)

    def put_job(self, key: str, spec: JobSpec) -> Call[model.Job]:
        """Create a job under a key, or replace the one that has it."""
        query = _query(namespace=self.namespace)
        body = to_body(spec)
        return Call("PUT", _path("jobs", key), read_as(model.Job), query, body, repeatable=True)

    def patch_job(self, job: str, changes: Mapping[str, Any]) -> Call[model.Job]:
        """Change parts of a job."""
        query = _query(namespace=self.namespace)
        return Call("PATCH", _path("jobs", job), read_as(model.Job), query, to_body(changes))

    def get_job(self, job: str) -> Call[model.Job]:
        """Return a job."""
        return self._get(read_as(model.Job), "jobs", job, namespace=self.namespace)

    def delete_job(self, job: str) -> Call[None]:
        """Delete a job."""
        return Call("DELETE", _path("jobs", job), _nothing, _query(namespace=self.namespace))

    def list_jobs(self, **query: object) -> Call[Page[model.Job]]:
        """Return a page of jobs."""
        return self._get(_pages(model.Job), "jobs", **{"namespace": self.namespace, **query})

    def control_job(self, job: str, verb: str, body: object = None) -> Call[model.Job]:
        """Pause, resume or maintain a job."""
        return self._post(read_as(model.Job), "jobs", job, verb, body=body)

    def trigger(self, job: str) -> Call[str]:
        """Run a job now."""
        return self._post(_run_id, "jobs", job, "trigger")

    def trigger_runs(self, job: str) -> Call[list[str]]:
        """Run a job now, and name all its runs."""
        return self._post(_run_ids, "jobs", job, "trigger")

    def next_times(self, job: str, count: int | None) -> Call[model.NextTimes]:
        """Return the next planned times."""
        query = _query(namespace=self.namespace, count=count)
        return self._get(read_as(model.NextTimes), "jobs", job, "next", **query)

    def why(self, job: str, at: datetime | None) -> Call[model.Why]:
        """Say why a job did or did not run."""
        query = _query(namespace=self.namespace, at=at)
        return self._get(read_as(model.Why), "jobs", job, "why", **query)

    def ticks(self, job: str, cursor: str | None) -> Call[Page[model.Tick]]:
        """Return a page of the ledger."""
        query = _query(namespace=self.namespace, cursor=cursor)
        return self._get(_pages(model.Tick), "jobs", job, "ticks", **query)

    def runs_of_job(self, job: str, cursor: str | None) -> Call[Page[model.RunRecord]]:
        """Return a page of a job's runs."""
        query = _query(namespace=self.namespace, cursor=cursor)
        return self._get(_pages(model.RunRecord), "jobs", job, "runs", **query)

    def list_runs(self, **query: object) -> Call[Page[model.RunRecord]]:
        """Return a page of runs over all jobs."""
        return self._get(_pages(model.RunRecord), "runs", **{"namespace": self.namespace, **query})

    def get_run(self, run: str) -> Call[model.RunRecord]:
        """Return a run."""
        return self._get(read_as(model.RunRecord), "runs", run)

    def run_events(self, run: str) -> Call[Page[model.RunEvent]]:
        """Return what happened to a run."""
        return self._get(_pages(model.RunEvent), "runs", run, "events")

    def control_run(self, run: str, verb: str) -> Call[str]:
        """Cancel a run, or give it another go."""
        return self._post(_run_id, "runs", run, verb)

    def output(
        self, run: str, attempt: int | None, stream: str | None, *, follow: bool = False
    ) -> Call[str]:
        """Return what a run printed."""
        query = _query(attempt=attempt, stream=stream, follow=follow or None)
        return self._get(_text, "runs", run, "output", **query)

    def preview(
        self, schedule: str | FullSchedule, count: int | None, start: datetime | None
    ) -> Call[model.Preview]:
        """Say what a schedule means."""
        asked: dict[str, Any] = dict(_query(**{"from": start}))
        asked.update({"expression": schedule} if isinstance(schedule, str) else schedule)
        if count is not None:
            asked["count"] = count
        path = _path("schedules:preview")
        return Call("POST", path, read_as(model.Preview), body=to_body(asked), repeatable=True)

    def list_groups(self, cursor: str | None) -> Call[Page[model.Group]]:
        """Return a page of groups."""
        query = _query(namespace=self.namespace, cursor=cursor)
        return self._get(_pages(model.Group), "groups", **query)

    def control_group(self, group: str, verb: str, body: object = None) -> Call[None]:
        """Pause, resume or maintain a group."""
        return self._post(_nothing, "groups", group, verb, body=body)

    def list_workers(self) -> Call[Page[model.WorkerInfo]]:
        """Return the workers."""
        return self._get(_pages(model.WorkerInfo), "workers")

    def drain_worker(self, worker: str) -> Call[None]:
        """Make a worker take nothing more."""
        return Call("POST", _path("workers", worker, "drain"), _nothing)


def maintenance(until: datetime | None, lasting: str | None, note: str | None) -> dict[str, str]:
    """Write a request for maintenance."""
    return _query(until=until, note=note, **{"for": lasting})


def merged(answers: Iterable[model.BatchAnswer]) -> model.BatchAnswer:
    """Put the answers of several calls together."""
    created = existing = failed = 0
    results: list[model.BatchResult] = []
    for answer in answers:
        created += answer.created
        existing += answer.existing
        failed += answer.failed
        results += answer.results
    return model.BatchAnswer(created, existing, failed, results)
