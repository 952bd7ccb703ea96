"""A run folder in which somebody changed a file: every verb goes on, or ends with one line and status 2."""

import json
import os
import shutil
import tempfile
import tomllib
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from .binaries import safetensors_files
from .law import Data, content, in_time, keep, until
from .trees import damaged, json_files, json_lines, tables, toml_files

SECONDS = float(os.environ.get("FUZZ_SECONDS", "0"))
VERBS = {
    "train": [], "detect": [], "evaluate": [], "report": [], "verify": [], "verify --remove": [],
    "review": ["--page", "page.html"],
    "export": ["--format", "coco", "--set", "test", "--to", "exported"],
}  # fmt: skip
LINES = 30
"""Lines of standard error that a verb may have before it is a traceback: notes on the data, and tables."""


def _toml(data):
    return toml_files({f"{table}.{name}": value for table, values in tomllib.loads(data.decode()).items()
                       for name, value in (values.items() if isinstance(values, dict) else ())})  # fmt: skip


def _changed(suffix, data):
    return CHANGED.get(suffix, damaged)(data) | damaged(data)


def _rows(separator):
    return lambda data: tables([line.split(separator) for line in data.decode().splitlines()], (separator,))


CHANGED = {
    ".json": lambda data: json_files(json.loads(data)),
    ".jsonl": lambda data: json_lines([json.loads(line) for line in data.splitlines()]),
    ".toml": _toml,
    ".csv": _rows(","),
    ".txt": _rows(" "),
    ".safetensors": lambda data: safetensors_files(data, b'"lapsvm shard 1' in data or b"lapsvm shard 1" in data),
    "": damaged,
}


def kinds(run):
    """Return the files of a run to change, one of each kind and folder."""
    found = {}
    for path in sorted(run.rglob("*")):
        if path.is_file() and path.suffix != ".html":
            found.setdefault((path.parent, path.suffix, path.name[:1]), path)
    return [path.relative_to(run) for path in found.values()]


def test_a_changed_file_of_a_run_is_used_or_named(finished, digits, command):
    names, before = kinds(finished), sorted(digits.rglob("*"))
    changes = st.sampled_from(names).flatmap(
        lambda name: st.tuples(st.just(name), _changed(name.suffix, (finished / name).read_bytes()).map(Data))
    )

    @settings(
        max_examples=12, deadline=None, derandomize=not SECONDS, database=None, suppress_health_check=list(HealthCheck)
    )
    @given(changes, st.sampled_from(sorted(VERBS)))
    def search(change, verb):
        with tempfile.TemporaryDirectory() as root:
            run = Path(shutil.copytree(finished, Path(root) / "RUN"))
            (run / change[0]).write_bytes(change[1])
            try:
                _check(command, verb, run, Path(root))
            except BaseException:
                keep(f"run-{verb.replace(' ', '')}", {str(change[0]): change[1]})
                raise
        assert sorted(digits.rglob("*")) == before

    for _ in until(SECONDS / 4):
        search()


def _check(command, verb, run, root):
    """Check that a verb ends well, or in one line; and that a refusal writes nothing."""
    given_, more = content(run), [str(root / one) if one in ("page.html", "exported") else one for one in VERBS[verb]]
    with in_time(60):
        said = command(*verb.split(), "--out", run, *more, *([] if verb in ("review", "export") else ["--quiet"]))
    lines = said.err.splitlines()
    assert said.status in (0, 2), said
    assert len(lines) < LINES, said.err
    assert not any(line.startswith("Traceback") for line in lines), said.err
    if said.status == 2:
        assert lines[-1].startswith("lapsvm: "), said.err
        if verb.partition(" ")[0] not in ("train", "detect"):
            after = content(run)
            assert {name: after.get(name) for name in given_} == given_
