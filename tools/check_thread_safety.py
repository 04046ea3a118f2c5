#!/usr/bin/env python3
"""Fails when clang's -Wthread-safety finds a guarded member used without its lock.

Compiles, with clang, every source that reaches base/mutex.h; the rest has no
annotations to check. Usage: check_thread_safety.py SOURCE_DIR BUILD_DIR
"""
import concurrent.futures, json, os, pathlib, re, shlex, shutil, subprocess, sys

source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
src = source / "src"
INCLUDE = re.compile(r'^\s*#include "([\w./]+)"', re.M)
KEEP = re.compile(r"^(-I|-isystem|-D|-std)")


def reaches_mutex(path, seen):
    if path in seen or not path.exists():
        return False
    seen.add(path)
    names = INCLUDE.findall(path.read_text())
    return "base/mutex.h" in names or any(reaches_mutex(src / n, seen) for n in names)


def compile_with_clang(entry):
    words, keep = shlex.split(entry["command"]), []
    for i, word in enumerate(words):
        if KEEP.match(word):
            keep += [word] if word not in ("-isystem", "-I") else [word, words[i + 1]]
    out = build / "thread-safety" / (entry["file"].replace("/", "_") + ".o")
    out.parent.mkdir(exist_ok=True)
    command = ["clang++", *keep, "-w", "-Wthread-safety", "-Werror=thread-safety", "-O0", "-c",
               entry["file"], "-o", str(out)]
    if shutil.which("ccache"):
        command.insert(0, "ccache")
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return entry["file"], done.returncode, done.stderr


if not shutil.which("clang++"):
    print("skipped: clang++ is not installed (apt-get install clang)")
    sys.exit(77)
entries = [e for e in json.loads((build / "compile_commands.json").read_text())
           if pathlib.Path(e["file"]).suffix == ".cc" and src in pathlib.Path(e["file"]).parents
           and not e["file"].endswith(("_test.cc", "_bench.cc"))
           and reaches_mutex(pathlib.Path(e["file"]), set())]
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(compile_with_clang, entries))
bad = [(f, err) for f, code, err in results if code]
for f, err in bad:
    print(f"{f}:\n{err}")
print(f"thread safety: {len(entries)} sources checked, {len(bad)} with findings")
sys.exit(bool(bad) or not entries)
