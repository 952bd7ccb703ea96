"""Environments that hold lapsvm and what one of its extras names, and nothing else.

Either links to what is installed here, found by the closure of the metadata's requirements: no download, a second each.
Or, if LAPSVM_EXTRAS_WHEEL names a wheel (`make extras-test`), what pip installs with constraints.txt.
"""

import os
import subprocess
import tomllib
import venv
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
OF_USERS = sorted(EXTRAS.keys() - {"dev", "docs"})
WHEEL = os.environ.get("LAPSVM_EXTRAS_WHEEL")


def requirements(name, extras):
    """Return the requirements of a distribution with some extras; those of lapsvm are read from pyproject.toml."""
    if canonicalize_name(name) == "lapsvm":
        texts = [*PROJECT["dependencies"], *(text for extra in extras for text in EXTRAS[extra])]
        wanted = [Requirement(text) for text in texts]
    else:
        wanted = [Requirement(text) for text in distribution(name).requires or ()]
    return [
        one for one in wanted
        if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in ("", *extras))
    ]  # fmt: skip


def closure(extra):
    """Return the names of all distributions that lapsvm and an extra need, "" for none, if all are installed here."""
    found, open_ones = set(), [("lapsvm", frozenset([extra] if extra else []))]
    while open_ones:
        key = open_ones.pop()
        if key not in found:
            found.add(key)
            open_ones += [(canonicalize_name(one.name), frozenset(one.extras)) for one in requirements(*key)]
    names = {name for name, _ in found}
    for name in names:
        distribution(name)
    return names


def missing(extra):
    """Return a distribution of an extra that is not installed here; None if all are, or pip installs them anew."""
    try:
        return None if WHEEL else closure(extra) and None
    except PackageNotFoundError as error:
        return error.name


def linked(folder, extra):
    """Make an environment of links to the distributions of an extra; return its Python."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(folder)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(extra):
        one = distribution(name)
        for top in {file.parts[0] for file in one.files} - {"..", "__pycache__"}:
            if not (site / top).is_symlink():
                (site / top).symlink_to(Path(one.locate_file(top)).resolve())
    return folder / "bin" / "python"


def installed(folder, extra):
    """Make an environment in which pip installs the wheel with an extra; return its Python."""
    venv.EnvBuilder(with_pip=True).create(folder)
    python, wheel = folder / "bin" / "python", WHEEL + (f"[{extra}]" if extra else "")
    pip = [python, "-m", "pip", "--quiet", "--disable-pip-version-check", "install", "-c", ROOT / "constraints.txt"]
    subprocess.run([*pip, wheel], check=True)
    return python


class Environment:
    """An environment in which commands run.

    Parameters
    ----------
    folder : Path
        Of the environment.
    extra : str
        "" for the core alone.
    work : Path
        Where commands run.
    """

    def __init__(self, folder, extra, work):
        self.python, self.work = (installed if WHEEL else linked)(folder, extra), work
        hidden = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
        self._variables = {name: value for name, value in os.environ.items() if name not in hidden}

    def without_programs(self):
        """Let no command find a program, such as a compiler, by its name."""
        (self.work / "no-programs").mkdir()
        self._variables |= {"PATH": str(self.work / "no-programs"), "CC": "none", "CXX": "none"}

    def run(self, *arguments, path=""):
        """Run Python with arguments, and return what ended; `path` is a folder of modules besides."""
        variables = self._variables | ({"PYTHONPATH": path} if path else {})
        words = [self.python, *("-W", "error::DeprecationWarning:lapsvm"), *arguments]
        words = list(map(str, words))
        return subprocess.run(words, check=False, cwd=self.work, env=variables, capture_output=True, text=True)

    def lapsvm(self, *arguments, path=""):
        """Run the command line."""
        return self.run("-m", "lapsvm", *arguments, path=path)
