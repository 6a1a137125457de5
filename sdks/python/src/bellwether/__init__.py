"""Bellwether from Python: jobs through a client, handlers through a worker.

`Bellwether` and `AsyncBellwether` create, query and control jobs and runs. `Worker` runs
functions of this program when jobs with their `job_type` are due.
"""

from .aclient import AsyncBellwether
from .client import Bellwether
from .errors import (
    BellwetherError,
    Conflict,
    ConnectionFailed,
    Forbidden,
    InvalidRequest,
    NotFound,
    ProblemError,
    ServerFailed,
    TimedOut,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
)
from .model import (
    Attempt,
    Batch,
    BatchAnswer,
    BatchProblem,
    BatchResult,
    Group,
    Job,
    LastRun,
    Mark,
    NextTimes,
    OnComplete,
    Preview,
    Resources,
    RunEvent,
    RunRecord,
    Tick,
    Why,
    WorkerInfo,
)
from .spec import FullSchedule, JobSpec
from .work.logs import RunLogHandler
from .work.run import FailForGood, HandBack, Run
from .work.worker import Worker

__all__ = [
    "AsyncBellwether",
    "Attempt",
    "Batch",
    "BatchAnswer",
    "BatchProblem",
    "BatchResult",
    "Bellwether",
    "BellwetherError",
    "Conflict",
    "ConnectionFailed",
    "FailForGood",
    "Forbidden",
    "FullSchedule",
    "Group",
    "HandBack",
    "InvalidRequest",
    "Job",
    "JobSpec",
    "LastRun",
    "Mark",
    "NextTimes",
    "NotFound",
    "OnComplete",
    "Preview",
    "ProblemError",
    "Resources",
    "Run",
    "RunEvent",
    "RunLogHandler",
    "RunRecord",
    "ServerFailed",
    "Tick",
    "TimedOut",
    "Unauthorized",
    "Unavailable",
    "UnexpectedAnswer",
    "Why",
    "Worker",
    "WorkerInfo",
]
