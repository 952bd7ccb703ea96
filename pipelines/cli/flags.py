"""The names by which a user of the command line knows the parameters that messages of the library name."""

import re
from functools import cache

from ..settings.options import OPTIONS

_PARAMETER = re.compile(r"\bthe parameter (\w+)")


def with_flags(message: str) -> str:
    """Return a message in which flags stand for parameters.

    The library names them as "the parameter per_class"; one that no option gives stays as it is.

    Parameters
    ----------
    message : str
        Of an error.
    """
    return _PARAMETER.sub(lambda found: _flags_by_parameter().get(found[1], found[0]), message)


@cache  # a verb adds its options before its message comes
def _flags_by_parameter() -> dict[str, str]:
    """Return parameter -> flag: of the same name, or of the option that the pipelines know by this name."""
    named = [option for option in OPTIONS if option.flags.startswith("--") and not option.is_named]
    return {option.name: option.flag for option in named} | {
        option.flag.removeprefix("--").replace("-", "_"): option.flag for option in named
    }
