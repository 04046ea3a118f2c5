#!/usr/bin/env python3
"""Fails on what a compiler does not see: a second launch site, a stray getenv, an
unformatted or overlong file. Usage: check_tree.py SOURCE_DIR"""
import pathlib, re, shutil, subprocess, sys

root = pathlib.Path(sys.argv[1])
files = [p for folder in ("src", "tests") for p in sorted((root / folder).rglob("*"))
         if p.suffix in {".h", ".cc", ".cu", ".cuh"}]
bad = []
for path in files:
    name, text = path.relative_to(root).as_posix(), path.read_text()
    if "<<<" in text and name != "src/device/launch.cuh":
        bad.append(f"{name}: kernels are launched by device/launch.cuh only")
    if re.search(r"\bgetenv\(", text) and not name.startswith(("src/cli/", "tests/")):
        bad.append(f"{name}: the environment is read in src/cli only")
    if (lines := text.count("\n")) > 500:
        bad.append(f"{name}: {lines} lines; is there more than one idea in it?")
if shutil.which("clang-format"):
    done = subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, files)],
                          capture_output=True, text=True)
    bad += sorted({line.split(":")[0] + ": not formatted; run clang-format -i"
                   for line in done.stderr.splitlines() if "clang-format-violations" in line})
print("\n".join(bad) or f"tree: {len(files)} files in order")
sys.exit(bool(bad))
