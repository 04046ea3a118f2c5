#!/usr/bin/env python3
"""Fails on what a compiler does not see: a second launch site, a stray getenv, sizes in bytes that
may overflow, an unformatted or overlong file. Usage: check_tree.py SOURCE_DIR"""
import pathlib, re, shutil, subprocess, sys

MAX_LINES, MAX_TEST_LINES = 400, 500
TEST = re.compile(r"_test(_main)?\.|for_(gpu_)?tests|^tests/")
MAY_BE_LONGER = {  # up to MAX_TEST_LINES, with the reason
    "src/broker/broker.cc": "every operation takes the same lock and writes to the same journal",
    "src/broker/store/store.cc": "one database: its schema, its statements and its recovery",
    "src/engine/exec/cuda/nodes/elementwise.cc": "one table of operators with its makers",
    "src/kernels/conv/conv_few_channels_sm90.cu": "one kernel with its tiles and its launcher",
}

# An element count times the width of a type, of dimensions that may come from a file: byte_size()
# of src/tensor refuses what wraps around. Offsets from a pointer (p + i * width) are none; market data
# and device buffers are no tensors.
OF_TENSORS = ("src/tensor/", "src/formats/", "src/kernels/", "src/engine/", "src/serve/", "src/cli/", "src/bindings/")
LOADERS = ("src/formats/", "src/engine/plan")  # where every size may come from a file
MAY_MULTIPLY = ("src/tensor/byte_size.cc", "src/tensor/tensor.h")  # tensor.h: checked when made
WIDTH = (r"(?:(?<![\w.>])(?:sluice::)?(?:bytes|bits)\((?:[^()]|\([^()]*\))*\)"  # of a DType
         r"|\b(?:\w+\.)?element_bytes\(\))")
CAST = r"(?:static_cast<[^<>]*>\(|std::max<[^<>]*>\()?"
COUNT = (r"(?<!\+ )(?:\bcount|\bnumel|\belements|\bsize\(\)|\bsize\([^()]*\)\)"
         r"|static_cast<std::size_t>\([^;]*\))")


def sizes_in(text, of_a_loader=False):
    """Lines with a size in bytes that is multiplied by hand."""
    names = re.findall(rf"\b(\w+) = {CAST}{WIDTH}", text)  # const auto element = bytes(dtype)
    width = "|".join([WIDTH, *(rf"\b{name}\b" for name in set(names))])
    by_hand = [rf"\*\s*{CAST}{WIDTH}", rf"{WIDTH}\)?\s*\*(?!\s*>)",  # n * bytes(type)
               rf"{COUNT}\)?\s*\*\s*{CAST}(?:{width})", rf"(?:{width})\)?\s*\*\s*{COUNT}",
               rf"(?:{width}) \*=", rf"static_cast<std::size_t>\([^;]*\)\s*\*\s*sizeof",
               r"\bshape\(?\)?\.size\(\)\)?\s*\*\s*sizeof"]
    if of_a_loader:  # of what is in memory already: list.size() * sizeof list[0]
        by_hand += [r"(?<!\.size\(\)) \*\s*sizeof", r"sizeof\(\w+\)\s*\*", r"\b\w+ \* [248]\b"]
    return sorted({text.count("\n", 0, found.start()) + 1
                   for rule in by_hand for found in re.finditer(rule, text)})


root = pathlib.Path(sys.argv[1])
files = [p for folder in ("src", "tests") for p in sorted((root / folder).rglob("*"))
         if p.suffix in {".h", ".cc", ".cu", ".cuh"}]
bad = []
for path in files:
    name, text = path.relative_to(root).as_posix(), path.read_text()
    if "<<<" in text and name != "src/device/cuda/launch.cuh":
        bad.append(f"{name}: kernels are launched by device/cuda/launch.cuh only")
    if re.search(r"\bgetenv\(", text) and not name.startswith(("src/cli/", "tests/")):
        bad.append(f"{name}: the environment is read in src/cli only")
    if name.startswith(OF_TENSORS) and name not in MAY_MULTIPLY and "test" not in path.stem:
        bad += [f"{name}:{line}: sizes in bytes are computed by tensor/byte_size.h only"
                for line in sizes_in(text, name.startswith(LOADERS))]
    limit = MAX_TEST_LINES if TEST.search(name) or name in MAY_BE_LONGER else MAX_LINES
    if (lines := text.count("\n")) > limit:
        bad.append(f"{name}: {lines} lines, more than {limit}; is there more than one idea in it?")
if shutil.which("clang-format"):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)],
                          capture_output=True, text=True)
    bad += sorted({line.split(":")[0] + ": not formatted; run clang-format -i"
                   for line in done.stderr.splitlines() if "clang-format-violations" in line})
print("\n".join(bad) or f"tree: {len(files)} files in order")
sys.exit(bool(bad))
