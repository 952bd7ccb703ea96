"""What an installation from the source costs: `python benchmarks/install_time.py`.

    python benchmarks/install_time.py [--extras photos] [--rounds 1] [--demo]

The files that git knows are copied into a temporary folder, so that nothing is compiled already, and installed into a
fresh virtual environment with the pinned versions of `constraints.txt`. CPU seconds are of all processes. The first
round may include downloads, later ones find them in pip's cache. "kernels" is `python setup.py build` alone. With
--demo it is also `make demo` on another copy, its installation included.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

from lapsvm.pipelines.cli.study import Given, print_table, study_command

SOURCE = Path(__file__).resolve().parents[1]
BUILD = ("setuptools", "Cython", "numpy")  # what pyproject.toml asks for to build the kernels


@study_command
def main(
    extras: str = "",
    rounds: int = 1,
    demo: Annotated[bool, Given("--demo", help="Time make demo, too.")] = False,
) -> None:
    """Install the source, with extras as in pip's brackets."""
    print_table(["what", "wall s", "CPU s"], (row for _ in range(rounds) for row in measured(extras, demo)))


def measured(extras: str, demo: bool) -> Iterator[list[str]]:
    """Install a copy into a fresh environment, then build its kernels alone; yield the row of each."""
    named = f".[{extras}]" if extras else "."
    with tempfile.TemporaryDirectory() as folder:
        source, python = copied(Path(folder, "source")), fresh(Path(folder, "venv"))
        pip = [python, "-m", "pip", "--quiet", "install", "-c", "constraints.txt"]
        yield timed(f"`pip install {named}`", [*pip, named], source)
        subprocess.run([*pip, *BUILD], cwd=source, check=True)
        yield timed("kernels", [python, "setup.py", "--quiet", "build"], copied(Path(folder, "kernels")))
        if demo:
            line = ["make", "--quiet", "demo", f"PYTHON={sys.executable}"]
            yield timed("`make demo`", line, copied(Path(folder, "demo")))


def copied(folder: Path) -> Path:
    """Return the folder, with a copy of the files that git knows."""
    names = subprocess.run(["git", "ls-files", "-z"], cwd=SOURCE, capture_output=True, check=True).stdout.split(b"\0")
    for name in filter(None, map(os.fsdecode, names)):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((SOURCE / name).read_bytes())
    return folder


def fresh(folder: Path) -> str:
    """Return the Python of a new virtual environment."""
    subprocess.run([sys.executable, "-m", "venv", folder], check=True)
    return str(folder / "bin" / "python")


def timed(what: str, line: Sequence[str], folder: Path) -> list[str]:
    """Run a command in a folder, and return the row of its seconds."""
    before, started = spent(), time.perf_counter()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(line, cwd=folder, env=clean, stdout=subprocess.DEVNULL, check=True)
    return [what, f"{time.perf_counter() - started:.0f}", f"{spent() - before:.0f}"]


def spent() -> float:
    """Return the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
