"""Programs that hold leases, so that the pictures of the dashboard show some: real processes,
with the memory that a scenario says they use."""

import json, os, pathlib, subprocess, sys

root = pathlib.Path(__file__).resolve().parent.parent

# Reads the address of the server from stdin, then holds a lease for a while.
PROGRAM = """
import json, sys, time
import sluice
address, after_s, lasts_s, request = json.loads(sys.stdin.readline())
time.sleep(after_s)
with sluice.lease(address=address, export=False, **request):
    time.sleep(lasts_s)
"""

LONG = 3600
# (GB really used, asks after s, holds it for s, what it asks for)
PROGRAMS = [
    (52.3, 2, LONG, dict(agent="synthesizer", memory_gb=56, priority="critical", device=6)),
    (20.6, 8, LONG, dict(agent="scout", memory_gb=24, priority="high", device=4,
                         model_type="vision", client_limits=True)),
    (46.1, 4, LONG, dict(agent="trainer-nightly", memory_gb=60, priority="low", device=7)),
    (19.4, 30, LONG, dict(agent="embedder", memory_gb=16, device=7)),
    (0.5, 10, 45, dict(agent="eval", memory_gb=12, device=7)),
    (0.5, 68, 30, dict(agent="eval", memory_gb=12, device=7)),
    (0.5, 20, 40, dict(agent="notebook-anna", memory_gb=8, priority="low", device=0)),
    (0.5, 40, LONG, dict(agent="giant-lm", memory_gb=130, model_type="llm", ttl_s=600)),
    (0.5, 16, LONG, dict(agent="indexer", memory_gb=12, priority="low", device=5)),
    (0.5, 100, LONG, dict(agent="batch-render", memory_gb=100, priority="low",
                         on_unavailable="wait", wait_s=600)),
]
URGENT = dict(agent="planner", memory_gb=70, priority="high", on_unavailable="wait", wait_s=60)


def start():
    environment = {**os.environ, "PYTHONPATH": str(root / "python")}
    return subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, text=True,
                            env=environment, stderr=subprocess.DEVNULL)


class Life:
    """Starts the programs, which wait; put_into() lets a scenario know of them, begin() has
    them ask the server."""

    def __enter__(self):
        self.processes = [start() for _ in PROGRAMS]
        return self

    def __exit__(self, *_):
        for process in self.processes:
            process.kill()
            process.wait()
            process.stdin.close()

    def put_into(self, machine):
        for process, (used, after_s, _, request) in zip(self.processes, PROGRAMS):
            if used < 1 or "device" not in request:
                continue
            # It takes memory once it has the lease, which is not at once.
            ramp = {"from": 0.3, "to": used, "over_s": 10, "after_s": after_s + 15}
            machine["gpus"][request["device"]].setdefault("processes", []).append(
                {"pid": process.pid, "name": request["agent"], "memory_gib": {"ramp": ramp}})

    def begin(self, server):
        self.address = "unix:" + os.path.join(server.state.name, "sluice.sock")
        for process, (_, after_s, lasts_s, request) in zip(self.processes, PROGRAMS):
            tell(process, self.address, after_s, lasts_s, request)

    def hurry(self):
        """Somebody more important comes: one of the others is asked to yield."""
        self.processes.append(start())
        tell(self.processes[-1], self.address, 0, LONG, URGENT)


def tell(process, *what):
    process.stdin.write(json.dumps(what) + "\n")
    process.stdin.flush()
