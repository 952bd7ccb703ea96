"""A run on COCO annotations is the run on the same data in the VOC layout."""

import json

from PIL import Image

from lapsvm.catalog import open_dataset


def as_coco(digits, root):
    """Write the digits as COCO: difficult objects become crowd regions."""
    source = open_dataset("voc", digits)
    for set_name in ("trainval", "test"):
        truth, images, objects = source.ground_truth(set_name), [], []
        for number, record in enumerate(source.records(set_name)):
            (root / set_name).mkdir(parents=True, exist_ok=True)
            (root / set_name / record.path.name).symlink_to(record.path)
            with Image.open(record.path) as picture:
                images.append({"id": number, "file_name": record.path.name, "width": picture.width})
            for category, name in enumerate(source.classes):
                found = truth[name][record.id]
                for (x1, y1, x2, y2), difficult in zip(found.boxes.tolist(), found.difficult.tolist(), strict=True):
                    box = {"bbox": [x1, y1, x2 - x1, y2 - y1], "iscrowd": int(difficult)}
                    objects.append({"id": len(objects), "image_id": number, "category_id": category} | box)
        categories = [{"id": number, "name": name} for number, name in enumerate(source.classes)]
        (root / "annotations").mkdir(exist_ok=True)
        text = json.dumps({"images": images, "annotations": objects, "categories": categories})
        (root / f"annotations/instances_{set_name}.json").write_text(text)


def test_a_run_on_coco_gives_the_bytes_of_the_run_on_voc(command, finished, digits, fast, made, tmp_path):
    as_coco(digits, tmp_path / "coco")
    result = command("run", "--data", "coco", "--root", tmp_path / "coco", "--out", tmp_path / "RUN", "--quiet", *fast)
    assert result.status == 0, result.err
    patterns = ("shards/*/*.safetensors", "models/*.safetensors", "detections/*/*.txt", "evaluation.json")
    assert made(tmp_path / "RUN", *patterns) == made(finished, *patterns)
