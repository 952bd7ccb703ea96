"""Run the commands of README.md here, which make the tables and figures of the papers, one after the other.

    LAPSVM_TEST_DATA=DATA python benchmarks/papers/everything.py [--quick] [--out build/papers]

In a command DATA is the folder that LAPSVM_TEST_DATA names, OUT the folder of results, and another word in capitals the
environment variable of its name. A command is left out, and it is said, where such a variable or a path below DATA is
not there. With --quick every command runs on small made data, and needs none.
"""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import click
from lapsvm.pipelines.cli.study import Given, study_command

PAGE = Path(__file__).with_name("README.md")
ROOT = PAGE.parents[2]
VARIABLE = re.compile(r"(?<![\w-])(?:DATA|OUT|[A-Z0-9]{2,}_[A-Z0-9_]+)\b")


def commands() -> Iterator[str]:
    """Yield the commands of the page's tables, each once, in their order."""
    rows = "".join(line for line in PAGE.read_text("utf-8").splitlines(keepends=True) if line.startswith("|"))
    yield from dict.fromkeys(re.findall(r"`(python benchmarks/[^`]+)`", rows))


def words_of(command: str, values: Mapping[str, str]) -> list[str]:
    """Return the words of a command after `python`, its variables replaced."""
    return [VARIABLE.sub(lambda found: values[found.group()], word) for word in shlex.split(command)[1:]]


def missing(command: str, values: Mapping[str, str]) -> list[str]:
    """Return the missing requirements of a command."""
    names = set(VARIABLE.findall(command)) - set(values)
    if names:
        return sorted("LAPSVM_TEST_DATA" if name == "DATA" else name for name in names)
    paths = [word for word in shlex.split(command) if word.startswith("DATA/")]
    return [path for path in paths if not Path(values["DATA"], path.removeprefix("DATA/")).exists()]


def values_of(out: Path, *, quick: bool) -> dict[str, str]:
    """Return the value of each variable that is there."""
    if quick:  # data that no command reads then
        return {
            "OUT": str(out),
            "DATA": ".",
            "VOC2007_ROOT": ".",
            "STORE_FOLDER": f"{out}/store",
            "ALEXNET_WEIGHTS": "random",
        }
    data = {"DATA": os.environ["LAPSVM_TEST_DATA"]} if "LAPSVM_TEST_DATA" in os.environ else {}
    return os.environ | {"OUT": str(out)} | data


@study_command
def main(
    out: Annotated[Path, Given(help="Folder of results.")] = ROOT / "build" / "papers",
    quick: Annotated[bool, Given("--quick", help="Small made data, seconds each.")] = False,
) -> None:
    """Run every command whose data are there."""
    values, failed = values_of(out, quick=quick), []
    threads = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    for command in commands():
        click.echo(f"\n## {command}\n")
        if not quick and (lacks := missing(command, values)):
            click.echo(f"Left out: {', '.join(lacks)} is not there.")
            continue
        words = [sys.executable, *words_of(command, values), *(["--quick"] if quick else [])]
        if subprocess.run(words, cwd=ROOT, env=os.environ | threads, check=False).returncode:
            failed.append(command)
    if failed:
        click.echo("\nFailed:\n" + "\n".join(failed))
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
