"""Every expected failure of lapsvm, by name.

Each class is also a ``ValueError`` or an ``OSError``, so that callers may catch either family. A message is one
sentence that names the thing, the rule and the value that was got. The command line prints it and exits with 2.

::

    LapsvmError
    ├── InputError (ValueError)            an argument of a function or an option of a command
    │   ├── ShapeError                     arrays whose shapes do not fit
    │   ├── NotFiniteError                 NaN or infinity where a number is needed
    │   ├── OneClassError                  labels without a positive, or without a negative
    │   └── OptionError                    an option or a name that does not exist
    ├── DataError (ValueError)             what a file says is wrong
    │   ├── ImageError                     a picture that does not open, or not whole
    │   ├── AnnotationError                a file of annotations that is broken or refused
    │   ├── LabelsError                    a list or table of labels that cannot be read
    │   ├── ResultsError                   a file of detections that cannot be read
    │   ├── ExternalFileError               another program's file of windows or features that cannot be taken
    │   ├── ShardError                     a shard that is truncated, damaged or of another kind
    │   └── ModelFileError                 a model file that is damaged or of an unknown version
    ├── CertificateError (ValueError)      a lower bound of a minimum that is above an objective
    ├── SettingsError (ValueError)         a run folder made with other settings
    ├── ClusterError (ConnectionError)     processes or machines that cannot be had, or were lost
    ├── WriteError (OSError)               a file that could not be written, for instance on a full disk
    └── MissingError (FileNotFoundError)   a file or folder that is not there
        ├── StageError                     a stage was asked for before the one that feeds it
        └── DependencyError                an optional package that is not installed
"""


class LapsvmError(Exception):
    """Base of all expected failures."""


class InputError(LapsvmError, ValueError):
    """An argument breaks its rule."""


class ShapeError(InputError):
    """Arrays have shapes that do not fit."""


class NotFiniteError(InputError):
    """NaN or infinity stands where a number is needed."""


class OneClassError(InputError):
    """Labels have no positive or no negative."""


class OptionError(InputError):
    """An option has a value, or a name, that does not exist."""


class DataError(LapsvmError, ValueError):
    """The content of a file breaks its rule."""


class ImageError(DataError):
    """A picture does not open, or not whole."""


class AnnotationError(DataError):
    """An annotation file is broken or refused."""


class LabelsError(DataError):
    """A list or table of labels cannot be read."""


class ResultsError(DataError):
    """A file of detections cannot be read."""


class ExternalFileError(DataError):
    """Another program's file of windows or features cannot be taken."""


class ShardError(DataError):
    """A shard is truncated, damaged or of another kind."""


class ModelFileError(DataError):
    """A model file is damaged or of an unknown version."""


class CertificateError(LapsvmError, ValueError):
    """A lower bound of a minimum is above an objective, so what a solver was told of the risk is wrong."""


class SettingsError(LapsvmError, ValueError):
    """A run folder was made with other settings."""


class ClusterError(LapsvmError, ConnectionError):
    """Processes or machines cannot be had, or were lost."""


class WriteError(LapsvmError, OSError):
    """A file could not be written."""


class MissingError(LapsvmError, FileNotFoundError):
    """A file or folder is not there."""


class StageError(MissingError):
    """A stage was asked for before the one that feeds it."""


class DependencyError(MissingError):
    """An optional package is not installed."""
