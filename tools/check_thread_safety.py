#!/usr/bin/env python3
"""Fails when clang's -Wthread-safety finds a guarded member used without its lock.

Compiles, with clang, every source that names an annotation or a lock, itself or in a
header that it includes: members that a lock guards are private, so nobody else can reach
them. Usage: check_thread_safety.py SOURCE_DIR BUILD_DIR
"""
import concurrent.futures, json, os, pathlib, re, shlex, shutil, subprocess, sys

source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
src = source / "src"
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)
ANNOTATED = re.compile(r"base/mutex\.h|\b(GUARDED_BY|REQUIRES)\b")
KEEP = re.compile(r"^(-I|-isystem|-D|-std)")


def names_a_lock(path):
    return path.exists() and ANNOTATED.search(path.read_text())


def is_checked(path):
    return names_a_lock(path) or any(names_a_lock(src / n) for n in INCLUDE.findall(path.read_text()))


def sources(entry):
    """Of a compile command: its source, or those that it compiles together."""
    file = pathlib.Path(entry["file"])
    if file.parent.name != "Unity":
        return [file]
    return [pathlib.Path(name) for name in INCLUDE.findall(file.read_text())]


def compile_with_clang(entry, file):
    words, keep = shlex.split(entry["command"]), []
    for i, word in enumerate(words):
        if KEEP.match(word):
            keep += [word] if word not in ("-isystem", "-I") else [word, words[i + 1]]
    out = build / "thread-safety" / (str(file).replace("/", "_") + ".o")
    out.parent.mkdir(exist_ok=True)
    command = ["clang++", *keep, "-w", "-Wthread-safety", "-Werror=thread-safety", "-O0", "-c",
               str(file), "-o", str(out)]
    if shutil.which("ccache"):
        command.insert(0, "ccache")
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return file, done.returncode, done.stderr


if not shutil.which("clang++"):
    print("skipped: clang++ is not installed (apt-get install clang)")
    sys.exit(77)
jobs = [(entry, file) for entry in json.loads((build / "compile_commands.json").read_text())
        for file in sources(entry)
        if file.suffix == ".cc" and src in file.parents
        and not file.name.endswith(("_test.cc", "_bench.cc")) and is_checked(file)]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(lambda job: compile_with_clang(*job), jobs))
bad = [(f, err) for f, code, err in results if code]
for f, err in bad:
    print(f"{f}:\n{err}")
print(f"thread safety: {len(jobs)} sources checked, {len(bad)} with findings")
sys.exit(bool(bad) or not jobs)
