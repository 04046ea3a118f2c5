#!/usr/bin/env python3
"""How many /health requests the server answers, beside the plainest Beast server there is.

    ninja -C build http_peer
    bench/http_bench.py build/sluice build/http_peer [--out bench/results/DATE-http.json]

Server and load generator (wrk, 64 connections) share the machine's cores. What a
machine gives changes from minute to minute, so both servers take turns and the ratio
counts. Then a soak: a million requests, with the server's memory before and after."""
import argparse, datetime, json, os, re, shutil, subprocess, sys, tempfile

from machine import commit, cpu_model

UNITS = {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}


def wrk(url, seconds, connections):
    text = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}", "--latency", url],
                          capture_output=True, text=True, check=True).stdout
    p = {q: float(v) * UNITS[u] for q, v, u in
         re.findall(r"^\s+(50|99)%\s+([\d.]+)(us|ms|s|m)$", text, re.M)}
    failed = re.search(r"Socket errors.*|Non-2xx.*", text)
    return {"requests_per_s": round(float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])),
            "requests": int(re.search(r"(\d+) requests in", text)[1]),
            "p50_ms": round(p["50"], 3), "p99_ms": round(p["99"], 3),
            "failed": failed[0].strip() if failed else ""}


def memory(pid):
    """Resident bytes of the process itself."""
    with open(f"/proc/{pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def best(rounds):
    return max(rounds, key=lambda r: r["requests_per_s"])


def command():
    """What was called, wherever it was built."""
    return " ".join(["bench/http_bench.py", *(os.path.basename(a) for a in sys.argv[1:])])


def soak(url, pid, requests, connections):
    wrk(url, 3, connections)  # buffers and pools reach their size
    before, done = memory(pid), 0
    highest = before
    while done < requests:
        done += wrk(url, 3, connections)["requests"]
        highest = max(highest, memory(pid))
    after = memory(pid)
    return {"requests": done, "memory_before_bytes": before, "memory_after_bytes": after,
            "memory_highest_bytes": highest, "growth_bytes": after - before}


def measure(ask, server, peer_port):
    url, peer = server["url"] + "health", f"http://127.0.0.1:{peer_port}/"
    ours, theirs = [], []
    for _ in range(ask.rounds):
        theirs.append(wrk(peer, ask.seconds, ask.connections))
        ours.append(wrk(url, ask.seconds, ask.connections))
    a, b = best(ours), best(theirs)
    ratios = sorted(o["requests_per_s"] / t["requests_per_s"] for o, t in zip(ours, theirs))
    result = {"suite": "http", "what": "GET /health", "date": datetime.date.today().isoformat(), "commit": commit(),
              "cpu": cpu_model(), "cores": len(os.sched_getaffinity(0)), "connections": ask.connections,
              "command": command(), "sluice": a, "plain_beast": b,
              "ratio": round(ratios[len(ratios) // 2], 3),
              "rounds": {"sluice": ours, "plain_beast": theirs}}
    if ask.soak:
        result["soak"] = soak(url, server["pid"], ask.soak, ask.connections)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sluice")
    parser.add_argument("peer")
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--soak", type=int, default=1_000_000, metavar="REQUESTS")
    parser.add_argument("--serve", default="", help="more arguments of sluice serve")
    parser.add_argument("--out", help="file for the JSON result; else stdout")
    ask = parser.parse_args()
    if not shutil.which("wrk"):
        sys.exit("http_bench: no wrk here; apt-get install wrk")
    with tempfile.TemporaryDirectory() as state:
        sluice = subprocess.Popen([ask.sluice, "serve", "--port", "0", "--json", "--state", state,
                                   *ask.serve.split()], stdout=subprocess.PIPE, text=True)
        peer = subprocess.Popen([ask.peer], stdout=subprocess.PIPE, text=True)
        try:
            result = measure(ask, json.loads(sluice.stdout.readline()),
                             int(peer.stdout.readline().split()[1]))
        finally:
            for process in (sluice, peer):
                process.terminate()
                process.wait()
    text = json.dumps(result, indent=2) + "\n"
    if ask.out:
        with open(ask.out, "w") as f:
            f.write(text)
        print(f"{ask.out}: {result['sluice']['requests_per_s']} /s, p99 "
              f"{result['sluice']['p99_ms']} ms, {result['ratio']} of the plain server's")
    else:
        print(text, end="")


if __name__ == "__main__":
    main()
