"""The programs in the manual do what they say."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server import ROOT, Server, ended, until

from bellwether import Bellwether

PAGE = (ROOT / "docs" / "sdk-python.md").read_text()
PROGRAMS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("number", "result"), [(0, 3), (1, {"receipt": 7})])
def test_programs_of_the_manual_work(
    client: Bellwether, server: Server, tmp_path: Path, number: int, result: object
) -> None:
    assert len(PROGRAMS) == 2
    program = tmp_path / "program.py"
    program.write_text(PROGRAMS[number])
    key = re.findall(r'"key": "([^"]+)"', PROGRAMS[number])[0]
    environment = {**os.environ, "BELLWETHER_SERVER": server.address}
    process = subprocess.Popen([sys.executable, str(program)], env=environment)
    try:
        job = until("its job is there", lambda: next(client.list_jobs(key_prefix=key), None))
        run = ended(client, job.id)
        assert (run.status, run.result) == ("succeeded", result)
        assert "ana" in client.output(run.id).lower()
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
