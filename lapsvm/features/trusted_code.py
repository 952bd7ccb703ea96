"""Which modules extractors may run: those named on this command line, or listed in an environment variable.

An extractor `torch:PACKAGE.MODULE:FACTORY` imports a module and calls its factory. Somebody else may have written the
text if it comes from a file: the ``run.toml`` of a run folder, a recipe, or a model.
"""

import os
from collections.abc import Collection

from lapsvm.errors import SettingsError
from lapsvm.features.extractors.specs import parse_spec

LIST = "LAPSVM_TRUSTED_MODULES"


def check_trusted(extractors: Collection[str], named: Collection[str]) -> None:
    """Raise SettingsError for an extractor that runs code but is neither `named` on the command line nor listed."""
    trusted = {_factory(text) for text in named}
    for text in extractors:
        factory = _factory(text)
        module = factory.partition(":")[0]
        if factory and factory not in trusted and not _is_listed(module):
            raise SettingsError(
                f"extractor {text!r} comes from a file and runs code of module {module!r}, which is allowed only if "
                f"--extractor names it on this command line, or the environment variable {LIST} lists {module!r} "
                "(modules or packages, separated by commas)."
            )


def _factory(text: str) -> str:
    """Return the MODULE:FACTORY that an extractor runs, or ""."""
    spec = parse_spec(text)
    return (spec.file or "") if spec.kind == "torch" else ""


def _is_listed(module: str) -> bool:
    """Return whether the environment variable lists a module or a package that contains it."""
    listed = [name.strip() for name in os.environ.get(LIST, "").split(",") if name.strip()]
    return any(module == name or module.startswith(f"{name}.") for name in listed)
