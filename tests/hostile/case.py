"""What the attacks share. A threshold of time goes through `within`, which gives instrumented
servers (SLUICE_SANITIZED) more."""
import contextlib, os, signal, threading, time

from serve_case import Server, heard, status_of, wait_for  # noqa: F401 (for the attacks)

SANITIZED = bool(os.environ.pop("SLUICE_SANITIZED", ""))  # no setting of the servers


def within(seconds):
    return seconds * (20 if SANITIZED else 1)


Server.patience = within(Server.patience)


def memory_of(process):
    """Bytes resident now."""
    with open(f"/proc/{process.pid}/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def latencies(ask, seconds, pause=0.01):
    """Seconds that each call of `ask` took, sorted, for `seconds`."""
    taken, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        began = time.monotonic()
        ask()
        taken.append(time.monotonic() - began)
        time.sleep(pause)
    return sorted(taken)


def percentile(sorted_values, p):
    return sorted_values[min(len(sorted_values) - 1, int(p * len(sorted_values)))]


@contextlib.contextmanager
def attackers(count, attack):
    """Runs `attack()` again and again in `count` threads until the block ends."""
    over = threading.Event()

    def go():
        while not over.is_set():
            with contextlib.suppress(OSError):
                attack()

    threads = [threading.Thread(target=go, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join(30)


@contextlib.contextmanager
def stopped(process):
    """It does nothing until the block ends, not even accept connections."""
    def state():
        with open(f"/proc/{process.pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0]

    process.send_signal(signal.SIGSTOP)
    try:
        wait_for("it stops", lambda: state() == "T")
        yield
    finally:
        process.send_signal(signal.SIGCONT)
