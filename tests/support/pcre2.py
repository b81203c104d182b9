"""Regular expression matching with PCRE2, the library that PHP, R and many others use."""

import ctypes
from typing import Final

LIBRARY: Final = ctypes.CDLL("libpcre2-8.so.0")

_UTF: Final = 0x00080000  # PCRE2_UTF


def matches(pattern: str, text: str) -> bool:
    """Return whether a pattern matches within a text; ValueError if it does not compile."""
    LIBRARY.pcre2_compile_8.restype = ctypes.c_void_p
    LIBRARY.pcre2_match_data_create_8.restype = ctypes.c_void_p
    error, offset = ctypes.c_int(), ctypes.c_size_t()
    raw, subject = pattern.encode(), text.encode()
    code = LIBRARY.pcre2_compile_8(
        raw,
        ctypes.c_size_t(len(raw)),
        ctypes.c_uint32(_UTF),
        ctypes.byref(error),
        ctypes.byref(offset),
        None,
    )
    if code is None:
        raise ValueError(f"PCRE2 does not take {pattern!r}: error {error.value} at {offset.value}")
    found = ctypes.c_void_p(LIBRARY.pcre2_match_data_create_8(ctypes.c_uint32(1), None))
    try:
        count = LIBRARY.pcre2_match_8(
            ctypes.c_void_p(code),
            subject,
            ctypes.c_size_t(len(subject)),
            ctypes.c_size_t(0),
            ctypes.c_uint32(0),
            found,
            None,
        )
        return bool(count >= 0)
    finally:
        LIBRARY.pcre2_match_data_free_8(found)
        LIBRARY.pcre2_code_free_8(ctypes.c_void_p(code))
