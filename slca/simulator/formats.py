"""The string formats that are checked for real (which ones, and how strictly, is ours).

date is YYYY-MM-DD; time is HH:MM[:SS], zone optional; date-time is the two joined by ``T`` or a space; email and uri
are checked in their common shape. All other formats are annotations.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date
from urllib.parse import urlsplit

from jsonschema import FormatChecker

_DATE = re.compile(r"([0-9]{4})-([0-9]{2})-([0-9]{2})")
_CLOCK = r"(?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?"
_TIME = re.compile(_CLOCK + r"(?:[Zz]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])?")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL = re.compile(rf"[A-Za-z0-9.!#$%&'*+/=?^_`{{|}}~-]{{1,64}}@{_LABEL}(?:\.{_LABEL}){{1,8}}")

#: What an error message asks for.
HINTS = {
    "date": "a date YYYY-MM-DD",
    "time": "a time HH:MM",
    "date-time": "a date-time YYYY-MM-DDTHH:MM",
    "email": "an email address",
    "uri": "a URI such as https://example.com",
}


def _is_date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if match is None:
        return False
    try:
        date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return False
    return True


def _is_time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def _is_date_time(text: str) -> bool:
    return len(text) > 11 and text[10] in "Tt " and _is_date(text[:10]) and _is_time(text[11:])


def _is_email(text: str) -> bool:
    local = text.partition("@")[0]
    dots_fine = ".." not in local and not local.startswith(".") and not local.endswith(".")
    return dots_fine and _EMAIL.fullmatch(text) is not None


def _is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return bool(parts.scheme and (parts.netloc or parts.path)) and not re.search(r"\s", text)


CHECKS: dict[str, Callable[[str], bool]] = {
    "date": _is_date,
    "time": _is_time,
    "date-time": _is_date_time,
    "email": _is_email,
    "uri": _is_uri,
}


def is_format(name: str, text: str) -> bool:
    """Does ``text`` have the format ``name``? True for formats that are not checked."""
    return name not in CHECKS or CHECKS[name](text)


def format_checker() -> FormatChecker:
    """The checks above, and only they, for a jsonschema validator."""
    checker = FormatChecker(formats=())
    for name in CHECKS:
        checker.checks(name)(lambda value, name=name: not isinstance(value, str) or is_format(name, value))
    return checker
