"""The jobs of a set: which shards are finished, damaged, missing, copied or external."""

from pathlib import Path

import numpy as np
import pytest
from lapsvm.pipelines.run.progress import Reporter
from lapsvm.pipelines.shards.jobs import ShardJobs
from lapsvm.pipelines.shards.placement import IMAGES_PER_SHARD

from lapsvm.catalog import ImageRecord
from lapsvm.errors import ImageError, SettingsError
from lapsvm.features import PictureWindows, open_shards

RECORDS = [ImageRecord(f"{i:03}", Path(f"{i:03}.jpg"), {}) for i in range(2 * IMAGES_PER_SHARD + 3)]
PROVENANCE = {"windows": {"seed": 0}, "features": {"extractor": {"blocks": [2], "has_context": [False]}}}


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


def stored(folder):
    return list(open_shards(folder).image_ids)


def names(shards):
    return [path.name for path, _ in shards.jobs]


def test_finished_shards_are_not_made_again_and_missing_ones_are(tmp_path):
    shards = jobs(tmp_path)
    assert len(shards.jobs) == 3
    assert to_do(shards) == names(shards)
    made(tmp_path)
    assert to_do(shards) == []
    assert stored(tmp_path) == [record.id for record in RECORDS]
    shards.jobs[1][0].unlink()
    assert to_do(shards) == names(shards)[1:2]
    assert to_do(jobs(tmp_path, redo=True)) == names(shards)


def test_shards_of_other_settings_or_of_no_picture_of_the_set_are_refused(tmp_path):
    made(tmp_path)
    other = PROVENANCE | {"windows": {"seed": 1}}
    with pytest.raises(SettingsError, match=r"seed 0 instead of 1; use another --out, or --redo\."):
        to_do(jobs(tmp_path, provenance=other))
    with pytest.raises(SettingsError, match=r"seed 0 instead of 1; leave out --shards-from\."):
        to_do(jobs(tmp_path / "new", provenance=other, source=tmp_path))
    with pytest.raises(SettingsError, match="have no picture of this data set"):
        to_do(jobs(tmp_path, [ImageRecord("other", Path("other.jpg"), {})]))


class KeepingJobs(Jobs):
    keeps = True


def updated(shards):
    """Write the missing shards of a set; return the names of shards made, and of shards written with fewer pictures."""
    missing = shards.to_do(Reporter(quiet=True), "check", 2)
    kept = shards.carried_over(missing)
    changed = [path for path in kept if path in shards.placement.names]
    for path in shards.stale():
        path.unlink()
    for path in kept:
        shards.carry_over(path)
    for path, records in missing:
        shards.store(path, records, [shards.measure(record) for record in records])
    return [path.name for path, _ in missing], [path.name for path in changed]


def values(folder):
    """Return the picture -> its only feature."""
    shards = open_shards(folder)
    return dict(zip(shards.image_ids, np.concatenate([shard.features[:, 0] for shard in shards]).tolist(), strict=True))


@pytest.mark.parametrize("kind", [Jobs, KeepingJobs])
def test_new_pictures_get_new_shards_and_those_that_are_gone_leave_theirs(tmp_path, kind):
    made(tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    new = [ImageRecord(f"{number:03}", Path("new.jpg"), {}) for number in range(100, 120)]
    records = [*new[:10], *RECORDS[1:], *new[10:]]
    shards = kind(tmp_path, records, PROVENANCE, "float32", False)
    missing, changed = updated(shards)
    lost, added = "0000000.safetensors", ["0000003.safetensors", "0000004.safetensors"]
    assert (missing, changed) == ((added, [lost]) if kind.keeps else ([lost, *added], []))
    assert shards.placement.changes == "20 pictures are new, 1 picture is gone"
    assert values(tmp_path) == {record.id: int(record.id) for record in records}
    assert all((tmp_path / name).read_bytes() == before[name] for name in before.keys() - {lost})
    assert updated(kind(tmp_path, records, PROVENANCE, "float32", False)) == ([], [])
    shards = kind(tmp_path, records[:10], PROVENANCE, "float32", False)
    updated(shards)
    assert values(tmp_path) == {record.id: int(record.id) for record in records[:10]}
    assert [path.name for path in tmp_path.iterdir()] == added[:1]


def test_a_set_that_grew_while_it_was_made_is_finished(tmp_path):
    shards = made(tmp_path)
    shards.jobs[1][0].unlink()
    (tmp_path / "0000002.safetensors").write_bytes(b"damaged")
    records = [*RECORDS[:20], ImageRecord("777", Path("777.jpg"), {}), *RECORDS[20:]]
    missing, _ = updated(jobs(tmp_path, records))
    assert missing == ["0000001.safetensors", "0000002.safetensors"]
    assert values(tmp_path) == {record.id: int(record.id) for record in records}


def test_pictures_that_another_run_lacks_are_made_and_those_that_are_gone_are_not_copied(tmp_path):
    made(tmp_path / "OTHER")
    before = {path: path.read_bytes() for path in (tmp_path / "OTHER").iterdir()}
    records = [*RECORDS[2:], ImageRecord("777", Path("777.jpg"), {})]
    (tmp_path / "RUN").mkdir()
    shards = KeepingJobs(tmp_path / "RUN", records, PROVENANCE, "float32", False, source=tmp_path / "OTHER")
    assert updated(shards) == (["0000003.safetensors"], ["0000000.safetensors"])
    assert values(tmp_path / "RUN") == {record.id: int(record.id) for record in records}
    assert {path: path.read_bytes() for path in before} == before


def test_shards_of_another_run_are_copied_unless_there_are_own_ones(tmp_path):
    made(tmp_path / "OTHER")
    shards = jobs(tmp_path / "RUN", source=tmp_path / "OTHER")
    assert to_do(shards) == []
    copies = shards.carried_over([])
    assert copies == [path for path, _ in shards.jobs]
    shards.carry_over(copies[0])
    assert copies[0].read_bytes() == (tmp_path / "OTHER" / copies[0].name).read_bytes()
    assert shards.carried_over([]) == copies[1:]
    assert shards.carried_over(shards.jobs[1:2]) == copies[2:]


def test_a_shard_with_pictures_left_out_serves_only_where_bad_pictures_are_skipped(tmp_path):
    shards = made(tmp_path, skip_bad=True)
    path, records = shards.jobs[0]
    shards.store(path, records, [None, *(shards.measure(record) for record in records[1:])])
    assert to_do(shards) == []
    assert stored(tmp_path) == [record.id for record in RECORDS[1:]]
    assert to_do(jobs(tmp_path)) == [path.name]
    with pytest.raises(ImageError, match="no picture of 000 to 015 can be read"):
        shards.store(path, records, [None] * len(records))
