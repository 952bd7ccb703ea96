"""Whose code is run: a network's factory that the user names now, or whose module is on a list that the user keeps.

An extractor `torch:PACKAGE.MODULE:FACTORY` imports a module and calls something in it. Where the text comes from a file
- a run folder's ``run.toml``, a recipe, a model - a stranger may have written it.
"""

import os
from collections.abc import Collection

from lapsvm.errors import SettingsError
from lapsvm.features.extractors.specs import parse_spec
from lapsvm.features.extractors.torch_specs import ALEXNET

LIST = "LAPSVM_TRUSTED_MODULES"


def check_trusted(extractors: Collection[str], named: Collection[str]) -> None:
    """Raise SettingsError for an extractor that runs code which the user has not asked for.

    Parameters
    ----------
    extractors : collection of str
        That are to be opened.
    named : collection of str
        Those that stand on this command line.
    """
    known = {_factory(text) for text in named}
    for text in extractors:
        factory = _factory(text)
        module = factory.partition(":")[0]
        if factory and factory not in known and not _is_listed(module):
            raise SettingsError(
                f"extractor {text!r} comes from a file and runs code of module {module!r}, which is done only if "
                f"--extractor names it on this command line, or the environment variable {LIST} lists {module!r} "
                "(modules or packages, with commas between them)."
            )


def _factory(text: str) -> str:
    """Return the MODULE:FACTORY that an extractor runs, "" if it runs none."""
    spec = parse_spec(text)
    return (spec.file or "") if spec.kind == "torch" and spec.file != ALEXNET else ""


def _is_listed(module: str) -> bool:
    """Tell whether the user's list has a module, or a package that it is in."""
    listed = [name.strip() for name in os.environ.get(LIST, "").split(",") if name.strip()]
    return any(module == name or module.startswith(f"{name}.") for name in listed)
