"""Text from outside as a terminal may see it.

Names, messages and images of objects, errors of servers and names of files can hold anything. Some characters
make a terminal move its cursor, change its title or answer with input, or let a line read as another one:

    C0 controls and DEL        ESC begins most of them; CR overwrites a line
    C1 controls (U+0080–9F)    a terminal takes U+009B for ESC [
    bidirectional controls     reorder the text that follows
    line separators            (U+2028, U+2029) and lone surrogates, which can't be written at all

Each becomes U+FFFD, which is visible and changes nothing. Newlines and tabs stay.
"""

import re
from typing import Final

REPLACEMENT: Final = "\ufffd"
_HOSTILE: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff"
_CONTROLS: Final = re.compile(f"[{_HOSTILE}]")
_CONTROLS_AND_BREAKS: Final = re.compile(f"[\t\n{_HOSTILE}]")


def neutralise(text: str) -> str:
    """Replace what a terminal would obey; newlines and tabs stay."""
    return _CONTROLS.sub(REPLACEMENT, text.replace("\r\n", "\n"))


def one_line(text: str) -> str:
    """As neutralise, without newlines and tabs: for a name or a kind in the middle of a sentence."""
    return _CONTROLS_AND_BREAKS.sub(REPLACEMENT, text)


def escape_json(text: str) -> str:
    """Write the same characters as escapes in a text of JSON, where they occur in strings alone."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
