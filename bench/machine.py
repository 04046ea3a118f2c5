"""What a benchmark ran on, for its result file."""
import os
import platform
import re
import subprocess


def cpu_model():
    with open("/proc/cpuinfo") as f:
        found = re.search(r"model name\s*:\s*(.*)", f.read())
    return found[1] if found else platform.processor()


def commit():
    """Of the program that is measured. BENCH_COMMIT says it where that was built elsewhere."""
    if built := os.environ.get("BENCH_COMMIT"):
        return built
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    return done.stdout.strip() or "unknown"
