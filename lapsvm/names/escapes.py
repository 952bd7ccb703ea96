"""Texts of unknown origin as a person may see them: nothing in them steers a terminal, or the order of letters."""


def printable(text: str) -> str:
    """Return a text in which everything prints: but for line breaks, control and bidi characters become escapes."""
    return "\n".join(line if line.isprintable() else _escaped(line) for line in text.split("\n"))


def _escaped(line: str) -> str:
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)
