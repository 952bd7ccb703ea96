"""Pictures that stand in an exported folder: links to the originals, or copies."""

import shutil
from pathlib import Path

from lapsvm.files import check_regular


def place_picture(source: Path, target: Path, copy: bool) -> None:
    """Link a picture by its absolute path, or copy its content; the target's folder is made."""
    check_regular(source, "picture")  # what stands below a link to a folder would be written into that folder
    target.parent.mkdir(parents=True, exist_ok=True)
    if copy:
        shutil.copyfile(source, target)
    else:
        target.symlink_to(source.resolve())
