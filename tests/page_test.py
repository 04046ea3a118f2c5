"""The dashboard in a real Chromium, served by the real program.
Usage: page_test.py SLUICE [TEST...]"""

import base64, re, sys

import browser, past
from browser import ActionChains, Keys, wait_for
from page_case import RESTARTED, PageTest, run
from page_logic import Logic  # noqa: F401

ADMIN_KEY = "admin-key-0123456789"


class EightGpus(PageTest):
    arguments = ("--demo", "eight-gpus")

    def tile(self, n=0):
        return self.find("#gpu-tiles .tile-open")[n]

    def wait_for_panel(self):
        wait_for("the panel is open", lambda: self.count("dialog.panel[open]"))
        wait_for(
            "its charts are drawn",
            lambda: self.count(".panel canvas") >= 10 or self.fail(self.text(".chart-problem")),
        )

    def open_first(self):
        self.tile().send_keys(Keys.ENTER)
        self.wait_for_panel()

    def test_every_gpu_has_a_tile_with_its_name_bus_and_health(self):
        wait_for("eight tiles", lambda: len(self.find("#gpu-tiles .tile")) == 8)
        for gpu in self.state()["gpus"]:
            words = self.text(f'.tile[data-device="{gpu["uuid"]}"]')
            self.assertIn(gpu["name"], words)
            self.assertIn(gpu["bus"], words)
            self.assertRegex(words, "Healthy|Degraded|Lost|Probation")
            self.assertRegex(words, r"[\d.]+ of [\d.]+ GiB")
            self.assertRegex(words, r"\d+ °C")
            self.assertRegex(words, r"\d+ W")
            self.assertRegex(words, r"[\d,]+ MHz")

    def test_values_move_without_a_reload(self):
        first = [t.get_attribute("textContent") for t in self.find("#gpu-tiles .big")]
        curve = self.one("#gpu-tiles .spark-curve").get_attribute("d")
        wait_for(
            "other numbers",
            lambda: first != [t.get_attribute("textContent") for t in self.find("#gpu-tiles .big")],
        )
        wait_for(
            "another curve", lambda: curve != self.one("#gpu-tiles .spark-curve").get_attribute("d")
        )

    def test_tiles_keep_their_place_while_values_change(self):
        where = (
            "return [...document.querySelectorAll('.tile, h2')]"
            ".map(t => [t.offsetTop, t.offsetLeft, t.offsetWidth, t.offsetHeight].join(' '))"
        )
        before = self.js(where)
        for _ in range(2):
            words = self.text("#gpu-tiles")
            wait_for("other values", lambda: self.text("#gpu-tiles") != words)
            self.assertEqual(before, self.js(where))

    def test_theme_follows_the_system_until_the_button_says_otherwise(self):
        light = self.background()
        browser.prefer(self.driver, "dark")
        dark = wait_for(
            "dark by the system", lambda: self.background() != light and self.background()
        )
        self.one("#theme").click()
        self.assertEqual((self.text("#theme-text"), self.background()), ("Light", light))
        self.driver.refresh()
        wait_for("kept", lambda: (self.text("#theme-text"), self.background()) == ("Light", light))
        self.one("#theme").click()
        self.assertEqual((self.text("#theme-text"), self.background()), ("Dark", dark))
        self.one("#theme").click()
        self.assertEqual(self.text("#theme-text"), "Auto")

    def test_a_gpu_opens_and_closes_by_keyboard_alone(self):
        self.one("body").send_keys(Keys.TAB)
        for _ in range(12):
            if "tile-open" in (self.driver.switch_to.active_element.get_attribute("class") or ""):
                break
            self.press(Keys.TAB)
        focused = self.driver.switch_to.active_element
        self.assertEqual(focused, self.tile())
        self.press(Keys.ENTER)
        self.wait_for_panel()
        self.assertEqual(self.text("#panel-title"), self.state()["gpus"][0]["name"])
        self.press(Keys.ESCAPE)
        wait_for("the panel is closed", lambda: not self.count("dialog.panel[open]"))
        self.assertEqual(self.driver.switch_to.active_element, focused)
        wait_for("the address names no device", lambda: "#device" not in self.driver.current_url)

    def test_the_panel_shows_facts_and_processes(self):
        self.open_first()
        wait_for(
            "a value in every chart",
            lambda: all(
                re.search(r"\d", c.get_attribute("textContent"))
                for c in self.find(".panel .legend")
            ),
        )
        self.assertIn(self.state()["gpus"][0]["uuid"], self.text(".fact-list"))
        self.driver.refresh()
        wait_for("open again after a reload", lambda: self.find("dialog.panel[open]"))
        self.driver.back()

    def test_history_zooms_by_button_mouse_and_keyboard(self):
        self.open_first()
        self.one('.ranges [data-seconds="3600"]').click()
        self.assertEqual(
            self.one('.ranges [data-seconds="3600"]').get_attribute("aria-pressed"), "true"
        )
        self.one('.ranges [data-seconds="300"]').click()
        plot = self.one(".panel .chart-plot")
        ActionChains(self.driver).move_to_element(plot).click_and_hold().move_by_offset(
            90, 3
        ).release().perform()
        wait_for("a span of its own", lambda: "Drag" not in self.text(".range-words"))
        span = self.text(".range-words")
        plot.send_keys(Keys.ARROW_LEFT)
        wait_for("moved", lambda: self.text(".range-words") != span)
        plot.send_keys("-")
        plot.send_keys(Keys.HOME)
        wait_for("live again", lambda: "Drag" in self.text(".range-words"))

    def test_the_ledger_accounts_for_every_gpu_and_sorts(self):
        self.assertEqual(len(self.find(".ledger-rows li")), 8)
        self.assertRegex(self.text(".ledger-name"), r"^04:00\.0 · ")  # what a phone keeps of it
        count = sum(len(g.get("processes", {}).get("list", [])) for g in self.state()["gpus"])
        if not count:
            self.skipTest("the scenario has no processes")
        wait_for("a row per process", lambda: len(self.find("#ledger tbody tr")) > 0)
        self.find("#ledger .sort")[1].send_keys(Keys.ENTER)
        pids = [int(c.get_attribute("textContent")) for c in self.find("#ledger td.col-pid")]
        self.assertEqual(pids, sorted(pids))

    def test_no_width_from_phone_to_wall_scrolls_sideways(self):
        for width, height in ((360, 780), (768, 1024), (1440, 900), (3840, 2160)):
            browser.resize(self.driver, width, height)
            self.assertLessEqual(self.overflow(), 0, f"{width} px wide")
        browser.resize(self.driver, 360, 780)
        self.open_first()
        inside = self.js(
            "const p = document.querySelector('.panel'); return p.scrollWidth - p.clientWidth"
        )
        self.assertLessEqual(inside, 0, "the panel on a phone")

    def test_opening_panels_again_and_again_leaves_nothing_behind(self):
        def nodes():
            self.driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            listed = self.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            return {m["name"]: m["value"] for m in listed}["Nodes"]

        def visit():  # by script: the driver would keep the nodes it has touched alive
            self.js("document.querySelector('.tile-open').click()")
            self.wait_for_panel()
            self.js("document.querySelector('.panel').close()")
            wait_for("closed", lambda: "#device" not in self.driver.current_url)

        self.driver.execute_cdp_cmd("Performance.enable", {})
        visit()  # the first time makes what stays
        before = nodes()
        for _ in range(4):
            visit()
        self.assertLess(nodes() - before, 100)


GIB = 2**30


class SlowLeak(PageTest):
    """An hour in which one GPU's memory rose, one grew hot, one's memory jumped and one was calm;
    the scenario goes on from there."""

    arguments = ("--demo", "slow-leak")
    hour_before = {
        past.gpu(1): {"memory_used": lambda ago: (32 - 9 * ago / 3600) * GIB},
        past.gpu(2): {"temperature": lambda ago: 54 - 6 * ago / 3600},
        past.gpu(3): {"memory_used": lambda ago: (62 if ago < 1200 else 38) * GIB},
        past.gpu(4): {"memory_used": lambda ago: 31 * GIB},
        "cpu": {"host_memory_used": lambda ago: (4 - 2 * ago / 3600) * GIB},
    }

    def said(self, selector):
        return self.text(selector).replace("\u00a0", " ")

    def note(self, n):
        return self.said(f'.tile[data-device="{past.gpu(n)}"] .tile-notes')

    def trend_of(self, chart):
        return self.js(
            "return [...document.querySelectorAll('.panel .chart')]"
            ".find(c => c.querySelector('.chart-title').textContent === arguments[0])"
            ".querySelector('.trend').innerText.replaceAll('\\u00a0', ' ')",
            chart,
        )

    def test_a_tile_says_where_its_values_are_going_and_nothing_when_they_stay(self):
        wait_for("trends", lambda: self.count("#gpu-tiles .note[data-trend]") == 3, 30)
        self.assertRegex(self.note(1), r"^Memory rising [89]\.\d GiB/h, full in 1[123] h$")
        self.assertRegex(
            self.note(2), r"^Temperature rising [56]\.\d °C/h, slowdown in \d h \d+ min$"
        )
        self.assertRegex(self.note(3), r"^Memory jumped by 24\.\d GiB at \d\d:\d\d$")
        self.assertEqual(self.note(4), "Not held back, no errors")
        memory = self.said('.tile[data-device="cpu"] .trend')
        self.assertRegex(memory, r"^Rising 2\.\d GiB/h")
        browser.resize(self.driver, 360, 780)
        self.assertLessEqual(self.overflow(), 0)
        for note in self.find(".note[data-trend], .tile .trend"):
            cut = self.js("return arguments[0].scrollWidth - arguments[0].clientWidth", note)
            self.assertLessEqual(cut, 0, note.text)

    def test_the_panel_says_it_beside_the_chart_it_is_about_while_that_shows_now(self):
        wait_for("trends", lambda: self.count("#gpu-tiles .note[data-trend]") == 3, 30)
        self.driver.get(f"{self.server.url}#device={past.gpu(1)}")
        wait_for("its trend", lambda: self.trend_of("Memory").startswith("Rising "))
        self.assertEqual(self.trend_of("Temperature"), "")
        plot = self.find(".panel .chart-plot")[1]
        wait_for("drawn", lambda: self.count(".panel canvas") >= 10)
        plot.send_keys("-")
        wait_for("another span, no word of now", lambda: self.trend_of("Memory") == "")
        plot.send_keys(Keys.HOME)
        wait_for("live again", lambda: self.trend_of("Memory").startswith("Rising "))


class GpuFallsOff(PageTest):
    arguments = ("--demo", "gpu-falls-off")
    environment = {"SLUICE_SERVE_ADMIN_KEY": ADMIN_KEY}

    def lost(self):
        return self.find('.tile[data-state="lost"]')

    def test_1_a_lost_gpu_is_shown_with_cause_fix_and_alert_and_comes_back(self):
        tile = wait_for("a tile says lost", self.lost, 75)[0]
        words = tile.get_attribute("textContent")
        self.assertIn("Lost", words)
        wait_for(
            "a verdict", lambda: re.search(r"\d+ of \d+ GPUs? healthy", self.text("#verdict-head"))
        )
        self.assertRegex(self.text("#verdict-tail"), r"1 lost \d+ s ago")
        self.assertTrue(tile.find_element("css selector", ".trouble-cause").text)
        self.silence_and_end_it_by_keyboard()
        device = tile.get_attribute("data-device")
        wait_for(
            "healthy again",
            lambda: self.one(f'.tile[data-device="{device}"]').get_attribute("data-state")
            == "healthy",
            40,
        )

    def silence_and_end_it_by_keyboard(self):
        # The XID's alert: it stays after the GPU is back.
        card = '.alert[data-rule="gpu-xid"]'
        self.js("sessionStorage.setItem('sluice-api-key', arguments[0])", ADMIN_KEY)
        button = wait_for("an alert", lambda: self.find(card + " .silence > button"))[0]
        button.send_keys(Keys.ENTER)
        chosen = self.driver.switch_to.active_element
        self.assertEqual(chosen.get_attribute("aria-label"), "Silence for 15 min")
        chosen.send_keys(Keys.ENTER)
        wait_for("the page says so", lambda: self.count(card + "[data-silenced]"))
        self.assertTrue(self.silenced())
        wait_for("focus is back", lambda: self.driver.switch_to.active_element == button)
        button.send_keys(Keys.ENTER)
        wait_for("no longer silent", lambda: not self.count(card + "[data-silenced]"))
        self.assertFalse(self.silenced())

    def silenced(self):
        return [a["id"] for a in self.server.get("v1/alerts")["active"] if a["silenced_until"]]

    def test_2_the_page_survives_a_restart_of_the_server(self):
        type(self).forgiven = RESTARTED
        self.js("window.same = true")
        self.server.stop()
        wait_for("the page notices", lambda: self.text("#link-text") == "Reconnecting")
        wait_for("ages count on", lambda: "ago" in self.text("#verdict-tail"))
        self.server.start()
        wait_for("live again", lambda: self.text("#link-text") == "Live", 20)
        self.assertTrue(self.js("return window.same"), "without a reload")
        before = self.text("#gpu-tiles")
        wait_for("values move again", lambda: self.text("#gpu-tiles") != before)


class WithoutGpu(PageTest):
    def test_a_machine_without_a_gpu_gets_a_friendly_word_and_cpu_curves(self):
        if self.state()["gpus"]:
            self.skipTest("this machine has a GPU")
        wait_for("a verdict", lambda: "Running on the CPU" in self.text("#verdict-head"))
        self.assertIn("sluice doctor", self.text("#no-gpu"))
        wait_for("CPU charts", lambda: self.find(".chart-set canvas"))
        browser.resize(self.driver, 360, 780)
        self.assertLessEqual(self.overflow(), 0)


class WithAKey(PageTest):
    """Opened with the key as the browser's own dialogue sends it; the key then changes."""

    arguments = ("--demo", "eight-gpus")
    environment = {"SLUICE_SERVE_API_KEY": "right-key-0123456789"}
    forgiven = re.compile(RESTARTED.pattern + r"|401 \(Unauthorized\)")

    def setUp(self):
        self.send_key("user:right-key-0123456789")
        super().setUp()
        self.send_key(None)

    def send_key(self, pair):
        headers = (
            {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()} if pair else {}
        )
        self.driver.execute_cdp_cmd("Network.enable", {})
        self.driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})

    def answer(self, key):
        wait_for("the page asks", lambda: self.count("dialog.key[open]"))
        self.one("#key-input").send_keys(key, Keys.ENTER)

    def test_a_rejected_key_is_asked_for_again_until_it_is_accepted(self):
        self.server.stop()
        self.server.start()
        self.answer("wrong")
        wait_for("it says so", lambda: "did not take" in self.text("dialog.key"))
        self.answer("right-key-0123456789")
        wait_for("live", lambda: self.text("#link-text") == "Live")
        self.assertEqual(self.js("return Object.keys(localStorage).filter(k => /key/.test(k))"), [])


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
