"""Result files: read, written, and refused line by line."""

import numpy as np
import pytest

from lapsvm._ext import result_lines as compiled
from lapsvm.boxes import from_voc
from lapsvm.errors import InputError, MissingError, NotFiniteError, OptionError, ResultsError, ShapeError
from lapsvm.evaluation import Detections, ImageIds, read_result_file, read_results, result_name, results, write_results

from ..twins import evaluation as reference


@pytest.fixture(autouse=True, params=[compiled, reference], ids=["compiled", "reference"])
def reading(request, monkeypatch):
    """Every test here reads by the compiled kernel and by its readable twin."""
    monkeypatch.setattr(results, "_kernel", request.param)


LINE = "000004 0.75 10 20 30 40\n"


def put(folder, text, name="comp4_det_test_car.txt"):
    path = folder / name
    path.write_bytes(text.encode())
    return path


def test_a_line_is_an_id_a_score_and_a_voc_box(tmp_path):
    found = read_result_file(put(tmp_path, LINE))
    assert found.image_ids == ("000004",)
    assert found.scores.tolist() == [0.75]
    assert found.boxes.tolist() == [[9, 19, 30, 40]]


def test_lines_stay_in_file_order(tmp_path):
    found = read_result_file(put(tmp_path, "b 1 1 1 2 2\na 3 1 1 2 2\nb 2 1 1 2 2\n"))
    assert found.image_ids == ("b", "a", "b")
    assert found.scores.tolist() == [1, 3, 2]
    assert found.order().tolist() == [1, 2, 0]


def test_classes_come_from_the_names_of_the_files_and_may_hold_underscores(tmp_path):
    put(tmp_path, LINE, "comp3_det_test_potted_plant.txt")
    put(tmp_path, LINE, "comp4_det_test_car.txt")
    put(tmp_path, LINE, "comp4_det_trainval_bus.txt")
    put(tmp_path, LINE, "notes.txt")
    assert list(read_results(tmp_path, "test")) == ["car", "potted_plant"]


def test_an_empty_file_is_a_class_without_detections(tmp_path):
    put(tmp_path, "")
    found = read_results(tmp_path, "test")["car"]
    assert (len(found), found.boxes.shape) == (0, (0, 4))


def test_blank_lines_carriage_returns_tabs_and_a_missing_last_newline_are_read_over(tmp_path):
    found = read_result_file(put(tmp_path, "\ufeffa 1 1 1 2 2\r\n\n  \nb\t2\t1\t1\t2\t2\r\nc   3   1 1 2 2"))
    assert found.image_ids == ("a", "b", "c")
    assert found.scores.tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    "line",
    [
        "a 1 1 1 2",
        "a 1 1 1 2 2 2",
        "a one 1 1 2 2",
        "a nan 1 1 2 2",
        "a 1 1 1 2 inf",
        "1 1 1 2 2",
        "a\tb 1 1 1 2 2",
        "a 1_0 1 1 2 2",
        "a ١ 1 1 2 2",
    ],
)
def test_a_malformed_line_is_named(tmp_path, line):
    path = put(tmp_path, LINE + line + "\n")
    with pytest.raises(
        ResultsError, match="line 2, must be an id, a score and x1 y1 x2 y2, all finite; got "
    ) as caught:
        read_results(tmp_path, "test")
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_no_text_is_refused(tmp_path):
    for content, got in ((LINE.encode("utf-16"), "UTF-16"), (LINE.encode() + b"\xe4 1", "the byte 0xe4 in line 2")):
        (tmp_path / "comp4_det_test_car.txt").write_bytes(content)
        with pytest.raises(ResultsError, match=rf"comp4_det_test_car\.txt must be text in UTF-8, got {got}; save"):
            read_results(tmp_path, "test")


def test_a_class_with_two_files_is_refused(tmp_path):
    put(tmp_path, LINE, "comp3_det_test_car.txt")
    put(tmp_path, LINE, "comp4_det_test_car.txt")
    with pytest.raises(ResultsError, match=r"class 'car' must have one result file, got comp3_\S+ and comp4_\S+ in"):
        read_results(tmp_path, "test")


def test_a_folder_that_is_not_there_or_holds_no_results_is_named(tmp_path):
    with pytest.raises(MissingError, match=r"nowhere is not there\.$"):
        read_results(tmp_path / "nowhere", "test")
    with pytest.raises(MissingError, match=r"holds no result file comp3\|comp4_det_test_<class>\.txt\.$"):
        read_results(tmp_path, "test")
    with pytest.raises(MissingError, match=r"result file .* is not there\.$"):
        read_result_file(tmp_path / "none.txt")


def test_what_is_written_reads_back_bit_for_bit(tmp_path):
    rng = np.random.default_rng(5)
    n = 500
    scores = rng.normal(size=n) * 10.0 ** rng.integers(-20, 20, n)
    boxes = rng.uniform(0, 500, (n, 4)).astype(np.float32)
    ids = [f"{i:03d}" for i in range(n)]
    write_results(tmp_path / "a.txt", Detections(ids, scores, boxes))
    back = read_result_file(tmp_path / "a.txt")
    rows = [ids.index(image) for image in back.image_ids]
    np.testing.assert_array_equal(back.scores, scores[rows])
    np.testing.assert_array_equal(back.boxes, boxes[rows])


def test_lines_are_written_by_score_then_id_then_as_given(tmp_path):
    boxes = from_voc([[i, 1, 9, 9] for i in range(1, 6)])
    write_results(tmp_path / "a.txt", Detections(("b", "b", "a", "c", "b"), [1, 1, 1, 2, 1], boxes))
    lines = (tmp_path / "a.txt").read_text().splitlines()
    assert lines == ["c 2 4 1 9 9", "a 1 3 1 9 9", "b 1 1 1 9 9", "b 1 2 1 9 9", "b 1 5 1 9 9"]


def test_no_detections_are_an_empty_file(tmp_path):
    write_results(tmp_path / "a.txt", Detections((), [], []))
    assert (tmp_path / "a.txt").read_bytes() == b""


def test_an_id_with_spaces_survives(tmp_path):
    found = Detections(("my cat 2.jpg", "plain"), [2, 1], from_voc([[1, 2, 3, 4]] * 2))
    write_results(tmp_path / "a.txt", found)
    assert (tmp_path / "a.txt").read_text() == "my cat 2.jpg\t2 1 2 3 4\nplain 1 1 2 3 4\n"
    assert read_result_file(tmp_path / "a.txt").image_ids == found.image_ids


@pytest.mark.parametrize("image", ["", " ", " a", "a ", "a\tb", "a\nb", "a\r"])
def test_an_id_that_no_file_can_hold_is_refused_and_the_old_file_stays(tmp_path, image):
    path = put(tmp_path, LINE)
    with pytest.raises(InputError, match="an image id must not be empty, start or end with a space or hold a tab"):
        write_results(path, Detections((image,), [1], [[0, 0, 1, 1]]))
    assert path.read_text() == LINE
    assert list(tmp_path.iterdir()) == [path]


def test_a_write_that_fails_leaves_the_old_file_and_no_rest(tmp_path, monkeypatch):
    path = put(tmp_path, LINE)
    monkeypatch.setattr("lapsvm.files.os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_results(path, Detections((), [], []))
    assert path.read_text() == LINE
    assert list(tmp_path.iterdir()) == [path]


def test_names_of_result_files():
    assert result_name("test", "car") == "comp4_det_test_car.txt"
    assert result_name("test", "potted_plant", "comp3") == "comp3_det_test_potted_plant.txt"


def test_names_that_no_file_can_have_are_refused():
    with pytest.raises(OptionError, match=r"^competition must be one of comp3, comp4, got 'comp5'\.$"):
        result_name("test", "car", "comp5")
    with pytest.raises(InputError, match=r"must be valid in a file name, got 'a/b'\.$"):
        result_name("test", "a/b")


def test_detections_of_pictures_are_joined_in_order():
    found = Detections.from_images(
        [("a", [[0, 0, 1, 1], [0, 0, 2, 2]], [3, 1]), ("b", [], []), ("c", [[1, 1, 2, 2]], [2])]
    )
    assert found.image_ids == ("a", "a", "c")
    assert found.scores.tolist() == [3, 1, 2]
    assert found.boxes.shape == (3, 4)
    assert len(Detections.from_images([])) == 0


@pytest.mark.parametrize(
    ("ids", "scores", "boxes", "error", "message"),
    [
        (("a",), [1, 2], [[0, 0, 1, 1]] * 2, ShapeError, "image_ids and scores must have the same length, got 1 and 2"),
        (("a",), [1], [[0, 0, 1, 1]] * 2, ShapeError, "scores and boxes must have the same length, got 1 and 2"),
        (("a",), [np.nan], [[0, 0, 1, 1]], NotFiniteError, "scores must be finite, got nan at index 0"),
        (("a",), [1], [[0, 0, np.inf, 1]], NotFiniteError, r"boxes must be finite, got inf at index \(0, 2\)"),
    ],
)
def test_detections_that_do_not_fit_are_refused(ids, scores, boxes, error, message):
    with pytest.raises(error, match=message):
        Detections(ids, scores, boxes)


NUMBERS = [
    "0",
    "-0",
    "1",
    "-7.25",
    "1e5",
    "2.5E-3",
    "1.",
    ".5",
    "+3",
    "1_0",
    "0x10",
    "nan",
    "inf",
    "-inf",
    "1e400",
    "1e-400",
    "5e-324",
    "0.027385127369801743",
    "9007199254740993",
    "123456789012345678901234567890",
    "1e",
    "--1",
    "1-",
    "\u0663",
]
IDS = ["000004", "a", "my cat", "K\u00e4fer 1", "a\u00a0b", "\x1f", "", " ", "7", "x\ty"]
ENDS = ["\n", "\r\n", "\r", "\n\n", " \n", "\t\n", "\x0b\n", "\u2003\n"]


def outcome(path):
    """What a file is read as: its detections, or the sentence that refuses it."""
    try:
        found = read_result_file(path)
    except ResultsError as error:
        return str(error)
    return tuple(found.image_ids), found.scores.tobytes(), found.boxes.tobytes()


def assert_read_alike(path, monkeypatch):
    """Compare the kernel's and its twin's reading of a file."""
    readings = []
    for kernel in (compiled, reference):
        monkeypatch.setattr(results, "_kernel", kernel)
        readings.append(outcome(path))
    assert readings[0] == readings[1]


@pytest.mark.parametrize("seed", range(200))
def test_kernel_and_twin_read_any_line_alike(tmp_path, monkeypatch, seed):
    rng = np.random.default_rng(seed)
    share = (0.0, 0.1, 0.5)[seed % 3]  # of what is odd; most of these files are refused

    def one(values, plain):
        return values[rng.integers(len(values))] if rng.random() < share else plain

    lines = []
    for _ in range(6):
        fields = [one(NUMBERS, repr(rng.normal() * 10.0 ** rng.integers(-30, 30))) for _ in range(5)]
        separators = [one([" ", "\t", "  ", " \t"], " ") for _ in range(5)]
        body = "".join(separator + field for separator, field in zip(separators, fields, strict=True))
        lines.append(one(IDS, f"p{rng.integers(3)}") + body + one(ENDS, "\n"))
    path = put(tmp_path, "".join(lines))
    assert_read_alike(path, monkeypatch)


def test_a_file_cut_at_any_byte_is_read_alike(tmp_path, monkeypatch):
    whole = "a 0.5 1 2 3 4\nmy cat\t-1e-5 1 2 3.25 4\r\nK\u00e4fer 2 1 1 2 2".encode()
    for stop in range(len(whole) + 1):
        (tmp_path / "cut.txt").write_bytes(whole[:stop])
        assert_read_alike(tmp_path / "cut.txt", monkeypatch)


def test_ids_are_a_sequence_that_stores_each_once():
    ids = ImageIds.of(iter(["b", "a", "b"]))
    assert (ids.names, ids.places.tolist()) == (("b", "a"), [0, 1, 0])
    assert ids == ("b", "a", "b") == tuple(ids)
    assert ids != ("b", "a")
    assert ids != ["b", "a", "b"]  # as a tuple
    assert (len(ids), ids[1], ids[-1], ids[1:]) == (3, "a", "b", ("a", "b"))
    assert hash(ids) == hash(("b", "a", "b"))
    assert (repr(ids), ids.index("a"), "c" in ids) == ("('b', 'a', 'b')", 1, False)
    assert ids.taken(np.array([2, 2])).distinct() == ["b"]
    assert ids.numbers_in({"a": 5}).tolist() == [-1, 5, -1]
    assert ImageIds.of(ids) is ids
    assert ImageIds.of([]) == ()
    assert Detections(("b", "a", "b"), [1, 2, 3], np.zeros((3, 4))).best_scores() == {"b": 3.0, "a": 2.0}
