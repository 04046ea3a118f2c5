#!/usr/bin/env python3
"""How long a lease takes: 64 clients ask for one and give it back, over the Unix socket.

    ninja -C build lease_load
    bench/lease_bench.py build/sluice build/lease_load [--out bench/results/DATE-lease.json]

Every grant is on disk before it is answered (safe against a killed process). Server and load
(one thread for all clients) share the machine's cores. Two ways, in turn, several rounds: at
rates that the clients keep, where a request's time counts from the moment it was due; and flat
out, where each client asks again as soon as it is answered, which shows the limit. Every round
has a server of its own and a second to warm up. What is shown is the median round, the one whose
99th percentile is in the middle, with how late the clients themselves were (client_late): on a
busy machine that is in the request's time, too."""
import argparse, datetime, json, os, re, subprocess, sys, tempfile, time, urllib.request

from machine import commit, cpu_model


def first(ask):
    """Before other work on the machine, such as builds, when asked for."""
    return ["chrt", "-f", "10"] if ask.realtime else []


def load(ask, socket, rate):
    done = subprocess.run([*first(ask), ask.load, socket, str(ask.clients), str(ask.seconds), str(rate)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    result = json.loads(done.stdout)
    if result["failed"]:
        sys.exit(f"lease_bench: {result['failed']} requests failed")
    return result


def metric(url, name):
    with urllib.request.urlopen(url + "metrics") as answer:
        return float(re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)[1])


def wait_for_cards(url):
    for _ in range(100):
        with urllib.request.urlopen(url + "v1/leases") as answer:
            if any(c["free_gb"] > 1 for c in json.load(answer)["cards"]):
                return
        time.sleep(0.1)
    sys.exit("lease_bench: the demo has no free memory")


def summary(rounds):
    """The median round as a whole: its figures belong together."""
    middle = sorted(rounds, key=lambda r: r["request"]["p99_ms"])[len(rounds) // 2]
    return {"pairs_per_s": middle["pairs_per_s"],
            **{f"{what}_{p}": middle[what][p] for what in ("request", "release", "client_late")
               for p in ("p50_ms", "p99_ms")},
            "rounds": rounds}


def one(ask, rate):
    """A server of its own: what a round leaves behind must not slow the next one."""
    with tempfile.TemporaryDirectory() as state:
        process = subprocess.Popen(
            [*first(ask), ask.sluice, "serve", "--demo", "eight-gpus", "--port", "0", "--json",
             "--state", state, "--set", "log_level=warn", *ask.serve.split()],
            stdout=subprocess.PIPE, text=True)
        try:
            server = json.loads(process.stdout.readline())
            wait_for_cards(server["url"])
            result = load(ask, server["socket"], rate)
            for name in ("median", "p99"):
                seconds = metric(server["url"], f"sluice_lease_grant_{name}_seconds")
                result[f"grant_{name}_us"] = round(1e6 * seconds, 1)
            return result
        finally:
            process.terminate()
            process.wait()
            process.stdout.close()


def measure(ask):
    rounds = {rate: [] for rate in (*ask.rates, 0)}
    for _ in range(ask.rounds):
        for rate, done in rounds.items():
            done.append(one(ask, rate))
    return {"suite": "lease", "what": "POST /v1/leases and DELETE over the Unix socket",
            "date": datetime.date.today().isoformat(), "commit": commit(), "cpu": cpu_model(),
            "cores": len(os.sched_getaffinity(0)), "clients": ask.clients, "realtime": ask.realtime,
            "command": " ".join(["bench/lease_bench.py",
                                 *(os.path.basename(a) for a in sys.argv[1:])]),
            "loads": [{"rate": rate, **summary(done)} for rate, done in rounds.items()]}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sluice")
    parser.add_argument("load")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--rates", type=float, nargs="*", default=[640, 2000],
                        help="pairs a second of all clients together")
    parser.add_argument("--realtime", action="store_true",
                        help="run server and load before other work on the machine; takes root")
    parser.add_argument("--serve", default="", help="more arguments of sluice serve")
    parser.add_argument("--out", help="file for the JSON result; else stdout")
    ask = parser.parse_args()
    result = measure(ask)
    text = json.dumps(result, indent=2) + "\n"
    if ask.out:
        with open(ask.out, "w") as f:
            f.write(text)
    for r in result["loads"]:
        print(f"{r['rate'] or 'flat out'}: {r['pairs_per_s']:.0f} pairs/s, request p50 "
              f"{r['request_p50_ms']:.3f} ms, p99 {r['request_p99_ms']:.3f} ms; release p50 "
              f"{r['release_p50_ms']:.3f} ms, p99 {r['release_p99_ms']:.3f} ms; clients late by "
              f"{r['client_late_p99_ms']:.3f} ms (p99)")


if __name__ == "__main__":
    main()
