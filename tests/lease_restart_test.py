"""A server killed in mid-load, again and again: every lease that was reported is still there, none
is there twice, and no number comes twice.

    lease_restart_test.py SLUICE [--kills N] [--clients N] [--output FILE]

Clients ask, renew and give back over the Unix socket and record the answers; after
each restart their books are compared with the server's."""
import argparse, datetime, http.client, json, os, random, subprocess, sys, tempfile
import threading, time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
from machine import commit
from lease_case import UnixConnection, exchange
from serve_case import wait_for


WAITED_FOR = 7  # the GPU that some of the clients wait for


class Server:
    """sluice serve --demo eight-gpus, to be killed and started again on the same state."""

    def __init__(self, program, state):
        self.program, self.state = program, state
        self.socket = os.path.join(state, "sluice.sock")
        self.process = None

    def start(self):
        began = time.monotonic()
        self.process = subprocess.Popen(
            [self.program, "serve", "--demo", "eight-gpus", "--port", "0", "--json", "--state",
             self.state, "--set", "watch.interval_s=0.2", "--set", "log_level=error"],
            stdout=subprocess.PIPE, text=True)
        if not self.process.stdout.readline():
            raise AssertionError(f"no server: exit code {self.process.wait()}")
        return time.monotonic() - began

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def leases(self):
        connection = UnixConnection(self.socket)
        try:
            return exchange(connection, "GET", "/v1/leases")[1]
        finally:
            connection.close()


class Client(threading.Thread):
    """One agent with up to six leases. `held` has the leases that the server reported and that were not revoked;
    what is given back when the server goes may be there or not."""

    def __init__(self, server, number, ids):
        super().__init__(daemon=True)
        self.server, self.name, self.ids, self.number = server, f"agent-{number}", ids, number
        self.random = random.Random(number)
        self.held, self.problems = {}, []
        self.operations = self.cut_waiting = 0
        self.paused, self.is_idle, self.ends = threading.Event(), threading.Event(), False

    def run(self):
        connection = None
        while not self.ends:
            if self.paused.is_set():
                self.is_idle.set()
                time.sleep(0.002)
                continue
            self.is_idle.clear()
            try:
                if connection is None:
                    connection = UnixConnection(self.server.socket, timeout=10)
                    connection.connect()
                self.step(connection)
                self.operations += 1
            except Exception as e:  # the server is away, or wrong
                if isinstance(e, AssertionError):
                    self.problems.append(str(e))
                if connection:
                    connection.close()
                connection = None
                time.sleep(0.005)
        if connection:
            connection.close()

    def step(self, connection):
        choice = self.random.random()
        if not self.held or (choice < 0.4 and len(self.held) < 6):
            self.ask(connection)
        elif choice < 0.7:
            self.renew(connection, self.random.choice(list(self.held)))
        else:
            self.give_back(connection, self.random.choice(list(self.held)))

    def ask(self, connection):
        fields = {"agent": self.name, "memory_gb": self.random.choice((0.1, 0.5, 1.5)),
                  "ttl_s": 600, "on_unavailable": "fail"}
        # Every third client; on this card there is capacity for one such at a time.
        if self.number % 3 == 0 and self.random.random() < 0.3:
            fields.update(memory_gb=80, device=WAITED_FOR, on_unavailable="wait", wait_s=1)
        try:
            status, lease = exchange(connection, "POST", "/v1/leases", fields)
        except (OSError, http.client.HTTPException):
            self.cut_waiting += "wait_s" in fields
            raise
        if status != 200 or lease["status"] != "allocated":
            assert status in (200, 429, 503), (status, lease)
            return
        assert self.ids.is_new(int(lease["lease_id"])), f"{lease['lease_id']} was given twice"
        self.held[lease["lease_id"]] = lease["token"]

    def renew(self, connection, number):
        path = f"/v1/leases/{number}/renew"
        status, answer = exchange(connection, "POST", path, {"token": self.held[number]})
        if status == 409:  # an answer was lost with the server
            self.held[number] = answer["token"]
            status, answer = exchange(connection, "POST", path, {"token": answer["token"]})
        assert status in (200, 503), f"{number} is lost: {status} {answer}"
        if status == 200:
            self.held[number] = answer["token"]

    def give_back(self, connection, number):
        token = self.held.pop(number)
        status, answer = exchange(connection, "DELETE", f"/v1/leases/{number}", {"token": token})
        assert status in (200, 503), (status, answer)
        if status == 200:
            self.ids.give_back(number)

    def check_renewable(self, connection):
        for number in list(self.held):
            self.renew(connection, number)


class Ids:
    """Every number ever reported, and those that were given back for certain."""

    def __init__(self):
        self.lock, self.reported, self.ended = threading.Lock(), set(), set()

    def is_new(self, number):
        with self.lock:
            is_new = number not in self.reported
            self.reported.add(number)
            return is_new

    def give_back(self, number):
        with self.lock:
            self.ended.add(number)


def check_unheard(book, unheard, age):
    """Whoever waited when the server went was not answered: it waits for nothing now, and
    nothing is granted to it. What is there was granted before."""
    assert not book["waiting"], f"waits for nobody: {book['waiting']}"
    ghosts = [n for n, lease in unheard.items() if lease["granted_age_s"] < age]
    assert not ghosts, f"granted to nobody after the restart: {ghosts}"


def compare(server, clients, ids, started_at):
    """The server's book against the clients'. Returns how many it holds, and those of them
    that no client heard of: the answer was lost with the server."""
    age = time.monotonic() - started_at  # of the server, at least, when it answers
    book = server.leases()
    alive = {l["lease_id"]: l for l in book["leases"] if l["state"] in ("held", "yielding")}
    assert len(alive) == sum(l["state"] in ("held", "yielding") for l in book["leases"])
    known = {}
    for client in clients:
        assert not client.problems, client.problems
        for number in client.held:
            assert number not in known, f"{number} belongs to {known[number]} and {client.name}"
            known[number] = client.name
            assert number in alive, f"lease {number} of {client.name} is lost"
            assert alive[number]["agent"] == client.name
    revived = ids.ended & set(alive)
    assert not revived, f"given back and there again: {sorted(revived)}"
    check_cards(book)
    unheard = {n: lease for n, lease in alive.items() if n not in known}
    check_unheard(book, unheard, age)
    return len(alive), set(unheard)


def check_cards(book):
    """No card has more promised than unmanaged processes leave of it."""
    promised = {}
    for lease in book["leases"]:
        for part in lease["gpus"] if lease["state"] in ("held", "yielding") else []:
            promised[part["gpu_uuid"]] = promised.get(part["gpu_uuid"], 0) + part["memory_gb"]
    for card in book["cards"]:
        most = card["total_gb"] - card["unmanaged_gb"]
        got = promised.get(card["gpu_uuid"], 0)
        assert got <= most + 1e-3, f"{got} GB promised on {card['gpu_uuid']}, {most} there are"


def pause(clients):
    for client in clients:
        client.is_idle.clear()
        client.paused.set()
    for client in clients:
        assert client.is_idle.wait(20), f"{client.name} hangs"


def round_of(server, clients, ids, rng):
    """Load, a kill at some moment of it, a restart; then the books are compared."""
    for client in clients:
        client.paused.clear()
    time.sleep(rng.uniform(0.05, 0.3))
    server.kill()
    pause(clients)
    started_at = time.monotonic()
    started = server.start()
    wait_for("the cards are seen again", lambda: any(
        c.get("used_gb") is not None for c in server.leases()["cards"]))
    alive, unheard = compare(server, clients, ids, started_at)
    connection = UnixConnection(server.socket)
    for client in clients:
        client.check_renewable(connection)
    for number in unheard:
        status, answer = exchange(connection, "POST", f"/v1/leases/{number}/revoke",
                                  {"reason": "its answer was lost"})
        assert status == 200, answer
        ids.give_back(number)
    connection.close()
    return started, alive, len(unheard)


def load(ask, server, ids, rng, note):
    server.start()
    wait_for("the cards are known", lambda: any(
        c["free_gb"] > 1 for c in server.leases()["cards"]))
    clients = [Client(server, n, ids) for n in range(ask.clients)]
    pause_first(clients)
    began = time.monotonic()
    for _ in range(ask.kills):
        note(*round_of(server, clients, ids, rng))
    seconds = time.monotonic() - began
    for client in clients:
        client.ends = True
    for client in clients:
        client.join()
    return clients, seconds


def measure(ask):
    ids, rng, starts, alive_at, unheard_of = Ids(), random.Random(7), [], [], []

    def note(started, alive, unheard):
        starts.append(started), alive_at.append(alive), unheard_of.append(unheard)

    with tempfile.TemporaryDirectory(prefix="sluice-restart-") as state:
        server = Server(ask.sluice, state)
        try:
            clients, seconds = load(ask, server, ids, rng, note)
        finally:
            server.kill()
    starts.sort()
    return {"suite": "lease_restart", "what": "sluice serve killed with SIGKILL in mid-load",
            "date": datetime.date.today().isoformat(), "commit": commit(), "cores": os.cpu_count(),
            "kills": ask.kills, "clients": ask.clients,
            "operations": sum(c.operations for c in clients), "leases_reported": len(ids.reported),
            "most_alive_at_a_restart": max(alive_at), "lost": 0, "doubled": 0, "revived": 0,
            "answers_lost_at_most": max(unheard_of),
            "cut_while_waiting": sum(c.cut_waiting for c in clients),
            "restart_p50_s": round(starts[len(starts) // 2], 3),
            "restart_max_s": round(starts[-1], 3), "seconds": round(seconds, 1)}


def pause_first(clients):
    for client in clients:
        client.paused.set()
        client.start()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sluice")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--output", help="file for the JSON result")
    ask = parser.parse_args()
    result = measure(ask)
    text = json.dumps(result, indent=2) + "\n"
    print(text, end="")
    if ask.output:
        with open(ask.output, "w") as f:
            f.write(text)


if __name__ == "__main__":
    main()
