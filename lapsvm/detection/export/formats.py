"""The export formats by name, and the function that writes them atomically."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from lapsvm.detection.export.annotations import Annotations
from lapsvm.detection.export.coco import write_coco
from lapsvm.detection.export.cvat import write_cvat
from lapsvm.detection.export.exported import write_exported
from lapsvm.detection.export.label_studio import write_label_studio
from lapsvm.detection.export.names import is_line, is_text, is_xml_line
from lapsvm.detection.export.voc import write_voc
from lapsvm.detection.export.yolo import write_yolo
from lapsvm.errors import OptionError
from lapsvm.files import new_folder


@dataclass(frozen=True)
class ExportFormat:
    """A format of another program.

    Attributes
    ----------
    write : callable
        ``write(annotations, folder, copy)`` writes into an empty folder.
    can_hold : callable
        ``can_hold(name)`` says whether its files can hold the name of a set, class or picture.
    with_pictures : bool
        Whether the folder contains the pictures.
    """

    write: Callable[[Annotations, Path, bool], None]
    can_hold: Callable[[str], bool]
    with_pictures: bool = False


EXPORT_FORMATS = {
    "coco": ExportFormat(write_coco, is_text),
    "yolo": ExportFormat(write_yolo, is_line, with_pictures=True),
    "voc": ExportFormat(write_voc, is_xml_line, with_pictures=True),
    "label-studio": ExportFormat(write_label_studio, is_xml_line),
    "cvat": ExportFormat(write_cvat, is_xml_line),
}


def check_export(format_name: str, copy: bool, others: Iterable[str] = ()) -> None:
    """Raise OptionError unless the format is known, and `copy` is False for formats without pictures.

    `others` are formats that the caller writes itself, for the sentence.
    """
    if format_name not in EXPORT_FORMATS:
        names = ", ".join([*EXPORT_FORMATS, *others])
        raise OptionError(f"option --format must be one of {names}, got {format_name!r}.")
    if copy and not EXPORT_FORMATS[format_name].with_pictures:
        names = " or ".join(name for name, kind in EXPORT_FORMATS.items() if kind.with_pictures)
        raise OptionError(f"option --copy goes with a format that holds pictures ({names}), got {format_name}.")


def write_export(annotations: Annotations, folder: str | Path, format_name: str, *, copy: bool = False) -> None:
    """Write annotations as another program reads them, and exported.json if their pictures have an id.

    Parameters
    ----------
    annotations : Annotations
    folder : str or Path
        Must be empty or not exist. It appears with all that belongs in it, or not at all.
    format_name : {"coco", "yolo", "voc", "label-studio", "cvat"}
    copy : bool, default False
        Whether pictures are copied into the folder; otherwise they are links. For "yolo" and "voc".

    Raises
    ------
    OptionError
        If the format is not known, or takes no pictures, or the folder is not empty.
    InputError
        If the format cannot hold a name.
    MissingError
        If a picture that belongs in the folder is no file.
    WriteError
        If the system refuses, for instance because the disk is full.
    """
    check_export(format_name, copy)
    chosen = EXPORT_FORMATS[format_name]
    annotations.check_names(format_name, chosen.can_hold)
    with new_folder(folder) as temporary:
        chosen.write(annotations, temporary, copy)
        write_exported(annotations, temporary)
