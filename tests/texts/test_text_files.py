"""Text files of other programs: byte order marks, UTF-16, line ends, and YAML that makes nothing but text."""

import pytest

from lapsvm.errors import AnnotationError, SettingsError
from lapsvm.names.kinds import is_system_name
from lapsvm.names.matching import files_of_users
from lapsvm.texts.reading import read_json, read_text, read_toml, read_yaml

TEXTS = {read_json: '{"a": "ä"}', read_toml: 'a = "ä"', read_yaml: "a: ä"}
READERS = list(TEXTS)


def written(tmp_path, content):
    path = tmp_path / "file"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\r\n"])
def test_a_mark_and_line_ends_do_not_count(tmp_path, read, mark, end):
    path = written(tmp_path, mark + (TEXTS[read] + end).encode())
    assert read(path, "file", AnnotationError) == {"a": "ä"}


@pytest.mark.parametrize("read", READERS)
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_utf_16_is_named(tmp_path, read, encoding):
    path = written(tmp_path, TEXTS[read].encode(encoding))
    with pytest.raises(AnnotationError, match=r"file .*file must be text in UTF-8, got UTF-16; save it as UTF-8\.$"):
        read(path, "file", AnnotationError)


def test_bytes_of_another_encoding_are_named_with_their_place(tmp_path):
    with pytest.raises(SettingsError, match="got the byte 0xe4 in line 1; save it as UTF-8"):
        read_text(written(tmp_path, "zähe ämter".encode("latin-1").replace(b"z\xe4", b"zoo\xe4")), "x", SettingsError)


@pytest.mark.parametrize("word", ["no", "yes", "on", "1", "1.0", "null", "~", "2024-01-02", "0x1F", "1e3"])
def test_yaml_keeps_every_word_as_it_is_written(tmp_path, word):
    path = written(tmp_path, f"names: [{word}]\n{word}: x\n".encode())
    assert read_yaml(path, "file", AnnotationError) == {"names": [word], word: "x"}


@pytest.mark.parametrize("content", ["a: [1", "a: b: c", "\ta: 1", "[" * 100_000, "a: \x07", "- *b"])
def test_what_is_no_yaml_is_one_sentence(tmp_path, content):
    with pytest.raises(AnnotationError, match=r"\Afile .*file is not valid YAML: [^\n]*\.\Z"):
        read_yaml(written(tmp_path, content.encode()), "file", AnnotationError)


def test_yaml_makes_no_object_of_another_type(tmp_path):
    path = written(tmp_path, b"a: !!python/object/apply:os.system [x]")
    assert read_yaml(path, "file", AnnotationError) == {"a": ["x"]}


NAMES = [".DS_Store", "._a.jpg", "Thumbs.db", "__MACOSX", ".ipynb_checkpoints", "desktop.ini", "$RECYCLE.BIN", "@eaDir"]


def test_what_systems_leave_is_no_file_of_a_user(tmp_path):
    assert all(map(is_system_name, NAMES))
    assert not any(map(is_system_name, ["cat", "macosx", "thumbs", "a.b", "_a"]))
    for folder in ("", "sub", *NAMES):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "a.xml").write_text("")
    (tmp_path / "._a.xml").write_text("")
    found = [path.relative_to(tmp_path).as_posix() for path in files_of_users(tmp_path, "*.xml")]
    assert found == ["a.xml", "sub/a.xml"]
