"""What a benchmark ran on, for its result file."""
import json
import os
import platform
import re
import subprocess


def cpu_model():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return found[1] if found else platform.processor()


def gpu(program):
    """Name and driver of the first GPU, as `program` (sluice) finds it."""
    done = subprocess.run([program, "detect", "--json"], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)["gpus"]
    if not found:
        raise SystemExit("no GPU was found here")
    return {"device": found[0]["name"], "driver": found[0].get("driver_version", "unknown")}


def commit():
    """Of the program that is measured. BENCH_COMMIT says it where that was built elsewhere."""
    if built := os.environ.get("BENCH_COMMIT"):
        return built
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    return done.stdout.strip() or "unknown"


def vectors():
    """Those that programs may use: see no_avx512.c and no_avx512_highway.cc."""
    loaded = os.environ.get("LD_PRELOAD", "")
    if "no_avx512_highway" in loaded:
        return "AVX2 for our own"
    return "AVX2" if "no_avx512" in loaded else "all"
