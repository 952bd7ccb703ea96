"""Files that readers ignore are counted by kind."""

import json

from lapsvm.datasets.folder import open_folder
from lapsvm.datasets.imagefolder import open_imagefolder
from lapsvm.datasets.labels_csv import open_csv


def touch(root, *names):
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def test_a_folder_counts_what_is_no_picture(tmp_path):
    touch(tmp_path, "trainval/cat/a.jpg", "trainval/dog/b.PNG", "trainval/cat/c.GIF", "trainval/dog/d.gif")
    touch(tmp_path, "notes.txt", "trainval/.DS_Store", "trainval/cat/._a.jpg", ".git/config", "trainval/dog/README")
    touch(tmp_path, "test/cat/e.jpg")
    found = open_folder(tmp_path).ignored_files()
    assert found == {"hidden": 3, ".gif": 2, ".txt": 1, "without a suffix": 1}
    assert list(found) == ["hidden", ".gif", ".txt", "without a suffix"]


def test_links_to_folders_are_followed_as_the_reader_does(tmp_path):
    touch(tmp_path, "elsewhere/a.jpg", "elsewhere/b.gif", "data/dog/c.jpg")
    (tmp_path / "data" / "cat").symlink_to(tmp_path / "elsewhere")
    assert open_folder(tmp_path / "data").ignored_files() == {".gif": 1}


def test_a_folder_of_pictures_alone_ignores_nothing(tmp_path):
    assert open_folder(touch(tmp_path, "cat/a.jpg", "dog/b.webp")).ignored_files() == {}


def test_tables_count_pictures_that_no_row_names(tmp_path):
    touch(tmp_path, "a.jpg", "more/b.jpg", "more/c.JPG", "more/d.txt", ".e.jpg")
    (tmp_path / "labels.csv").write_text("image,label\n./a.jpg,cat\nmore/b.jpg,\n")
    assert open_csv(tmp_path).ignored_files() == {"pictures in no row of the table": 1}
    rows = [{"file_name": name, "label": "cat"} for name in ("a.jpg", "more/c.JPG")]
    (tmp_path / "metadata.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert open_imagefolder(tmp_path).ignored_files() == {"pictures in no row of the table": 1}
