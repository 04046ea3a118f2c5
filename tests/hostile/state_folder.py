"""A state folder that outlives its servers."""
import hashlib, json, os, signal, subprocess, tempfile, unittest

from lease_case import PROGRAM, LeaseServer


class StateFolder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="sluice-store-")
        self.state = os.path.join(self.folder.name, "state")
        os.mkdir(self.state)

    def tearDown(self):
        self.folder.cleanup()

    def path(self, name):
        return os.path.join(self.state, name)

    def serve(self, *arguments):
        return LeaseServer(*arguments, state=self.state)

    def kill(self, server):
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()

    def leases_of_a_killed_server(self, count=6):
        with self.serve() as server:
            numbers = [int(server.request(ttl_s=3600)["lease_id"]) for _ in range(count)]
            self.kill(server)
        return numbers

    def command(self, *words):
        return [PROGRAM, *(words or ("serve", "--port", "0")), "--state", self.state]

    def start_fails(self):
        """What a server says that does not start."""
        done = subprocess.run(self.command(), capture_output=True, text=True, timeout=60)
        self.assertNotEqual(done.returncode, 0)
        return done.stderr

    def doctor(self):
        done = subprocess.run(self.command("doctor", "--json"), capture_output=True, text=True,
                              timeout=60)
        return next(c for c in json.loads(done.stdout)["checks"] if c["id"] == "leases")

    def contents(self):
        """Of what is not the server's own to write while it refuses."""
        own = ("leases.lock", "leases.mark", "sluice.sock", "history.db")
        return {name: hashlib.sha256(open(self.path(name), "rb").read()).hexdigest()
                for name in os.listdir(self.state) if not name.startswith(own)}
