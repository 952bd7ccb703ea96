"""What an installation from the source costs: `python benchmarks/install_time.py`.

    python benchmarks/install_time.py [--extras photos] [--rounds 1] [--demo]

The files that git knows are copied into a temporary folder, so that nothing is compiled already, and installed into a
fresh virtual environment with the pinned versions of `constraints.txt`. CPU seconds are of all processes. The first
round may include downloads, later ones find them in pip's cache. "kernels" is `python setup.py build` alone. With
--demo it is also `make demo` on another copy, its installation included.
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1]
BUILD = ("setuptools", "Cython", "numpy")  # what pyproject.toml asks for to build the kernels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--extras", default="", help="as in pip's brackets")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--demo", action="store_true")
    given = parser.parse_args()
    print("| what | wall s | CPU s |\n|---|---|---|", flush=True)
    for _ in range(given.rounds):
        with tempfile.TemporaryDirectory() as folder:
            measure_install(Path(folder), f".[{given.extras}]" if given.extras else ".")
            if given.demo:
                show(
                    "`make demo`", ["make", "--quiet", "demo", f"PYTHON={sys.executable}"], copied(Path(folder, "demo"))
                )


def measure_install(folder: Path, named: str) -> None:
    """Install a copy into a fresh environment, then build its kernels alone."""
    source, python = copied(folder / "source"), fresh(folder / "venv")
    pip = [python, "-m", "pip", "--quiet", "install", "-c", "constraints.txt"]
    show(f"`pip install {named}`", [*pip, named], source)
    subprocess.run([*pip, *BUILD], cwd=source, check=True)
    show("kernels", [python, "setup.py", "--quiet", "build"], copied(folder / "kernels"))


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


def show(what: str, line: Sequence[str], folder: Path) -> None:
    """Run a command in a folder, and print its seconds as a row."""
    before, started = spent(), time.perf_counter()
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run(line, cwd=folder, env=clean, stdout=subprocess.DEVNULL, check=True)
    print(f"| {what} | {time.perf_counter() - started:.0f} | {spent() - before:.0f} |", flush=True)


def spent() -> float:
    """Return the CPU seconds of all processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
