"""What the server can say and be told is known here, field by field."""

from __future__ import annotations

import dataclasses
import json
import typing
from typing import Any

import pytest
from server import ROOT

from bellwether import model, spec
from bellwether.calls import Calls

SCHEMAS = json.loads((ROOT / "docs" / "openapi.json").read_text())["components"]["schemas"]
ANSWERS: dict[str, Any] = {
    "Attempt": model.Attempt,
    "Batch": model.Batch,
    "BatchAnswer": model.BatchAnswer,
    "BatchResult": model.BatchResult,
    "Group": model.Group,
    "Job": model.Job,
    "LastRun": model.LastRun,
    "Mark": model.Mark,
    "NextTimes": model.NextTimes,
    "OnComplete": model.OnComplete,
    "Preview": model.Preview,
    "Resources": model.Resources,
    "Run": model.RunRecord,
    "RunEvent": model.RunEvent,
    "Tick": model.Tick,
    "Why": model.Why,
    "Worker": model.WorkerInfo,
}
REQUESTS: dict[str, Any] = {
    "AmqpTarget": spec.AmqpTarget,
    "BasicAuth": spec.BasicAuth,
    "Dst": spec.Dst,
    "HttpAuth": spec.HttpAuth,
    "HttpTarget": spec.HttpTarget,
    "JobSpec": spec.JobSpec,
    "KafkaTarget": spec.KafkaTarget,
    "Misfire": spec.Misfire,
    "NatsTarget": spec.NatsTarget,
    "Overlap": spec.Overlap,
    "PublishTarget": spec.PublishTarget,
    "Resources": spec.ResourcesSpec,
    "Retention": spec.Retention,
    "Retry": spec.Retry,
    "Schedule": spec.FullSchedule,
    "ScheduleRule": spec.ScheduleRule,
    "Success": spec.Success,
}


def fields(schema: str) -> set[str]:
    """Name what an object of the API may have."""
    found = set()
    for part in [SCHEMAS[schema], *SCHEMAS[schema].get("allOf", [])]:
        found |= set(part.get("properties", {}))
        if "$ref" in part:
            found |= fields(part["$ref"].rsplit("/", 1)[-1])
    return found


@pytest.mark.parametrize("schema", ANSWERS)
def test_answers_have_all_fields_of_the_api(schema: str) -> None:
    assert {field.name for field in dataclasses.fields(ANSWERS[schema])} == fields(schema)


@pytest.mark.parametrize("schema", REQUESTS)
def test_requests_have_all_fields_of_the_api(schema: str) -> None:
    assert set(typing.get_type_hints(REQUESTS[schema])) == fields(schema)


def test_a_trigger_names_one_run_or_all() -> None:
    one, all_of_them = Calls().trigger("j"), Calls().trigger_runs("j")
    assert one.read(b'{"run_id": "r-1"}') == "r-1"
    assert all_of_them.read(b'{"run_id": "r-1"}') == ["r-1"]
    several = b'{"run_id": "r-1", "run_ids": ["r-1", "r-2"]}'
    assert (one.read(several), all_of_them.read(several)) == ("r-1", ["r-1", "r-2"])
