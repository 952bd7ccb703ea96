"""The jobs of a set: which shards are finished, damaged, missing, copied or external."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.shards.jobs import IMAGES_PER_SHARD, ShardJobs, copy_shard

from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, SettingsError
from lapsvm.features import PictureWindows

RECORDS = [ImageRecord(f"{i:03}", Path(f"{i:03}.jpg"), {}) for i in range(2 * IMAGES_PER_SHARD + 3)]
PROVENANCE = {"windows": {"seed": 0}, "features": {"extractor": {"blocks": [2], "halves": [False]}}}


class Jobs(ShardJobs):
    def measure(self, record):
        box = np.float32([[0, 0, 4, 3]])
        return PictureWindows(record.id, box, np.full((1, 2), int(record.id), np.float32), "0" * 32, (3, 4))


def jobs(folder, records=RECORDS, provenance=PROVENANCE, skip_bad=False, **options):
    folder.mkdir(exist_ok=True)
    return Jobs(folder, records, provenance, "float32", skip_bad, **options)


def made(folder, **options):
    """All shards of a set."""
    shards = jobs(folder, **options)
    for path, records in shards.jobs:
        shards.store(path, records, [shards.measure(record) for record in records])
    return shards


def to_do(shards):
    return [path.name for path, _ in shards.to_do(Reporter(quiet=True), "check", 2)]


def names(shards):
    return [path.name for path, _ in shards.jobs]


def test_finished_shards_are_not_made_again_and_missing_ones_are(tmp_path):
    shards = jobs(tmp_path)
    assert len(shards.jobs) == 3
    assert to_do(shards) == names(shards)
    made(tmp_path)
    assert to_do(shards) == []
    assert shards.left_out() == []
    shards.jobs[1][0].unlink()
    assert to_do(shards) == names(shards)[1:2]
    assert to_do(jobs(tmp_path, redo=True)) == names(shards)


@pytest.mark.parametrize("offset", [0, -5])
def test_a_shard_with_one_changed_byte_is_made_again(tmp_path, offset, capsys):
    path = made(tmp_path).jobs[2][0]
    content = bytearray(path.read_bytes())
    content[offset] ^= 0xFF
    path.write_bytes(content)
    assert to_do(jobs(tmp_path)) == [path.name]


def test_shards_of_other_pictures_settings_or_lists_are_refused(tmp_path):
    made(tmp_path)
    with pytest.raises(SettingsError, match="was made from other pictures"):
        to_do(jobs(tmp_path, [*RECORDS[1:], RECORDS[0]]))
    with pytest.raises(SettingsError, match="seed 0 instead of 1"):
        to_do(jobs(tmp_path, provenance=PROVENANCE | {"windows": {"seed": 1}}))
    with pytest.raises(SettingsError, match="belongs to another list of pictures"):
        to_do(jobs(tmp_path, RECORDS[:IMAGES_PER_SHARD]))


def test_shards_of_another_run_are_copied_unless_there_are_own_ones(tmp_path):
    made(tmp_path / "OTHER")
    shards = jobs(tmp_path / "RUN", source=tmp_path / "OTHER")
    assert to_do(shards) == []
    copies = shards.copies([])
    assert [path for _, path in copies] == [path for path, _ in shards.jobs]
    copy_shard(*copies[0])
    assert copies[0][0].read_bytes() == copies[0][1].read_bytes()
    assert shards.copies([]) == copies[1:]
    assert shards.copies(shards.jobs[1:2]) == copies[2:]


def test_a_shard_with_pictures_left_out_serves_only_where_bad_pictures_are_skipped(tmp_path):
    shards = made(tmp_path, skip_bad=True)
    path, records = shards.jobs[0]
    shards.store(path, records, [None, *(shards.measure(record) for record in records[1:])])
    assert to_do(shards) == []
    assert shards.left_out() == [RECORDS[0].id]
    assert to_do(jobs(tmp_path)) == [path.name]
    with pytest.raises(ImageError, match="no picture of 000 to 015 can be read"):
        shards.store(path, records, [None] * len(records))
