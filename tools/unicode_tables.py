#!/usr/bin/env python3
"""Writes src/text/unicode/tables.inc: what the reference `tokenizers` does with every code point.

The reference draws on five Unicode versions (its normalization, categories, graphemes and two regular
expression engines), so the tables are asked of it and not of a database. Needs `tokenizers` 0.23 and
libutf8proc. Usage: unicode_tables.py OUT"""
import ctypes, struct, sys, unicodedata

from tokenizers import Regex, __version__, normalizers as n, pre_tokenizers as p

ALL = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
SYLLABLES = range(0xAC00, 0xD7A4)  # Hangul: composed by arithmetic
# Where characters are assigned, private ones and ideographs aside: for the slow questions.
ASSIGNED = [c for c in ALL if c < 0x3400 or 0xA000 <= c < 0xAC00 or 0xD7A4 <= c < 0xE000
            or 0xF900 <= c < 0x20000 or 0xE0000 <= c < 0xE1000]


def isolated(tokenizer):
    """Whether it splits a character off the letters around it."""
    return lambda c: len(tokenizer.pre_tokenize_str("a" + chr(c) + "a")) > 1


def is_class(pattern):
    split = p.Split(Regex(pattern), "isolated")  # of the two: one may be what follows
    return lambda c: any(text == chr(c) for text, _ in split.pre_tokenize_str("\x00" + chr(c) + "\x00"))


def removes(normalizer):
    return lambda c: normalizer.normalize_str("a" + chr(c) + "a") == "aa"


def is_word(c):  # of Rust's regex
    return len(p.Whitespace().pre_tokenize_str("a" + chr(c) + "a")) == 1


def bert(**on):
    return n.BertNormalizer(**{**dict(clean_text=False, handle_chinese_chars=False, strip_accents=False,
                                      lowercase=False), **on})


FLAGS = [  # in the order of the bits of unicode.h
    isolated(p.WhitespaceSplit()), removes(bert(clean_text=True)), removes(bert(strip_accents=True)),
    removes(n.StripAccents()), isolated(p.Punctuation()), isolated(p.Digits(individual_digits=True)),
    is_class(r"\p{L}"), is_class(r"\p{N}"), is_class(r"\s"), is_word,
    *map(is_class, (r"\p{M}", r"\w", r"\d", r"\p{P}", r"\p{Lu}", r"\p{Ll}", r"\p{Lt}", r"\p{Lm}", r"\p{Lo}")),
]


def charsmap(key, value=b"z"):
    """A charsmap that maps one text: each of its bytes has 256 units of the double array."""
    units = [0] * (256 * (len(key) + 2))
    units[0] = 256 << 10
    for at, byte in enumerate(key):
        place = 256 * (at + 1) ^ byte
        units[place] = byte | (place ^ 256 * (at + 2)) << 10 | (at == len(key) - 1) << 8
    return n.Precompiled(struct.pack(f"<I{len(units)}I", 4 * len(units), *units) + value + b"\x00")


def graphemes():
    """Grapheme classes: utf8proc's, where the reference does not show others."""
    lib = ctypes.CDLL("libutf8proc.so.2")
    lib.utf8proc_get_property.restype = ctypes.POINTER(ctypes.c_uint8)
    names = {2: 1, 3: 2, 4: 3, 5: 4, 14: 5, 11: 6, 13: 7, 12: 8, 6: 9, 7: 10, 8: 11, 9: 12, 10: 13, 19: 14}
    classes = {c: names.get(lib.utf8proc_get_property(c)[21], 0) for c in ALL}
    joins = charsmap(b"a")
    for c in ALL:
        joined = joins.normalize_str("a" + chr(c)) == "z"
        if joined != (classes[c] in (4, 5, 8)): classes[c] = 4 if joined else 0
    grave, virama, ka = "\u0300", "\u094d", "\u0915"
    of_ka = charsmap(ka.encode())
    for c in ASSIGNED:
        own = charsmap(chr(c).encode())
        if c != 0x62: prepends = own.normalize_str(chr(c) + "b") == "z"
        if prepends != (classes[c] == 7): classes[c] = 7 if prepends else 0
        if 0x800 <= c < 0x10000:  # a longer one with a mark is mapped character by character
            if classes[c] == 0 and own.normalize_str(ka + virama + chr(c) + grave).endswith("z" + grave):
                classes[c] = 15  # Indic consonant
            if classes[c] in (4, 8) and of_ka.normalize_str("\u0915" + chr(c) + ka + grave).endswith("z" + grave):
                classes[c] = 16  # Indic linker
    return classes


def runs(values):
    """[(first, value)] of what changes."""
    out = []
    for c in range(0x110000):
        value = values.get(c, 0)
        if not out or out[-1][1] != value: out.append((c, value))
    return out


def mapped(normalize, skip=()):
    return [(c, text) for c in ALL if c not in skip and (text := normalize(chr(c))) != chr(c)]


def combining_classes():
    """Classes never change, but the reference may not know a character."""
    low, high = "\u0334", "\u0345"  # classes 1 and 240
    def is_known(c):
        return (n.NFD().normalize_str(chr(c) + low)[0] == low
                or n.NFD().normalize_str(high + chr(c))[0] == chr(c) or c in (0x334, 0x345))
    return {c: unicodedata.combining(chr(c)) for c in ALL
            if unicodedata.combining(chr(c)) and (unicodedata.combining(chr(c)) == 1 or is_known(c))}


def compositions():
    out = []
    for c in ALL:
        parts = unicodedata.decomposition(chr(c)).split()
        if len(parts) == 2 and not parts[0].startswith("<"):
            a, b = (int(part, 16) for part in parts)
            if n.NFC().normalize_str(chr(a) + chr(b)) == chr(c): out.append((a, b, c))
    return sorted(out)


def wrapped(items, name, kind):
    lines, line = [], ""
    for item in items:
        if len(line) + len(item) > 118: lines, line = lines + [line], ""
        line += item + ","
    return f"constexpr {kind} {name}[] = {{\n" + "\n".join(lines + [line]) + "};\n"


def text_table(name, items):
    """Code point, length, then the code points of what it becomes."""
    flat = [f"{v:#x}" for c, text in items for v in (c, len(text), *map(ord, text))]
    return wrapped(flat, name, "char32_t")


def main():
    flags = {c: sum(bool(has(c)) << bit for bit, has in enumerate(FLAGS)) for c in ALL}
    out = [f"// Written by tools/unicode_tables.py from tokenizers {__version__}. Do not edit.\n"]
    pairs = lambda values: [f"{{{first:#x},{value}}}" for first, value in runs(values)]
    out += [wrapped(pairs(flags), "kFlagRuns", "Run"), wrapped(pairs(graphemes()), "kGraphemeRuns", "Run"),
            wrapped(pairs(combining_classes()), "kCombiningRuns", "Run"),
            text_table("kCanonical", mapped(n.NFD().normalize_str, SYLLABLES)),
            text_table("kCompatible", mapped(n.NFKD().normalize_str, SYLLABLES)),
            text_table("kLowerForms", mapped(n.Lowercase().normalize_str)),
            wrapped([f"{{{a:#x},{b:#x},{c:#x}}}" for a, b, c in compositions()], "kCompositions", "Composition")]
    open(sys.argv[1], "w").write("\n".join(out))


main()
