"""What is done to the files of a server while it runs: removed, moved, overwritten, cut off. It has
them open, and a crash would lose what is in them."""
import contextlib, json, os, random, shutil, signal, sqlite3, subprocess, time, unittest

from hostile.case import within
from hostile.state_folder import StateFolder
from lease_case import exchange, wait_for


class RemovedFiles(StateFolder):
    @contextlib.contextmanager
    def serve_one_lease(self):
        """Over one connection: the socket goes with the folder."""
        with self.serve() as server, contextlib.closing(server.local()) as connection:
            yield server, connection, server.request(connection, ttl_s=3600)

    def ask(self, connection):
        return exchange(connection, "POST", "/v1/leases",
                        {"agent": "a", "memory_gb": 0.001, "pid": 0, "ttl_s": 3600})

    def expect_refused(self, server, connection, held, words):
        wait_for("reasons", lambda: "leases cannot be stored" in str(server.get("/health")),
                 within(10))
        status, answer = self.ask(connection)
        self.assertEqual(status, 503, answer)
        self.assertIn(words, str(answer))
        status, answer = exchange(connection, "POST", f"/v1/leases/{held['lease_id']}/renew",
                                  {"token": held["token"]})
        self.assertEqual(status, 503, answer)
        wait_for("the log", lambda: words in server.logged(), within(10))

    def expect_saved(self, held):
        self.assertIn("removed while it is in use", self.doctor()["detail"])
        with self.serve() as server:
            self.assertEqual([l["lease_id"] for l in server.held()], [held["lease_id"]])
            self.assertNotIn("damage was found", server.logged())  # but what was reported before

    def test_a_removed_database_is_refused_and_saved_by_sigterm(self):
        with self.serve_one_lease() as (server, connection, held):
            os.remove(self.path("leases.db"))
            self.expect_refused(server, connection, held, "leases.db was removed while it is")
            server.stop()
        self.expect_saved(held)

    def test_a_removed_folder_is_refused_and_saved_by_sigterm(self):
        with self.serve_one_lease() as (server, connection, held):
            os.rename(self.state, self.state + "-gone")
            shutil.rmtree(self.state + "-gone")
            self.expect_refused(server, connection, held, "removed while it is in use")
            server.stop()
        self.expect_saved(held)

    def test_a_removed_database_is_reported_after_a_crash(self):
        with self.serve_one_lease() as (server, connection, held):
            os.remove(self.path("leases.db"))
            self.expect_refused(server, connection, held, "leases.db was removed while it is")
            self.kill(server)
        self.assertIn("leases.db is gone", self.doctor()["detail"])
        with self.serve() as server:
            self.assertIn("leases.db is gone", server.logged())

    def test_a_moved_folder_is_refused_until_it_is_back(self):
        with self.serve_one_lease() as (server, connection, held):
            os.rename(self.state, self.state + "-moved")
            self.expect_refused(server, connection, held, "was moved or replaced")
            os.rename(self.state + "-moved", self.state)
            wait_for("leases again", lambda: self.ask(connection)[0] == 200, within(10))
            self.assertNotIn("damage was found", server.logged())

    def test_the_files_of_the_state_folder_are_private(self):
        with self.serve_one_lease() as (server, _, _):
            os.remove(self.path("leases.db-wal"))
            wait_for("the report", lambda: os.path.exists(self.path("leases.damage")), within(10))
            modes = {n: os.stat(self.path(n)).st_mode & 0o077 for n in os.listdir(self.state)
                     if n != "sluice.sock"}
            self.assertEqual(set(modes.values()), {0}, modes)


def cut_off(path):
    os.truncate(path, 0)


def fill_with_zeros(path):
    with open(path, "r+b") as file:
        file.write(bytes(os.path.getsize(path)))


def flip_its_end(path):
    with open(path, "r+b") as file:
        file.seek(-300, os.SEEK_END)
        end = bytes(byte ^ 1 for byte in file.read(200))
        file.seek(-300, os.SEEK_END)
        file.write(end)


class OverwrittenFiles(StateFolder):
    """The name stays, so the server would write on, and at its end merge the log into the file."""

    def overwrite(self, name, change, held=20):
        with self.serve() as server, contextlib.closing(server.local()) as connection:
            given = [server.request(connection, memory_gb=0.01, ttl_s=3600)["lease_id"]
                     for _ in range(held)]
            time.sleep(1.5)
            change(self.path(name))
            if change is not flip_its_end:
                wait_for("reasons", lambda: "leases cannot be stored" in str(server.get("/health")),
                         within(10))
                status, answer = exchange(connection, "POST", "/v1/leases",
                                          {"agent": "a", "memory_gb": 0.01, "pid": 0})
                self.assertEqual(status, 503, answer)
                self.assertIn(f"{name} was ", str(answer))
                self.assertIn("SIGTERM", str(answer))
            damaged = open(self.path(name), "rb").read()
            self.assertLess(server.stop(), within(5))
            self.assertIn("damage was found", server.logged())
        copies = [open(self.path(n), "rb").read() for n in os.listdir(self.state) if ".damaged-" in n]
        self.assertIn(damaged, copies)
        return given

    def test_what_is_damaged_is_kept_and_the_leases_are_saved_by_sigterm(self):
        for name, change in (("leases.db", cut_off), ("leases.db", fill_with_zeros),
                             ("leases.db-wal", cut_off), ("leases.db-wal", fill_with_zeros),
                             ("leases.db-wal", flip_its_end)):
            with self.subTest(name + " " + change.__name__):
                given = self.overwrite(name, change)
                self.assertIn("while it is in use", self.doctor()["detail"])
                with self.serve() as server:
                    self.assertEqual([l["lease_id"] for l in server.held()], given)
                    self.assertGreater(int(server.request(memory_gb=0.01)["lease_id"]),
                                       int(given[-1]))
                shutil.rmtree(self.state)
                os.mkdir(self.state)

    def test_no_file_of_the_server_is_mapped(self):
        """One that is ends the process by SIGBUS when somebody truncates it: SQLite's index was."""
        with self.serve() as server:
            server.request()
            with open(f"/proc/{server.process.pid}/maps") as maps:
                self.assertEqual([line for line in maps if self.state in line], [])
            for name in os.listdir(self.state):
                if name.endswith("-shm"):
                    os.truncate(self.path(name), 0)
            server.request()
            server.stop()
            self.assertEqual(server.process.returncode, 0)


class Migration(StateFolder):
    def test_a_server_that_is_killed_while_it_migrates_loses_nothing(self):
        with self.serve() as server:
            connection = server.local()
            given = [server.request(connection, memory_gb=0.001, ttl_s=3600)["lease_id"]
                     for _ in range(60)]
            connection.close()
            server.stop()
        with contextlib.closing(sqlite3.connect(self.path("leases.db"))) as earlier:
            for table in ("leases", "footprints", "state"):
                earlier.execute(f"ALTER TABLE {table} DROP COLUMN checksum")
            earlier.execute("PRAGMA user_version=5")
            earlier.commit()
        chance = random.Random(3)
        before = self.state + "-before"
        os.rename(self.state, before)
        for _ in range(6):
            shutil.rmtree(self.state, ignore_errors=True)
            shutil.copytree(before, self.state, ignore=lambda *_: ["sluice.sock"])
            process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.002, 0.08))
            process.send_signal(signal.SIGKILL)
            process.wait()
            with self.serve() as server:
                self.assertEqual([l["lease_id"] for l in server.held()], given)
                self.assertNotIn("damage", server.logged())
                self.kill(server)


@unittest.skipUnless(os.geteuid() == 0, "folders of another user take root")
class FolderOfAnother(StateFolder):
    def test_a_state_folder_of_another_user_is_named_at_the_start(self):
        os.chown(self.state, 41002, 41002)
        with self.serve() as server:
            self.assertIn("belongs to user 41002", server.logged())
        checks = json.loads(subprocess.run(self.command("doctor", "--json"), text=True,
                                           capture_output=True, timeout=60).stdout)["checks"]
        found = next(c for c in checks if c["id"] == "state-folder")
        self.assertEqual(found["status"], "warn", found)
        self.assertIn("chown 0 ", found["fix"])
