#!/usr/bin/env python3
"""tools/bench-table: the page is up to date, and the tool does what it says."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOOL = ROOT / "tools/bench-table"
EMPTY_PAGE = "# Page\n<!-- bench device -->\nold\n<!-- end bench -->\nafter\n"


def result(name, date, value, quick=False):
    row = {"title": "device copy", "unit": "B/s", "value": value, "peak": 4.8e12, "detail": "",
           "percent_of_peak": value and 100 * value / 4.8e12, "samples": 20, "spread": 0.004}
    return {"suite": "device", "date": date, "commit": "abc", "quick": quick,
            "devices": [{"kind": "gpu", "name": name, "driver": "580.1", "results": [row]}]}


class BenchTable(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)
        self.page = self.path / "page.md"
        self.page.write_text(EMPTY_PAGE)

    def run_tool(self, *arguments):
        return subprocess.run(
            [sys.executable, TOOL, "--results", self.path, "--page", self.page, *arguments],
            capture_output=True, text=True)

    def add(self, file, run):
        (self.path / file).write_text(json.dumps(run))

    def test_the_committed_page_is_up_to_date(self):
        done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_without_results_the_page_says_how_to_get_some(self):
        self.assertEqual(self.run_tool().returncode, 0)
        self.assertIn("No results yet", self.page.read_text())
        self.assertTrue(self.page.read_text().endswith("<!-- end bench -->\nafter\n"))

    def test_the_newest_full_run_of_a_device_is_shown(self):
        self.add("1.json", result("NVIDIA H200", "2026-01-01T00:00:00Z", 4.1e12))
        self.add("2.json", result("NVIDIA H200", "2026-02-01T00:00:00Z", 4.31e12))
        self.add("3.json", result("NVIDIA H200", "2026-03-01T00:00:00Z", 1e12, quick=True))
        self.run_tool()
        page = self.page.read_text()
        self.assertIn("| device copy | 4.31 TB/s | 4.80 TB/s | 90 % | 0.4 % |", page)
        self.assertNotIn("4.10", page)
        self.assertNotIn("1.00 TB/s", page)

    def test_market_results_stand_side_by_side_with_limits_and_peers(self):
        def row(name, value, percent, detail, peers):
            return {"name": name, "title": name.upper(), "unit": "pt/s", "value": value, "peak": 1e12,
                    "percent_of_peak": percent, "detail": detail, "samples": 5, "spread": 0,
                    "peers": [{"name": n, "value": v} for n, v in peers]}
        gpu = [row("ema", 2e11, 80.4, "", [("PyTorch", 1e11), ("CuPy", 4e10)]), row("asian", None, None, "no GPU", [])]
        cpu = [row("ema", 3e9, None, "2 threads", [("TA-Lib", 1e9)]), row("tree", 7.0, None, "2 threads", [])]
        self.page.write_text(EMPTY_PAGE.replace("device", "market"))
        self.add("1.json", {"suite": "market", "date": "2026-01-01T00:00:00Z", "commit": "abc", "devices": [
            {"kind": "gpu", "name": "NVIDIA H200", "results": gpu}, {"kind": "cpu", "name": "Xeon", "results": cpu}]})
        self.assertEqual(self.run_tool().returncode, 0)
        page = self.page.read_text()
        self.assertIn("| work | H200 | of limit | CPU, 2 threads | of limit | times the peer |", page)
        self.assertIn("| EMA | 200 Gpt/s | 80 % | 3.00 Gpt/s |  "
                      "| H200: 2 x PyTorch; H200: 5 x CuPy; CPU: 3 x TA-Lib |", page)
        self.assertIn("| ASIAN | not measured: no GPU |  |  |  |  |", page)
        self.assertIn("| TREE |  |  | 7.00 pt/s |  |  |", page)

    def test_a_figure_without_a_value_shows_its_reason(self):
        run = result("T4", "2026-01-01T00:00:00Z", None)
        run["devices"][0]["results"][0]["detail"] = "no kernel"
        self.add("1.json", run)
        self.run_tool()
        self.assertIn("not measured: no kernel", self.page.read_text())

    def test_check_changes_nothing_and_fails_when_out_of_date(self):
        done = self.run_tool("--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("out of date", done.stderr)
        self.assertEqual(self.page.read_text(), EMPTY_PAGE)
        self.run_tool()
        self.assertEqual(self.run_tool("--check").returncode, 0)

    def test_a_broken_result_is_named(self):
        (self.path / "bad.json").write_text("{")
        done = self.run_tool()
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("bad.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
