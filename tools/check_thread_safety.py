#!/usr/bin/env python3
"""Fails when clang's -Wthread-safety finds a guarded member used without its lock.

Compiles, with clang, every source that names a lock, or what one guards in a header that it
includes; and one source for each header with locks that none of those includes. Gives way to
whatever else runs. Usage: check_thread_safety.py SOURCE_DIR BUILD_DIR
"""
import concurrent.futures, json, os, pathlib, re, shlex, shutil, subprocess, sys

source, build = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
src = source / "src"
INCLUDE = re.compile(r'^\s*#include "([^"]+)"', re.M)
ANNOTATED = re.compile(r"base/mutex\.h|\b(GUARDED_BY|REQUIRES|Lock|Mutex)\b")
GUARDED = re.compile(r"(\w+)(?:\[\w*\])*\s+GUARDED_BY\(|(\w+)\([^;{}]*?\)[^;{}]*?\bREQUIRES\(")
KEEP = re.compile(r"^(-I|-isystem|-D|-std)")


def headers_with_locks(path):
    found = (src / name for name in INCLUDE.findall(path.read_text()))
    return {h for h in found if h.exists() and ANNOTATED.search(h.read_text())}


def is_checked(path):
    text, guarded = path.read_text(), set()
    for header in headers_with_locks(path):
        guarded |= {"".join(names) for names in GUARDED.findall(header.read_text())}
    return ANNOTATED.search(text) or not guarded.isdisjoint(re.findall(r"\w+", text))


def chosen(candidates):
    """Of (entry, source): those to compile."""
    jobs = [job for job in candidates if is_checked(job[1])]
    seen = set().union(*(headers_with_locks(file) for _, file in jobs))
    for job in candidates:
        if not headers_with_locks(job[1]) <= seen:
            jobs.append(job)
            seen |= headers_with_locks(job[1])
    return jobs


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
    # Not -w, which would silence the errors too.
    command = ["clang++", *keep, "-Wno-everything", "-Werror=thread-safety", "-O0", "-c", str(file),
               "-o", str(out)]
    if shutil.which("ccache"):
        command.insert(0, "ccache")
    done = subprocess.run(command, cwd=entry["directory"], capture_output=True, text=True)
    return file, done.returncode, done.stderr


if not shutil.which("clang++"):
    print("skipped: clang++ is not installed (apt-get install clang)")
    sys.exit(77)
os.nice(19)
candidates = [(entry, file)
              for entry in json.loads((build / "compile_commands.json").read_text())
              for file in sources(entry)
              if file.suffix == ".cc" and src in file.parents
              and not file.name.endswith(("_test.cc", "_bench.cc"))]
jobs = chosen(candidates)
with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
    results = list(pool.map(lambda job: compile_with_clang(*job), jobs))
bad = [(f, err) for f, code, err in results if code]
for f, err in bad:
    print(f"{f}:\n{err}")
print(f"thread safety: {len(jobs)} sources checked, {len(bad)} with findings")
sys.exit(bool(bad) or not jobs)
