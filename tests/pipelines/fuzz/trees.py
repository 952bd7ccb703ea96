"""Strategies that change what a file says: trees of JSON, XML and TOML, tables, and the text that holds them."""

import copy
import json
from xml.sax.saxutils import escape, quoteattr

from hypothesis import strategies as st

ATOMS = (
    None, True, False, 0, -1, 1, 2, 7, 1.0, 0.5, -0.0, 2**31, 2**63, -(2**70), 10**400, 1e308, 1e-320, float("nan"),
    float("inf"), "", " ", "0", "1.0", "-1", "nan", "none", "background", "a", "cat", "é", "e\u0301", "a\0b", "a\nb",
    "\ud800", "\u202e", "../a.jpg", "/etc/passwd", "a/../../b", "C:\\a.jpg", ".", "..", "x" * 300, [], {}, [[]],
    {"a": {"b": []}}, [0, 0, 0, 0], [1e308] * 4, ["1", "2", "3", "4"], [True] * 4,
)  # fmt: skip
PIECES = (
    b"\0", b"\xff", b"\xef\xbb\xbf", b"\xff\xfe", b"\r", b"\n", b"\t", b'"', b"'", b"<", b"&", b"]", b"[", b"{", b"}",
    b",", b";", b"=", b":", b"#", b"-1", b"nan", b"NaN", b"Infinity", b"1e999", b"9" * 5000, b"../", b"%00",
    b"\xed\xa0\x80", b"null", b"[" * 20_000, b'{"a":' * 20_000, b"<a>" * 20_000, b"a." * 5000, b"[a]\n",
    b"&a [*a]", b"!!python/object/apply:os.system [id]", b"<<: *a", b"<!DOCTYPE a [<!ENTITY b 'c'>]>&b;", b"<![CDATA[",
    "\u2028\u202e\u0085".encode(), b"\x80" + bytes(7), b"\x7f" + b"\xff" * 7,
)  # fmt: skip


def places(tree):
    """Return (parent, key) of every value of a tree, the outermost one in a list first."""
    found = [([tree], 0)]
    for parent, key in found:
        value = parent[key]
        if isinstance(value, dict | list):
            found += [(value, name) for name in (value if isinstance(value, dict) else range(len(value)))]
    return found


def _replace(draw, parent, key, _):
    parent[key] = copy.deepcopy(draw(st.sampled_from(ATOMS)))


def _remove(draw, parent, key, _):
    del parent[key]


def _double(draw, parent, key, _):
    if isinstance(parent, list):
        parent.insert(key, copy.deepcopy(parent[key]))
    else:
        parent[draw(st.sampled_from(("", f"{key} ", str(key).upper(), f"{key}\0", "a")))] = parent[key]


def _exchange(draw, parent, key, found):
    other, name = draw(st.sampled_from(found))
    parent[key] = copy.deepcopy(other[name])


def _wrap(draw, parent, key, _):
    parent[key] = draw(st.sampled_from(([parent[key]], {"a": parent[key]}, str(parent[key])[:500])))


def _move(draw, parent, key, _):
    value = parent[key]
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9:
        parent[key] = draw(st.sampled_from((-value, value + 0.5, value * 1000)))
    else:
        parent[key] = draw(st.sampled_from((f"{value}"[:50] + "\n", f" {value}"[:50])))


EDITS = (_replace, _remove, _double, _exchange, _wrap, _move)


@st.composite
def altered(draw, tree):
    """Draw a tree with up to three of its values replaced, left out, doubled, exchanged or wrapped."""
    holder = [copy.deepcopy(tree)]
    for _ in range(draw(st.integers(1, 3))):
        found = [(holder, 0), *places(holder[0])[1:]] if holder else []
        if not found:
            return None
        parent, key = found[draw(st.integers(0, len(found) - 1))]
        draw(st.sampled_from(EDITS))(draw, parent, key, [one for one in found if one[0] is not holder] or found)
    return holder[0] if holder else None


@st.composite
def damaged(draw, content):
    """Draw bytes cut short, with a piece put in or in place of others, or a part of them left out or doubled."""
    place = draw(st.integers(0, len(content)))
    end = min(len(content), place + draw(st.integers(0, 40)))
    piece = draw(st.sampled_from(PIECES))
    kinds = (
        content[:place], content[:place] + piece + content[place:], content[:place] + piece + content[end:],
        content[:place] + content[end:], content[:end] + content[place:],
        content[:place] + bytes([draw(st.integers(0, 255))]) + content[place + 1 :],
    )  # fmt: skip
    return draw(st.sampled_from(kinds))


def often_whole(texts):
    """Draw from a strategy, four times of five without further damage."""
    return st.integers(0, 4).flatmap(lambda kind: texts.flatmap(damaged) if kind == 4 else texts)


def encoded(text):
    """Return text as UTF-8, with what no text can hold."""
    return text.encode("utf-8", "surrogatepass")


def json_text(tree, **options):
    """Return a tree as JSON."""
    return encoded(json.dumps(tree, **options))


def json_files(tree):
    """Draw files of JSON that say almost what a tree says."""
    written = st.tuples(altered(tree), st.booleans())
    return often_whole(written.map(lambda one: json_text(one[0], ensure_ascii=one[1])))


def json_lines(trees):
    """Draw files of a JSON value a line."""
    return often_whole(altered(list(trees)).map(lines_of_json))


def lines_of_json(trees):
    """Return a file of a JSON value a line."""
    rows = trees if isinstance(trees, list) else [trees]
    return b"".join(json_text(one) + b"\n" for one in rows)


def xml_text(node):
    """Return a node [tag, attributes, text, children] as XML; what is none becomes text."""
    if not (isinstance(node, list) and len(node) == 4 and isinstance(node[1], dict) and isinstance(node[3], list)):
        return escape("" if node is None else str(node)[:500])
    attributes = "".join(f" {name}={quoteattr(str(value)[:500])}" for name, value in node[1].items())
    inside = "".join(map(xml_text, node[3]))
    return f"<{node[0]}{attributes}>{xml_text(node[2])}{inside}</{node[0]}>"


def xml_files(node):
    """Draw files of XML."""
    return often_whole(altered(node).map(lambda one: encoded(xml_text(one))))


def table_text(rows, separator):
    """Return rows of cells as lines; a cell that needs quotes gets them."""
    cells = [[_cell(one, separator) for one in (row if isinstance(row, list) else [row])] for row in rows or []]
    return encoded("".join(separator.join(row) + "\n" for row in cells))


def _cell(value, separator):
    text = "" if value is None else str(value)[:500]
    return '"' + text.replace('"', '""') + '"' if separator in ",;" and set(text) & set(f'{separator}"\n') else text


def tables(rows, separators=(",", ";")):
    """Draw tables."""
    written = st.tuples(altered(rows), st.sampled_from(separators))
    return often_whole(written.map(lambda one: table_text(one[0] if isinstance(one[0], list) else [one[0]], one[1])))


def toml_text(values):
    """Return dotted names with their values as TOML, as far as JSON's values are TOML's."""
    rows = values.items() if isinstance(values, dict) else [("a", values)]
    return b"".join(encoded(f"{name} = ") + json_text(value) + b"\n" for name, value in rows)


def toml_files(values):
    """Draw files of TOML."""
    return often_whole(altered(values).map(toml_text))


def yaml_text(tree, depth=0):
    """Return a tree as YAML in blocks, without quotes."""
    pad = "  " * depth
    if isinstance(tree, dict) and tree:
        return "".join(f"{pad}{name}:{_below(value, depth)}" for name, value in tree.items())
    if isinstance(tree, list) and tree:
        return "".join(f"{pad}-{_below(value, depth)}" for value in tree)
    return f"{pad}{tree}\n"


def _below(value, depth):
    is_block = isinstance(value, dict | list) and value
    return "\n" + yaml_text(value, depth + 1) if is_block else f" {str(value)[:500]}\n"


def yaml_files(tree):
    """Draw files of YAML, in blocks or as JSON."""
    written = st.tuples(altered(tree), st.booleans())
    return often_whole(written.map(lambda one: encoded(yaml_text(one[0])) if one[1] else json_text(one[0])))
