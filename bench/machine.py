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
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True,
                          cwd=os.path.dirname(os.path.abspath(__file__)))
    return done.stdout.strip() or "unknown"
