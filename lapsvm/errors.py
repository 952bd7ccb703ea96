"""The exceptions of lapsvm.

Each class is also a ``ValueError`` or an ``OSError``, so that callers may catch either family. A message is one
sentence that names the object, the rule and the actual value. The command line prints it and exits with 2.

::

    LapsvmError
    ├── InputError (ValueError)            an argument of a function or an option of a command
    │   ├── ShapeError                     arrays whose shapes do not fit
    │   ├── NotFiniteError                 NaN or infinity where a number is needed
    │   ├── OneClassError                  labels without a positive, or without a negative
    │   └── OptionError                    an option or a name that does not exist
    ├── DataError (ValueError)             a file whose content breaks its rule
    │   ├── ImageError                     a picture that cannot be decoded completely
    │   ├── AnnotationError                a file of annotations that is invalid
    │   ├── LabelsError                    a list or table of labels that cannot be read
    │   ├── ResultsError                   a file of detections that cannot be read
    │   ├── ExternalFileError               another program's file of windows or features that cannot be used
    │   ├── ShardError                     a shard that is truncated, damaged or of another kind
    │   └── ModelFileError                 a model file that is damaged or of an unknown version
    ├── CertificateError (ValueError)      a lower bound of a minimum that exceeds an objective
    ├── SettingsError (ValueError)         a run folder made with other settings
    ├── ClusterError (ConnectionError)     processes or machines that are unavailable or lost
    ├── WriteError (OSError)               a file that could not be written, for instance on a full disk
    └── MissingError (FileNotFoundError)   a file or folder that does not exist
        ├── StageError                     a stage whose input stage has not run
        └── DependencyError                an optional package that is not installed
"""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any


class LapsvmError(Exception):
    """Base of all expected failures."""


class InputError(LapsvmError, ValueError):
    """An argument breaks its rule."""


class ShapeError(InputError):
    """Arrays have shapes that do not fit."""


class NotFiniteError(InputError):
    """A number is NaN or infinite."""


class OneClassError(InputError):
    """Labels have no positive or no negative."""


class OptionError(InputError):
    """An option has a value, or a name, that does not exist."""


class DataError(LapsvmError, ValueError):
    """The content of a file breaks its rule."""


class ImageError(DataError):
    """A picture cannot be decoded completely."""


class AnnotationError(DataError):
    """An annotation file is invalid."""


class LabelsError(DataError):
    """A list or table of labels cannot be read."""


class ResultsError(DataError):
    """A file of detections cannot be read."""


class ExternalFileError(DataError):
    """Another program's file of windows or features cannot be used."""


class ShardError(DataError):
    """A shard is truncated, damaged or of another kind."""


class ModelFileError(DataError):
    """A model file is damaged or of an unknown version."""


class CertificateError(LapsvmError, ValueError):
    """A lower bound of a minimum exceeds an objective, so that the planes given to a solver are invalid."""


class SettingsError(LapsvmError, ValueError):
    """A run folder was made with other settings."""


class ClusterError(LapsvmError, ConnectionError):
    """Processes or machines are unavailable or lost."""


class WriteError(LapsvmError, OSError):
    """A file could not be written."""


class MissingError(LapsvmError, FileNotFoundError):
    """A file or folder does not exist."""


class StageError(MissingError):
    """A stage was run before its input stage."""


class DependencyError(MissingError):
    """An optional package is not installed."""


@contextmanager
def naming(what: str) -> Iterator[None]:
    """Have bad input or data that a block meets be reported with `what` it is about, such as a picture."""
    try:
        yield
    except (InputError, DataError) as error:
        raise type(error)(f"{what}: {error}") from error


def one_line(error: BaseException) -> str:
    """Return an exception's message without line breaks and the full stop."""
    return " ".join(str(error).split()).rstrip(".")


def install_extra(extra: str) -> str:
    """Return the command that installs an optional dependency, in words that hold for a folder of the source."""
    return f'pip install ".[{extra}]" in the folder of the source'


def import_optional(package: str, needs: str, extra: str) -> Any:
    """Import a package that an extra brings. Raises DependencyError, which begins with the need: "X needs the package".

    A package that is there may lack another one, or break on import: then the sentence has its reason.
    """
    try:
        return import_module(package)
    except Exception as error:  # noqa: BLE001 - built for another version of NumPy or of the system
        fault = "is not installed"
        if not (isinstance(error, ModuleNotFoundError) and f"{package}.".startswith(f"{error.name}.")):
            fault = f"cannot be imported: {one_line(error)}"
        raise DependencyError(f"{needs}, which {fault}; {install_extra(extra)}.") from None
