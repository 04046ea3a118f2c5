#!/usr/bin/env python3
"""Real PyTorch processes share one GPU through leases; what happens is timed.

    bench/gpu_sharing.py --sluice build/sluice [--output FILE]

A trainer and a scout hold the card together. An urgent request does not fit: the
trainer is asked to yield, frees its memory, and the urgent one is granted. A late one is
sent to the CPU with the reason, gets an event when there is capacity, and then the lease. One process
uses more than it leased and is found out. Needs PyTorch and a GPU of 80 GB or more.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import sluice  # noqa: E402

from machine import commit, cpu_model, gpu  # noqa: E402

GIB = 2**30
SAMPLING_S = 1.0  # the server's default, before it is scaled up to keep to its budget


def say(what, **more):
    print(json.dumps({"t": time.time(), "pid": os.getpid(), "what": what, **more}), flush=True)


# ---- the processes that share the card ---------------------------------------------


class Load:
    """Holds memory and computes on it."""

    def __init__(self, gib):
        import torch
        self.torch = torch
        self.held = torch.empty(int(gib * GIB), dtype=torch.uint8, device="cuda:0").fill_(1)
        self.a = torch.randn(4096, 4096, device="cuda:0", dtype=torch.float16)
        torch.cuda.synchronize()

    def step(self):
        self.a = (self.a @ self.a).clamp_(-1, 1)
        self.torch.cuda.synchronize()

    def free(self):
        self.held = self.a = None
        self.torch.cuda.empty_cache()


def hold(agent, gib, seconds, **options):
    with sluice.lease(agent, memory_gb=gib, **options) as gpu:
        say("answered", agent=agent, status=gpu.status, reason=gpu.reason,
            enforcement=gpu.enforcement, batch_size=gpu.batch_size)
        if not gpu.on_gpu:
            say("capacity_reported", agent=agent, available=gpu.wait_for_capacity(120))
            return hold(agent, gib, seconds, **options)
        load = Load(gib * 0.75)
        say("working", agent=agent, device=gpu.device)
        steps, until = 0, time.time() + seconds
        while time.time() < until and not gpu.should_yield:
            load.step()
            steps += 1
        if gpu.should_yield:
            say("yielding", agent=agent, seconds_left=gpu.yield_seconds)
        load.free()
        say("done", agent=agent, steps=steps, enforcement=gpu.enforcement)
    say("released", agent=agent)


def over_use(agent, gib):
    with sluice.lease(agent, memory_gb=gib, limit_torch=False) as gpu:
        say("answered", agent=agent, status=gpu.status)
        load = Load(gib / 2)
        time.sleep(3)
        more = load.torch.empty(int(2 * gib * GIB), dtype=load.torch.uint8,
                                device="cuda:0").fill_(1)
        load.torch.cuda.synchronize()
        say("over_using", agent=agent)
        time.sleep(20)
        del more


# ---- the play ----------------------------------------------------------------------


class Play:
    def __init__(self, program, folder, sampling_s):
        self.events, self.lock = [], threading.Lock()
        self.environment = {**os.environ, "SLUICE_SOCKET": f"{folder}/sluice.sock"}
        self.server = subprocess.Popen(
            [program, "serve", "--port", "0", "--state", folder, "--json",
             "--set", "broker.yield_within_s=20"], stdout=subprocess.PIPE, text=True)
        self.where = json.loads(self.server.stdout.readline())
        self.client = sluice.Client(f"unix:{folder}/sluice.sock")
        threading.Thread(target=self.follow, daemon=True).start()
        time.sleep(5 * sampling_s)

    def follow(self):
        stream = sluice.Client(self.client.address).open("GET", "/v1/events?interval=0", timeout=600)
        kind = ""
        for line in stream:
            line = line.decode().strip()
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: ") and kind.startswith("lease_"):
                self.note({"t": time.time(), "what": kind, **json.loads(line[6:])})

    def note(self, event):
        with self.lock:
            self.events.append(event)

    def start(self, role, *arguments):
        process = subprocess.Popen([sys.executable, __file__, "--role", role, *arguments],
                                   stdout=subprocess.PIPE, text=True, env=self.environment)

        def read():
            for line in process.stdout:
                self.note({**json.loads(line), "from": role})
        threading.Thread(target=read, daemon=True).start()
        return process

    def find(self, what, **match):
        with self.lock:
            return [e for e in self.events
                    if e["what"] == what and all(e.get(k) == v for k, v in match.items())]

    def wait(self, what, seconds=90, **match):
        until = time.time() + seconds
        while time.time() < until:
            if found := self.find(what, **match):
                return found[0]
            time.sleep(0.02)
        raise SystemExit(f"waited {seconds} s in vain for {what} {match}:\n"
                         + "\n".join(map(str, self.events)))

    def metrics(self):
        return self.client.open("GET", "/metrics").read().decode().split("\n")

    def metric(self, name):
        return next(float(line.split()[1]) for line in self.metrics() if line.startswith(name + " "))

    def stop(self):
        self.server.terminate()
        return self.server.wait(20)


def perform(play):
    total = play.client.call("GET", "/v1/leases")["cards"][0]["total_gb"]
    share = round(total * 0.4, 1)
    trainer = play.start("trainer", str(share))
    play.wait("working", agent="trainer")
    scout = play.start("scout", str(share))
    play.wait("working", agent="scout")
    time.sleep(3)
    urgent = play.start("urgent", str(share))
    requested = play.wait("lease_yield", agent="trainer")
    yielding = play.wait("yielding", agent="trainer")
    granted = play.wait("answered", agent="urgent")
    play.wait("working", agent="urgent")
    late = play.start("late", str(share))
    fallback = play.wait("answered", agent="late")
    capacity = play.wait("capacity_reported", agent="late", seconds=120)
    freed = play.find("lease_drained") or play.find("lease_ended", agent="urgent")
    play.wait("working", agent="late", seconds=60)
    over = play.start("over", "2")
    used = play.wait("over_using", seconds=60)
    caught = play.wait("lease_over_use", seconds=30)
    scale = play.metric("sluice_sampler_interval_scale")
    for process in (trainer, scout, urgent, late, over):
        process.wait(120)
    ended = [e["t"] for e in play.find("released", agent="urgent")]
    return {
        "promised_gb_in_all": total, "each_gb": share,
        "requested_to_yielding_s": round(yielding["t"] - requested["t"], 3),
        "requested_to_granted_s": round(granted["t"] - requested["t"], 3),
        "urgent_status": granted["status"],
        "late_status": fallback["status"], "late_reason": fallback["reason"],
        "released_to_capacity_reported_s": round(capacity["t"] - ended[0], 3) if ended else None,
        "over_use_to_event_s": round(caught["t"] - used["t"], 3),
        "sampling_period_s": round(SAMPLING_S * scale, 3),
        "over_use_event": caught, "drained": freed[:1],
        "metrics": [line for line in play.metrics()
                    if line.startswith(("sluice_lease", "sluice_sampler"))],
    }


ROLES = {
    "trainer": lambda gib: hold("trainer", gib, 200, priority="normal"),
    "scout": lambda gib: hold("scout", gib, 60, priority="normal"),
    "urgent": lambda gib: hold("urgent", gib, 15, priority="high", on_unavailable="wait", wait_s=60),
    "late": lambda gib: hold("late", gib, 5, priority="low"),
    "over": lambda gib: over_use("over", gib),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sluice", default="build/sluice")
    parser.add_argument("--output", type=pathlib.Path)
    parser.add_argument("--role", help=argparse.SUPPRESS)
    parser.add_argument("gib", nargs="?", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.role:
        return ROLES[options.role](options.gib)
    machine = {"commit": commit(), "cpu": cpu_model(), **gpu(options.sluice)}
    with tempfile.TemporaryDirectory() as folder:
        play = Play(options.sluice, folder, SAMPLING_S)
        try:
            result = perform(play)
        finally:
            code = play.stop()
    result["server_exit"] = code
    result["events"] = sorted(play.events, key=lambda e: e["t"])
    text = json.dumps({"suite": "sharing", "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                       "command": "bench/gpu_sharing.py", **machine, **result}, indent=1)
    if options.output:
        options.output.write_text(text + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "events"}, indent=1))


if __name__ == "__main__":
    main()
