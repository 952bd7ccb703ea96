"""Texts of unknown origin as a person may see them: nothing in them steers a terminal, or the order of letters."""


def printable(text: str) -> str:
    """Return a text in which everything prints: but for line breaks, control and bidi characters become escapes."""
    if text.isprintable():
        return text
    return "".join(letter if letter.isprintable() or letter == "\n" else ascii(letter)[1:-1] for letter in text)
