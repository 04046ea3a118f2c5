"""What is done to the files of a server that does not run: damaged, cut off, removed, replaced by
others' or by links; and a full disk. Each server is ended by SIGKILL, as a crash would."""
import contextlib, json, os, resource, shutil, sqlite3, time

from hostile.case import memory_of, within
from hostile.state_folder import StateFolder
from lease_case import LeaseServer, exchange, wait_for


class Tokens(StateFolder):
    def test_numbers_do_not_come_again_after_the_folder_is_lost(self):
        with self.serve() as server:
            connection = server.local()
            given = []
            for _ in range(2000):  # faster than one a millisecond
                _, lease = exchange(connection, "POST", "/v1/leases",
                                    {"agent": "a", "memory_gb": 0.001, "pid": 0, "ttl_s": 3600})
                given.append(int(lease["lease_id"]))
                exchange(connection, "DELETE", "/v1/leases/" + lease["lease_id"],
                         {"token": lease["token"]})
            connection.close()
            self.kill(server)
        self.assertEqual(len(set(given)), len(given))
        self.assertGreater(min(given), time.time() * 1000 - 3_600_000)
        shutil.rmtree(self.state)
        os.mkdir(self.state)
        with self.serve() as server:
            self.assertGreater(int(server.request()["lease_id"]), max(given))

    def test_numbers_do_not_come_again_after_the_database_is_lost(self):
        for names in (["leases.db-wal"], ["leases.db", "leases.db-wal"]):
            with self.subTest(names):
                given = self.leases_of_a_killed_server()
                for name in names:
                    os.remove(self.path(name))
                with self.serve() as server:
                    self.assertGreater(int(server.request()["lease_id"]), max(given))
                    self.kill(server)


class Damage(StateFolder):
    def expect_report(self, words, given):
        found = self.doctor()
        self.assertEqual(found["status"], "fail", found)
        self.assertIn(words, found["detail"])
        self.assertNotIn("leases.damage", found["fix"])  # which is not there yet
        has_log = os.path.exists(self.path("leases.db-wal"))
        with self.serve() as server:
            copies = [n for n in os.listdir(self.state) if n.startswith("leases.db.damaged-")]
            self.assertEqual(len(copies), 1 + has_log)
            self.assertIn("damage was found", server.logged())
            self.assertIn(words, server.logged())
            alert = wait_for("an alert", lambda: next(
                (a for a in server.get("/v1/alerts")["active"] if a["rule"] == "leases-damaged"),
                None), within(10))
            self.assertIn(words, alert["cause"])
            self.assertIn(words, self.doctor()["detail"])  # while it runs
            self.assertIn("leases.damage", self.doctor()["fix"])
            self.assertGreater(int(server.request()["lease_id"]), max(given))
            os.remove(self.path("leases.damage"))
            wait_for("the alert ends", lambda: not any(
                a["rule"] == "leases-damaged" for a in server.get("/v1/alerts")["active"]),
                within(10))
            self.assertEqual(self.doctor()["status"], "pass")

    def test_a_flipped_byte_in_the_log_is_reported(self):
        given = self.leases_of_a_killed_server()
        with open(self.path("leases.db-wal"), "r+b") as log:
            log.seek(-4 * 4120 + 500, os.SEEK_END)
            byte = log.read(1)
            log.seek(-1, os.SEEK_CUR)
            log.write(bytes([byte[0] ^ 1]))
        self.expect_report("log is damaged after frame", given)

    def test_a_log_that_was_cut_off_is_reported(self):
        given = self.leases_of_a_killed_server()
        size = os.path.getsize(self.path("leases.db-wal"))
        os.truncate(self.path("leases.db-wal"), size - 4120)
        self.expect_report("the newest changes are lost", given)

    def test_a_log_that_was_removed_is_reported(self):
        given = self.leases_of_a_killed_server()
        os.remove(self.path("leases.db-wal"))
        self.expect_report("the write-ahead log is gone", given)

    def test_a_mark_that_was_removed_is_reported(self):
        for names in (["leases.mark"], ["leases.mark", "leases.db-wal"]):
            with self.subTest(names):
                given = self.leases_of_a_killed_server()
                for name in names:
                    os.remove(self.path(name))
                self.expect_report("leases.mark is gone", given)
                shutil.rmtree(self.state)
                os.mkdir(self.state)

    def test_a_lease_whose_owner_was_flipped_is_not_restored(self):
        with self.serve() as server:
            victim = server.request(agent="victim", ttl_s=3600)
            server.stop()
        with contextlib.closing(sqlite3.connect(self.path("leases.db"))) as database:
            database.execute("UPDATE leases SET uid = uid + 1")  # as damage: the checksum stays
            database.commit()
        self.assertIn("checksum", self.doctor()["detail"])
        with self.serve() as server:
            self.assertEqual(server.held(), [])
            self.assertIn("checksum", server.logged())
            wait_for("an alert", lambda: any(
                a["rule"] == "leases-damaged" for a in server.get("/v1/alerts")["active"]),
                within(10))
            self.assertGreater(int(server.request()["lease_id"]), int(victim["lease_id"]))

    def test_a_damaged_page_is_found_by_the_doctor_as_by_the_server(self):
        with self.serve() as server:
            for _ in range(40):
                server.request(memory_gb=0.1)
            server.stop()  # its log is merged into the file
        with open(self.path("leases.db"), "r+b") as database:
            database.seek(4096 + 8)
            database.write(b"\xff" * 600)
        self.assertIn("damaged", self.start_fails())
        before = self.contents()
        found = self.doctor()
        self.assertEqual(found["status"], "fail", found)
        self.assertIn("cannot be used", found["detail"])
        self.assertEqual(self.contents(), before)

    def test_a_killed_server_alone_is_no_damage(self):
        for _ in range(3):
            self.leases_of_a_killed_server(2)
            self.assertEqual(self.doctor()["status"], "pass")
        with self.serve() as server:
            self.assertEqual(len(server.held()), 6)
            self.assertNotIn("damage", server.logged())


class Foreign(StateFolder):
    def expect_refused(self, words):
        before = self.contents()
        self.assertIn(words, self.start_fails())
        self.assertEqual(self.contents(), before)
        self.assertEqual(self.doctor()["status"], "fail")
        self.assertEqual(self.contents(), before)

    def test_a_database_of_another_program_is_not_touched(self):
        source = os.path.join(self.folder.name, "leases.db")
        with contextlib.closing(sqlite3.connect(source)) as other:
            other.executescript("PRAGMA journal_mode=WAL; CREATE TABLE notes(text);"
                                "INSERT INTO notes VALUES('mine');")
            for suffix in ("", "-wal", "-shm"):  # as it is when that program is killed
                shutil.copy(source + suffix, self.path("leases.db" + suffix))
        self.expect_refused("made by another program")

    def test_a_newer_database_is_not_touched(self):
        self.leases_of_a_killed_server(1)
        with contextlib.closing(sqlite3.connect(self.path("leases.db"))) as newer:
            newer.execute("PRAGMA user_version=99")
        self.expect_refused("it has version 99")

    def test_a_foreign_history_is_moved_aside_as_it_is(self):
        path = self.path("history.db")
        with contextlib.closing(sqlite3.connect(path)) as other:
            other.executescript("CREATE TABLE notes(text); INSERT INTO notes VALUES('mine');")
        content = open(path, "rb").read()
        with self.serve():
            aside = [n for n in os.listdir(self.state) if n.startswith("history.db.other")]
            self.assertEqual(len(aside), 1)
            self.assertEqual(open(self.path(aside[0]), "rb").read(), content)


class Links(StateFolder):
    def setUp(self):
        super().setUp()
        self.target = os.path.join(self.folder.name, "precious")
        with open(self.target, "w") as f:
            f.write("precious")

    @contextlib.contextmanager
    def link(self, name):
        """In an otherwise empty folder."""
        shutil.rmtree(self.state)
        os.mkdir(self.state)
        os.symlink(self.target, self.path(name))
        with self.subTest(name):
            yield
            with open(self.target) as f:
                self.assertEqual(f.read(), "precious")

    def test_no_state_file_of_leases_is_opened_through_a_link(self):
        for name in ("leases.lock", "leases.mark", "leases.db", "leases.db-wal"):
            with self.link(name):
                self.assertIn("symbolic link", self.start_fails())

    def test_no_state_file_of_history_is_opened_through_a_link(self):
        for name in ("history.db", "history.db.lock", "history.db-wal"):
            with self.link(name), self.serve() as server:  # it goes on in memory
                self.assertFalse(server.announced["history_on_disk"])
                self.kill(server)

    def test_a_file_in_the_place_of_the_socket_is_not_removed(self):
        shutil.copy(self.target, self.path("sluice.sock"))
        with LeaseServer(state=self.state, wait=False) as server:
            wait_for("the refusal", lambda: "is no socket" in server.logged(), within(10))
        self.assertTrue(os.path.isfile(self.path("sluice.sock")))


class FullDisk(StateFolder):
    """A limit on the length of files stands for a full disk: it needs no rights."""

    def test_requests_are_refused_cheaply_until_there_is_capacity_again(self):
        with self.serve() as server:
            held = server.request(ttl_s=3600)
            connection = server.local()

            def ask():
                return exchange(connection, "POST", "/v1/leases",
                                {"agent": "a", "memory_gb": 0.001, "pid": 0, "ttl_s": 3600})[0]

            size = os.path.getsize(self.path("leases.db-wal"))
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                             (size, resource.RLIM_INFINITY))
            wait_for("a refusal", lambda: ask() == 503, within(10))
            for _ in range(500):
                self.assertEqual(ask(), 503)
            before, began, count = memory_of(server.process), time.monotonic(), 3000
            for _ in range(count):
                self.assertEqual(ask(), 503)
            self.assertLess((time.monotonic() - began) / count, within(0.002))
            self.assertLess(memory_of(server.process) - before, within(4 << 20))
            self.assertLess(len(server.leases()["leases"]), 10)
            wait_for("an alert", lambda: any(
                a["rule"] == "leases-down" for a in server.get("/v1/alerts")["active"]), within(10))

            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
            began = time.monotonic()
            wait_for("leases again", lambda: ask() == 200, within(10))
            self.assertLess(time.monotonic() - began, within(3))
            status, renewed = exchange(
                connection, "POST", f"/v1/leases/{held['lease_id']}/renew",
                {"token": held["token"]})
            self.assertEqual(status, 200, renewed)
            connection.close()

    def test_leases_outlast_a_full_disk_and_are_given_back_on_it(self):
        with self.serve() as server:
            kept, given = (server.request(ttl_s=2) for _ in range(2))
            connection = server.local()

            def say(method, lease, action=""):
                connection.request(method, f"/v1/leases/{lease['lease_id']}{action}",
                                   json.dumps({"token": lease["token"]}),
                                   {"Content-Type": "application/json"})
                answer = connection.getresponse()
                return answer.status, answer.headers, json.loads(answer.read())

            size = os.path.getsize(self.path("leases.db-wal"))
            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                             (size, resource.RLIM_INFINITY))
            began = time.monotonic()
            while time.monotonic() - began < 6:  # three times as long as they live
                status, headers, answer = say("POST", kept, "/renew")
                if status == 503:
                    self.assertEqual(headers["Retry-After"], "1")
                    self.assertIn("Leases stay", answer["error"]["fix"])
                    self.assertNotIn("INSERT", json.dumps(answer))
                else:  # the disk filled up with this one
                    self.assertIn(status, (200, 409), answer)
                    kept["token"] = answer["token"]
                time.sleep(0.2)
            self.assertEqual(len(server.held()), 2)
            self.assertEqual(say("DELETE", given)[0], 200)
            status, _, answer = say("DELETE", given)
            self.assertEqual(status, 410, answer)
            self.assertIn("released", answer["error"]["message"])
            time.sleep(0.5)  # its memory is seen free: only what is to be stored knows of it
            shown = server.get(f"/v1/leases/{given['lease_id']}")
            self.assertEqual((shown["status"], "expires_in_s" in shown), ("ended", False))
            self.assertEqual([l["lease_id"] for l in server.held()], [kept["lease_id"]])

            resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE,
                             (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

            def renewed():
                status, _, answer = say("POST", kept, "/renew")
                kept["token"] = answer.get("token", kept["token"])
                return status == 200

            wait_for("a renewal", renewed, within(10))
            connection.close()
            self.kill(server)
        with self.serve() as server:
            self.assertEqual([l["lease_id"] for l in server.held()], [kept["lease_id"]])
