#!/usr/bin/env python3
"""sluice top in a real terminal (a pty), and its output for scripts.
Usage: top_test.py PATH_OF_SLUICE"""
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

SLUICE = os.path.abspath(sys.argv.pop(1))
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"


def resize(fd, rows, columns):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


class Terminal:
    """A program in a terminal of its own, 80x24."""

    def __init__(self, *arguments, **environment):
        self.master, slave = pty.openpty()
        resize(self.master, 24, 80)
        self.program = subprocess.Popen(
            [SLUICE, "top", *arguments], stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment})
        self.slave = slave
        self.seen = b""

    def read_until(self, text, seconds=30):
        begin, until = len(self.seen), time.monotonic() + seconds
        while text not in self.seen[begin:]:
            left = until - time.monotonic()
            if left < 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"no {text!r} in {seconds} s; last: {self.seen[-3000:]!r}")
            self.seen += os.read(self.master, 65536)

    def end(self):
        until = time.monotonic() + 20
        while True:
            ended = self.program.poll() is not None or time.monotonic() > until
            while select.select([self.master], [], [], 0.05)[0]:
                self.seen += os.read(self.master, 65536)
            if ended:  # and everything it wrote before is read
                return self.program.poll()

    def is_cooked(self):
        return bool(termios.tcgetattr(self.slave)[3] & termios.ICANON)

    def close(self):
        if self.program.poll() is None:
            self.program.kill()
            self.program.wait()
        os.close(self.master)
        os.close(self.slave)


class Top(unittest.TestCase):
    def start(self, *arguments, **environment):
        terminal = Terminal(*arguments, **environment)
        self.addCleanup(terminal.close)
        return terminal

    def test_a_gpu_falling_off_is_seen_and_q_gives_the_terminal_back(self):
        top = self.start("--demo", "gpu-falls-off")
        top.read_until("2 GPUs, all healthy".encode())
        self.assertFalse(top.is_cooked())
        top.read_until(b"1 lost")
        os.write(top.master, b"q")
        self.assertEqual(top.end(), 0)
        self.assertIn(ENTER, top.seen)
        self.assertGreater(top.seen.rfind(LEAVE), top.seen.rfind(ENTER), top.seen[-300:])
        self.assertTrue(top.is_cooked())

    def test_it_follows_the_size_of_the_window(self):
        top = self.start("--demo", "eight-gpus")
        top.read_until(b"8 GPUs")
        top.read_until(b"q quit")
        resize(top.master, 50, 150)
        top.read_until(b"to slowdown")  # shown only where there is space
        os.write(top.master, b"?")
        top.read_until(b"must pass a canary")
        os.kill(top.program.pid, signal.SIGINT)
        self.assertEqual(top.end(), 0)
        self.assertTrue(top.is_cooked())

    def test_a_crash_gives_the_terminal_back_too(self):
        top = self.start("--demo", "eight-gpus", NO_COLOR="1")
        top.read_until(b"q quit")
        self.assertNotIn(b"\x1b[32m", top.seen)
        os.kill(top.program.pid, signal.SIGSEGV)
        self.assertEqual(top.end(), -signal.SIGSEGV)
        self.assertTrue(top.is_cooked())
        self.assertIn(LEAVE, top.seen)

    def test_a_pipe_gets_one_plain_snapshot(self):
        done = subprocess.run([SLUICE, "top", "--demo", "eight-gpus"], capture_output=True,
                              text=True, env={**os.environ, "LC_ALL": "C"}, timeout=30)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("\x1b", done.stdout)
        self.assertTrue(done.stdout.isascii())
        self.assertEqual(done.stdout.count("NVIDIA H200"), 8)

    def test_a_pipe_is_as_wide_as_columns_says_and_else_80(self):
        def widest(**more):
            environment = {k: v for k, v in os.environ.items() if k != "COLUMNS"}
            done = subprocess.run([SLUICE, "top", "--once", "--demo", "eight-gpus"], timeout=30,
                                  capture_output=True, text=True, env={**environment, **more})
            self.assertEqual(done.returncode, 0, done.stderr)
            return max(map(len, done.stdout.splitlines()))
        self.assertLessEqual(widest(), 80)
        self.assertGreater(widest(COLUMNS="140"), 80)
        self.assertLessEqual(widest(COLUMNS="60"), 60)

    def test_help_shows_as_many_gpus_as_there_are(self):
        done = subprocess.run([SLUICE, "top", "--help"], capture_output=True, text=True, timeout=30)
        self.assertRegex(done.stdout, r"--demo gpu-falls-off +two simulated GPUs")
        done = subprocess.run([SLUICE, "top", "--json", "--demo", "gpu-falls-off"],
                              capture_output=True, timeout=30)
        self.assertEqual(len(json.loads(done.stdout)["gpus"]), 2)

    def test_json_is_one_snapshot_or_a_line_per_interval(self):
        done = subprocess.run([SLUICE, "top", "--json", "--demo", "eight-gpus"],
                              capture_output=True, timeout=30)
        self.assertEqual(len(json.loads(done.stdout)["gpus"]), 8)
        stream = subprocess.Popen(
            [SLUICE, "top", "--json", "--interval", "0.2", "--demo", "eight-gpus"],
            stdout=subprocess.PIPE)
        for _ in range(3):
            self.assertEqual(len(json.loads(stream.stdout.readline())["gpus"]), 8)
        stream.stdout.close()  # the reader goes away
        self.assertEqual(stream.wait(10), 0)

    def test_one_snapshot_does_not_wait_for_metrics_that_a_card_never_reports(self):
        began = time.monotonic()  # one of these is in MIG mode and reports no utilisation
        subprocess.run([SLUICE, "top", "--once", "--demo", "mixed-cards"], capture_output=True,
                       timeout=30, check=True)
        self.assertLess(time.monotonic() - began, 4.5)

    def test_invalid_utf8_neither_breaks_the_json_nor_reaches_the_terminal(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(os.fsencode(folder), b"odd-\xff.json")
            with open(path, "w") as f:
                json.dump({"gpus": [{"card": "t4", "processes": [
                    {"pid": 7, "name": "/bin/\x1b]0;owned\x07", "memory_gib": 1}]}]}, f)
            for arguments, shown in (("--json",), b"]0;owned"), (("--once",), b"x1b]0;owned"):
                done = subprocess.run([SLUICE, "top", *arguments, "--demo", path],
                                      capture_output=True, timeout=30)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn(shown, done.stdout)
                self.assertNotIn(b"\x1b", done.stdout)

    def test_an_unknown_scenario_is_the_callers_mistake(self):
        done = subprocess.run([SLUICE, "top", "--once", "--demo", "eight-gpu"], capture_output=True,
                              text=True, timeout=30)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertIn("eight-gpus", done.stderr)


if __name__ == "__main__":
    unittest.main()
