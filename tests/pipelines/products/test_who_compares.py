"""Whether a file is current is asked in few places: every comparison of recorded inputs with present ones is listed.

A function asks if it calls a function that compares settings, or compares a hash of what a file was made from (`==`,
`!=`, `in`) itself. Functions that take a state, a product or an error of such a comparison do not compare. Hashes of
pixels are of pictures, not of files of a run, and do not count.
"""

import ast
from pathlib import Path

ROOM = Path(__file__).parents[3] / "pipelines"
COMPARING = {"settings_difference", "check_settings"}
HASHES = {"weights_hash", "model_hash", "content_hash", "file_hash", "checksum", "_key", "_checksum", "content_of"}

STATES = {
    "products/product.py:Product.compared": "every file that records its inputs as a mapping",
    "products/shards.py:finished_shards": "the shards of a set, which a stage only reads",
    "shards/jobs.py:ShardJobs._fits": "one shard, which extraction keeps or makes again",
    "shards/importing.py:SetImport.check_content": "the content of external files in one shard",
    "shards/objectness.py:ObjectnessRequest.is_source_of": "the objectness in one shard, which is measured again alone",
    "fitting/interrupted.py:_is_of": "one class of choices.json and training/resume.json",
}
OTHERS = {
    "shards/cluster.py:make_shard": "a worker's extractor is that of this machine",
    "shards/cluster.py:_request": "a worker's source of objectness is that of this machine",
    "products/drawn.py:DrawnShard._extractor": "the extractor that is opened is that of the shards",
    "run/checked_files.py:read_checked": "a small file is whole",
}


def called(node):
    """Return the name of a called function."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def names(node):
    """Return the names and attributes below a node."""
    return {getattr(one, "attr", getattr(one, "id", "")) for one in ast.walk(node)}


def of_rules(node):
    """Return whether a call checks the rules of settings, by a function of the same name with one argument."""
    return called(node) == "check_settings" and len(node.args) == 1


def asks(function):
    """Return whether a function compares recorded inputs."""
    for node in ast.walk(function):
        if isinstance(node, ast.Call) and called(node) in COMPARING and not of_rules(node):
            return True
        if isinstance(node, ast.Compare) and names(node) & HASHES:
            return True
    return False


def functions(tree, owner=""):
    """Yield (Class.name, node) of all functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield f"{owner}{node.name}", node
        elif isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")


def asking():
    """Return the functions of the pipelines that ask, as file:Class.name; maps and thresholds are read elsewhere."""
    found = set()
    for path in ROOM.rglob("*.py"):
        for name, node in functions(ast.parse(path.read_text(encoding="utf-8"))):
            if asks(node):
                found.add(f"{path.relative_to(ROOM).as_posix()}:{name}")
    return found


def test_few_functions_ask_whether_a_file_is_current():
    rooms = ("products", "shards", "fitting", "stages", "commands", "run", "context")
    inside = {name for name in asking() if name.split("/")[0].removesuffix(".py") in rooms}
    assert inside == STATES.keys() | OTHERS.keys()
    assert len(STATES) <= 6


def test_a_function_that_compares_is_found():
    for text in ("def f():\n    return weights_hash(a) != b", "def f():\n    return settings_difference(a, b)"):
        assert asks(ast.parse(text).body[0])
    assert not asks(ast.parse("def f():\n    return product.state().is_current").body[0])
