"""`sluice lease` against a real server. Usage: lease_command_test.py SLUICE [TEST...]"""
import json, os, signal, subprocess, tempfile, time, unittest

from lease_case import PROGRAM, LeaseServer, main, wait_for


class Command(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = LeaseServer("--set", "broker.yield_within_s=5").__enter__()
        cls.addClassCleanup(cls.server.__exit__)
        cls.environment = {**os.environ, "SLUICE_SOCKET": cls.server.socket_path}

    def setUp(self):
        wait_for("everything is free", self.server.is_free)

    def run_lease(self, *arguments, environment=None):
        return subprocess.run([PROGRAM, "lease", *arguments], capture_output=True, text=True,
                              env={**self.environment, **(environment or {})}, timeout=30)

    def start(self, *arguments):
        child = subprocess.Popen([PROGRAM, "lease", *arguments], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True, env=self.environment)
        self.addCleanup(lambda: (child.kill(), child.communicate()))
        return child

    def started(self, *arguments):
        """A command under a lease that says `ready` and then ends with 5 on SIGTERM."""
        child = self.start("request", *arguments, "--", "sh", "-c",
                           "trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.05; done")
        self.assertEqual(child.stdout.readline(), "ready\n")
        return child

    def held(self):
        return {l["agent"]: l for l in self.server.held()}


class Requests(Command):
    def test_a_request_prints_what_was_granted_why_and_what_to_export(self):
        done = self.run_lease("request", "scout", "--memory-gb", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for part in ("allocated", "2.00 GB on GPU", "best fit", "unless renewed",
                     "export CUDA_VISIBLE_DEVICES='GPU-", "export SLUICE_LEASE_TOKEN='"):
            self.assertIn(part, done.stdout)
        self.assertIn("scout", self.held())  # although the process that asked is gone
        done = self.run_lease("release", self.held()["scout"]["lease_id"], "--revoke", "tidy")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_shell_takes_a_lease_shows_and_releases_it(self):
        script = (f'eval "$({PROGRAM} lease request shell --memory-gb 0.05 --pid $$ --export)"; '
                  f'echo $CUDA_VISIBLE_DEVICES; {PROGRAM} lease show; {PROGRAM} lease release')
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True,
                              env=self.environment)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("lease", done.stdout)
        self.assertIn("released", done.stdout)
        self.assertTrue(done.stdout.startswith("GPU-"))
        self.assertEqual(self.held(), {})

    def test_a_lease_of_a_shell_ends_with_it(self):
        done = subprocess.run(["bash", "-c", f"{PROGRAM} lease request shell --memory-gb 2 --pid $$; :"],
                              capture_output=True, text=True, env=self.environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        wait_for("it ends", lambda: not self.held(), timeout=1)

    def test_where_it_goes_may_be_wished(self):
        for wish, card in (("best_fit", "Card of 8"), ("spread", "Card of 16")):
            done = self.run_lease("request", "scout", "--memory-gb", "2", "--placement", wish,
                                  "--numa-node", "0", "--linked", "--ttl-s", "1")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            self.assertIn(card, done.stdout)
            wait_for("it is over", self.server.is_free)
        done = self.run_lease("request", "scout", "--memory-gb", "2", "--placement", "tight")
        self.assertEqual(done.returncode, 2)
        self.assertIn("best_fit, spread", done.stderr)

    def test_json_is_the_servers_answer(self):
        done = self.run_lease("request", "scout", "--memory-gb", "2", "--json", "--gpus", "2",
                              "--priority", "high", "--ttl-s", "30", "--model-type", "x")
        answer = json.loads(done.stdout)
        self.assertEqual((answer["status"], len(answer["gpus"]), answer["ttl_s"]),
                         ("allocated", 2, 30))
        self.assertEqual(self.held()["scout"]["priority"], "high")
        done = self.run_lease("release", answer["lease_id"], "--token", answer["token"])
        self.assertEqual((done.returncode, done.stdout),
                         (0, f"lease {answer['lease_id']} released\n"))

    def test_the_cpu_is_a_warning_and_a_refusal_a_failure(self):
        done = self.run_lease("request", "big", "--memory-gb", "900", "--ttl-s", "1")
        self.assertEqual(done.returncode, 0)
        self.assertIn("sluice: on the CPU: ", done.stderr)
        self.assertIn("export CUDA_VISIBLE_DEVICES='-1'", done.stdout)
        done = self.run_lease("request", "big", "--memory-gb", "900", "--on-unavailable", "fail")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sluice: no lease: ", done.stderr)

    def test_a_refusal_has_nothing_to_export(self):
        for how in (("--on-unavailable", "fail"), ("--wait-s", "0.3")):
            done = self.run_lease("request", "big", "--memory-gb", "900", *how, "--export")
            self.assertEqual((done.returncode, done.stdout), (1, ""))
        held = json.loads(self.run_lease("request", "a", "--memory-gb", "13", "--json").stdout)
        done = self.run_lease("request", "b", "--memory-gb", "13", "--wait-s", "0.3", "--export")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertIn("there was no capacity", done.stderr)
        done = self.run_lease("request", "b", "--memory-gb", "13", "--wait-s", "0.3")
        self.assertIn(f"lease {held['lease_id']} of a", done.stdout)
        self.assertNotIn("export", done.stdout)
        self.assertNotIn("unless renewed", done.stdout)
        self.run_lease("release", held["lease_id"], "--token", held["token"])

    def test_exported_lease_variables_do_not_break_commands(self):
        environment = {**self.environment, "GPU_MEMORY_FRACTION": "0.0071"}
        done = subprocess.run([PROGRAM, "lease", "list"], env=environment, capture_output=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_name_that_is_no_text_is_refused_and_not_changed(self):
        done = subprocess.run([PROGRAM, "lease", "request", b"a\xff", "--memory-gb", "1"],
                              env=self.environment, capture_output=True)
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"UTF-8", done.stderr)

    def test_wrong_usage_is_2_and_says_what_is_right(self):
        for arguments, part in (
                (("request",), "AGENT"), (("request", "a", "--memory-gb", "-1"), "0.001"),
                (("request", "a", "--memory-gb", "nan"), "0.001"),
                (("request", "a", "--memory-gb", "1", "--priority", "urgent"), "critical"),
                (("request", "a", "--memory-gb", "1", "--"), "command"),
                (("request", "a", "--memory_gb", "1"), "--memory-gb"),
                (("relese",), "release"), (("show", "x"), "number"), (("release", "1"), "--token"),
                (("list", "--socket", "/x", "--url", "http://x"), "not both")):
            done = self.run_lease(*arguments)
            self.assertEqual(done.returncode, 2, (arguments, done.stderr))
            self.assertIn(part, done.stderr)

    def test_unknown_and_ended_leases_exit_with_1(self):
        self.assertEqual(self.run_lease("show", "99999").returncode, 1)
        done = self.run_lease("release", "99999", "--token", "99999.0.00000000000000ff")
        self.assertEqual(done.returncode, 1)
        self.assertIn("99999", done.stderr)

    def test_without_a_server_it_says_how_to_start_one(self):
        with tempfile.TemporaryDirectory() as folder:
            done = self.run_lease("list", "--socket", folder + "/no.sock")
        self.assertEqual(done.returncode, 1)
        self.assertIn("sluice serve", done.stderr)

    def test_every_action_has_help_with_examples(self):
        for action in ("request", "list", "show", "release", "watch"):
            done = self.run_lease(action, "--help")
            self.assertEqual(done.returncode, 0)
            self.assertIn("Examples:", done.stdout)

    def test_it_works_over_tcp_too(self):
        done = self.run_lease("list", "--url", f"http://127.0.0.1:{self.server.port}")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("Card of 16", done.stdout)


class Commands(Command):
    def test_the_command_sees_the_lease_and_its_exit_code_counts(self):
        done = self.run_lease("request", "job", "--memory-gb", "1", "--", "sh", "-c",
                              "echo $CUDA_VISIBLE_DEVICES $SLUICE_GPU_MEMORY_BYTES; exit 7")
        self.assertEqual(done.returncode, 7, done.stderr)
        self.assertRegex(done.stdout, r"^GPU-\S+ 1073741824$")
        self.assertEqual(self.held(), {})

    def test_a_signal_counts_128_and_more_and_what_cannot_start_126_or_127(self):
        for command, code in ((("sh", "-c", "kill -9 $$"), 137), (("/no/such",), 127),
                              ((os.path.abspath(__file__),), 126)):
            done = self.run_lease("request", "job", "--memory-gb", "1", "--", *command)
            self.assertEqual(done.returncode, code, done.stderr)
        wait_for("nothing is left", lambda: not self.held(), timeout=1)

    def test_it_is_renewed_while_the_command_runs(self):
        done = self.run_lease("request", "job", "--memory-gb", "1", "--ttl-s", "1", "--", "sleep", "2")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_the_command_gets_sigterm_when_the_memory_is_requested_back(self):
        child = self.started("patient", "--memory-gb", "13", "--priority", "low")
        began = time.monotonic()
        done = self.run_lease("request", "urgent", "--memory-gb", "12", "--priority", "critical",
                              "--wait-s", "10", "--", "true")
        self.assertLess(time.monotonic() - began, 4)
        self.assertEqual(done.returncode, 0, done.stderr)
        out, err = child.communicate(timeout=5)
        self.assertEqual((child.returncode, out), (5, "term\n"))
        self.assertRegex(err, r"requested back within \d")

    def test_a_revoked_lease_ends_the_command_with_the_reason(self):
        child = self.started("job", "--memory-gb", "1")
        self.run_lease("release", self.held()["job"]["lease_id"], "--revoke", "lunch")
        _, err = child.communicate(timeout=5)
        self.assertEqual(child.returncode, 5)
        self.assertIn("lunch", err)

    def test_a_signal_is_passed_on(self):
        child = self.started("job", "--memory-gb", "1")
        child.send_signal(signal.SIGTERM)
        out, _ = child.communicate(timeout=5)
        self.assertEqual((child.returncode, out), (5, "term\n"))
        self.assertEqual(self.held(), {})

    def test_a_killed_wrapper_frees_the_memory_and_ends_the_command(self):
        child = self.started("job", "--memory-gb", "1")
        child.kill()
        wait_for("it is freed", lambda: not self.held(), timeout=1)
        # The kernel tells of a parent's end once for each of its threads that had the child.
        self.assertRegex(child.communicate(timeout=5)[0], r"^(term\n)+$")

    def test_without_capacity_the_command_runs_on_the_cpu(self):
        done = self.run_lease("request", "big", "--memory-gb", "900", "--", "sh", "-c",
                              "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual((done.returncode, done.stdout), (0, "-1\n"))
        self.assertIn("on the CPU", done.stderr)


class Views(Command):
    def test_the_list_shows_holders_and_free_capacity(self):
        child = self.started("trainer", "--memory-gb", "2", "--priority", "high")
        text = self.run_lease("list", environment={"COLUMNS": "200"}).stdout
        row = next(line for line in text.splitlines() if "trainer" in line)
        for part in ("held", "high", "2.00", "observed", str(child.pid)):
            self.assertIn(part, row)
        self.assertIn("Card of 16", text)
        listed = json.loads(self.run_lease("list", "--json").stdout)
        self.assertEqual([l["agent"] for l in listed["leases"] if l["state"] == "held"], ["trainer"])

    def test_watch_prints_events_as_they_happen(self):
        wait_for("the earlier leases have ended", lambda: not self.server.leases()["leases"])
        plain, lines = self.start("watch"), self.start("watch", "--json")
        wait_for("both listen", lambda: self.server.get("/performance-metrics")["server"]["streams"]
                 == 2)
        self.run_lease("request", "job", "--memory-gb", "1", "--", "true")
        first = plain.stdout.readline()
        self.assertRegex(first, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d granted +lease \d+ +job +1\.00 GB  best")
        self.assertIn("ended", plain.stdout.readline())
        self.assertEqual(json.loads(lines.stdout.readline())["type"], "lease_granted")
        plain.send_signal(signal.SIGINT)
        self.assertEqual(plain.wait(5), -signal.SIGINT)


class DriverLimits(unittest.TestCase):
    """What the server starts to have NVIDIA's driver hold a lease to its memory."""
    UUID = "GPU-11111111-1111-1111-1111-111111111111"

    def limit(self, driver, *more):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as scenario:
            json.dump({"driver": driver, "gpus": [{"card": "h200", "uuid": self.UUID}]}, scenario)
            scenario.flush()
            done = subprocess.run(
                [PROGRAM, "gpu-limit", "--demo", scenario.name, "--uuid", self.UUID, *more, "--group",
                 "/sys/fs/cgroup/sluice/lease-1", "--bytes", str(1 << 30)],
                capture_output=True, text=True, timeout=30)
        return done.returncode, json.loads(done.stdout)

    def test_a_limit_stands_when_the_driver_reads_it_back(self):
        self.assertEqual(self.limit("615.71.09"), (0, {"stands": True, "why_not": ""}))

    def test_the_reason_why_it_cannot_start_is_reported(self):
        code, said = self.limit("580.159.04")
        self.assertEqual((code, said["stands"]), (1, False))
        self.assertIn("r615", said["why_not"])
        code, said = self.limit("615.71.09", "--uuid", "GPU-of-nobody")
        self.assertEqual((code, said["stands"]), (1, False))
        self.assertIn("GPU-of-nobody", said["why_not"])


if __name__ == "__main__":
    main()
