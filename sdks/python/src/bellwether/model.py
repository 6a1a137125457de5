"""What the server answers, as dataclasses. Instants are `datetime`s with a zone."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

JobStatus = Literal["scheduled", "running", "paused", "completed", "failed", "canceled"]
RunStatus = Literal[
    "scheduled",
    "queued",
    "claimed",
    "running",
    "retrying",
    "succeeded",
    "failed",
    "canceled",
    "lost",
    "skipped",
]
BatchStatus = Literal["scheduled", "running", "canceling", "completed", "canceled"]
TickFate = Literal["fired", "late", "merged", "skipped", "triggered"]
TargetWorkers = Literal["any", "all"]


@dataclass(frozen=True)
class Mark:
    """Who set something, when, until when and why."""

    at: datetime
    by: str
    note: str = ""
    until: datetime | None = None


@dataclass(frozen=True)
class Resources:
    """What one attempt is expected to use, or what a worker offers all of its attempts."""

    cpu: float | None = None
    memory: str | None = None


@dataclass(frozen=True)
class LastRun:
    """How the last run of a job ended."""

    id: str
    status: RunStatus
    scheduled_at: datetime
    finished_at: datetime


@dataclass(frozen=True)
class Job:
    """A job as the server has it."""

    id: str
    status: JobStatus
    schedule_text: str
    created_at: datetime
    updated_at: datetime
    revision: int
    runs: int
    shard: int
    namespace: str = "default"
    key: str | None = None
    description: str | None = None
    group: str | None = None
    owner: str | None = None
    labels: dict[str, str] = field(default_factory=dict)
    enabled: bool | None = None
    execution_time: datetime | None = None
    schedule: Any = None
    schedule_time: datetime | None = None
    command: str | list[str] | None = None
    env: dict[str, str] = field(default_factory=dict)
    cwd: str | None = None
    user: str | None = None
    shell: str | None = None
    stdin: str | None = None
    memory_limit: str | None = None
    http: dict[str, Any] | None = None
    publish: dict[str, Any] | None = None
    job_type: str | None = None
    payload: Any = None
    queue: str = "default"
    requires: dict[str, str] = field(default_factory=dict)
    resources: Resources | None = None
    target_workers: TargetWorkers | None = None
    priority: int | None = None
    ordering_key: str | None = None
    on_failure: str | None = None
    retries: int | None = None
    retry: dict[str, Any] | None = None
    delivery: str | None = None
    misfire: Any = None
    overlap: Any = None
    timeout: str | None = None
    grace: str | None = None
    expires_after: str | None = None
    success: dict[str, Any] | None = None
    retention: dict[str, Any] | None = None
    notify: list[Any] | None = None
    paused: Mark | None = None
    maintenance: Mark | None = None
    group_paused: Mark | None = None
    group_maintenance: Mark | None = None
    batch: str | None = None
    last_run: LastRun | None = None
    open_runs: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Attempt:
    """One attempt of a run."""

    number: int
    worker: str
    fencing_token: int
    claimed_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    outcome: str | None = None
    reason: str | None = None
    detail: str | None = None
    exit_code: int | None = None
    signal: int | None = None
    response: dict[str, Any] | None = None
    result: Any = None
    output_bytes: int | None = None
    output_dropped_bytes: int | None = None
    cpu_ms: int | None = None
    memory_max_bytes: int | None = None


@dataclass(frozen=True)
class RunRecord:
    """One execution of a job for one tick, as the server has it."""

    id: str
    job_id: str
    namespace: str
    queue: str
    number: int
    cause: str
    status: RunStatus
    scheduled_at: datetime
    idempotency_key: str
    attempts: list[Attempt]
    key: str | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    duration_ms: int | None = None
    next_attempt_at: datetime | None = None
    pinned_to: str | None = None
    held_by: str | None = None
    exit_code: int | None = None
    reason: str | None = None
    detail: str | None = None

    @property
    def result(self) -> Any:
        """What the last attempt returned."""
        return self.attempts[-1].result if self.attempts else None


@dataclass(frozen=True)
class RunEvent:
    """Something that happened to a run."""

    at: datetime
    event: str
    attempt: int | None = None
    worker: str | None = None
    fencing_token: int | None = None
    next_attempt_at: datetime | None = None
    exit_code: int | None = None
    signal: int | None = None
    response_status: int | None = None
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class Tick:
    """A due instant of a job, or several in a row with the same fate, and what became of it."""

    at: datetime
    fate: TickFate
    decided_at: datetime
    count: int
    count_is_minimum: bool = False
    until: datetime | None = None
    merged_into: datetime | None = None
    run_id: str | None = None
    runs: int | None = None
    reason: str | None = None
    detail: str | None = None


@dataclass(frozen=True)
class NextTimes:
    """The next planned times of a job."""

    description: str
    times: list[datetime]


@dataclass(frozen=True)
class Preview:
    """What a schedule means, and when it would fire."""

    description: str
    times: list[datetime]


@dataclass(frozen=True)
class Why:
    """Why a job did or did not run, in words."""

    answer: str
    details: list[str]
    ticks: list[Tick]
    next: list[datetime]


@dataclass(frozen=True)
class Group:
    """A group of jobs."""

    name: str
    namespace: str
    jobs: int
    jobs_is_minimum: bool
    paused: Mark | None = None
    maintenance: Mark | None = None


@dataclass(frozen=True)
class WorkerInfo:
    """A worker as the server knows it."""

    name: str
    state: str
    queues: list[str]
    labels: dict[str, str]
    running: int
    slots: dict[str, int]
    version: str
    job_types: list[str] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    connected_at: datetime | None = None
    heard_at: datetime | None = None
    namespace: str | None = None
    resources: Resources | None = None
    node: str = ""


@dataclass(frozen=True)
class OnComplete:
    """What follows a batch: the job, and the run that was triggered or why none was."""

    job: str
    run: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class Batch:
    """A batch and how far it is. All counts but `total` add up to `total`."""

    id: str
    namespace: str
    status: BatchStatus
    total: int
    waiting: int
    retrying: int
    running: int
    succeeded: int
    failed: int
    canceled: int
    lost: int
    skipped: int
    created_at: datetime
    created_by: str
    key: str | None = None
    description: str | None = None
    schedule_time: datetime | None = None
    finished_at: datetime | None = None
    cancel: Mark | None = None
    on_complete: OnComplete | None = None
    template: dict[str, Any] | None = None

    @property
    def is_over(self) -> bool:
        """Whether all of it has ended, one way or another."""
        return self.status in ("completed", "canceled")


@dataclass(frozen=True)
class BatchProblem:
    """Why one job of many was refused."""

    status: int
    code: str
    detail: str
    title: str = ""
    type: str = ""
    field: str | None = None


@dataclass(frozen=True)
class BatchResult:
    """What became of one job of many."""

    status: int
    id: str | None = None
    error: BatchProblem | None = None


@dataclass(frozen=True)
class BatchAnswer:
    """What became of many jobs: a result for each, in order."""

    created: int
    existing: int
    failed: int
    results: list[BatchResult]
