"""Jobs as callers describe them: the request bodies of the API, key for key.

The server checks them and says what is wrong with which field; docs/schedules.md and
docs/targets.md say what each means. Durations are texts such as `90s`, instants RFC 3339, sizes
texts such as `512M` or numbers of bytes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

JsonValue = Any
"""Whatever JSON can say."""


class Dst(TypedDict, total=False):
    """What happens when clocks are changed."""

    fold: Literal["first", "second", "both"]
    gap: Literal["run_after", "skip"]


class ScheduleRule(TypedDict, total=False):
    """One rule of a union or exclusion: exactly one field."""

    cron: str
    every: str
    at: str
    delay: str


class Schedule(ScheduleRule, total=False):
    """When a job is due: exactly one of `cron`, `every`, `rate`, `at`, `delay` or `any`."""

    rate: str
    any: Sequence[str | ScheduleRule]
    after: Literal["start", "finish"]
    day_match: Literal["either", "both"]
    dst: Dst
    end: str
    jitter: str
    max_runs: int
    start: str
    timezone: str


_Except = TypedDict("_Except", {"except": Sequence[str | ScheduleRule]}, total=False)


class FullSchedule(Schedule, _Except, total=False):
    """A schedule, with `except`."""


class BasicAuth(TypedDict):
    """User and password."""

    username: str
    password: str


class HttpAuth(TypedDict, total=False):
    """How to authenticate: exactly one field."""

    basic: BasicAuth
    bearer: str


class _Url(TypedDict):
    url: str


class HttpTarget(_Url, total=False):
    """A request to make."""

    method: str
    headers: Mapping[str, str]
    body: JsonValue
    auth: HttpAuth
    connect_timeout: str
    follow_redirects: bool


class _Nats(TypedDict):
    url: str
    subject: str


class NatsTarget(_Nats, total=False):
    """A subject of NATS."""

    jetstream: bool


class _Amqp(TypedDict):
    url: str


class AmqpTarget(_Amqp, total=False):
    """An exchange of RabbitMQ, or of another broker that speaks AMQP 0.9.1."""

    exchange: str
    routing_key: str


class _Kafka(TypedDict):
    brokers: Sequence[str]
    topic: str


class KafkaTarget(_Kafka, total=False):
    """A topic of Kafka."""

    key: str
    tls: bool
    sasl: BasicAuth


class PublishTarget(TypedDict, total=False):
    """A message to hand to a broker: exactly one of `nats`, `amqp` and `kafka`."""

    nats: NatsTarget
    amqp: AmqpTarget
    kafka: KafkaTarget
    headers: Mapping[str, str]
    body: JsonValue


class ResourcesSpec(TypedDict, total=False):
    """What one attempt is expected to use: processors, and memory such as `512M` or in bytes."""

    cpu: float | str
    memory: str | int


class Misfire(TypedDict, total=False):
    """What happens to ticks that nothing could fire in time."""

    policy: Literal["once", "skip", "all"]
    window: str
    max: int


class Overlap(TypedDict, total=False):
    """What happens to a tick while a run of the job is open."""

    policy: Literal["skip", "queue", "replace", "allow"]
    max: int


class Retry(TypedDict, total=False):
    """Retries after a known failure."""

    max: int
    initial: str
    factor: float
    max_delay: str
    jitter: float


class Retention(TypedDict, total=False):
    """How long to keep what happened."""

    age: str
    runs: int


class Success(TypedDict, total=False):
    """What counts as success."""

    exit_codes: Sequence[int]
    status_codes: Sequence[int | str]
    output_matches: str
    output_must_not_match: str
    json_path: str
    json_equals: JsonValue


class JobSpec(TypedDict, total=False):
    """A job: when (`schedule`), what (`command`, `http`, `publish` or `job_type`) and how."""

    key: str
    namespace: str
    description: str
    group: str
    owner: str
    labels: Mapping[str, str]
    enabled: bool
    schedule: str | FullSchedule
    schedule_time: str
    command: str | Sequence[str]
    env: Mapping[str, str]
    cwd: str
    user: str
    shell: str
    stdin: str
    memory_limit: str | int
    http: HttpTarget
    publish: PublishTarget
    job_type: str
    payload: JsonValue
    queue: str
    requires: Mapping[str, str]
    resources: ResourcesSpec
    target_workers: Literal["any", "all"]
    priority: int
    ordering_key: str
    on_failure: Literal["block", "continue"]
    retries: int
    retry: Retry
    delivery: Literal["at_most_once", "at_least_once"]
    misfire: Literal["once", "skip", "all"] | Misfire
    overlap: Literal["skip", "queue", "replace", "allow"] | Overlap
    timeout: str
    grace: str
    expires_after: str
    success: Success
    retention: Retention
    notify: Sequence[Mapping[str, JsonValue]]
