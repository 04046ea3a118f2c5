"""The dashboard in a real Chromium, served by the real program.
Usage: page_test.py SLUICE [TEST...]"""
import base64, json, re, sys, time, unittest

import browser
from browser import Server, wait_for

PROGRAM = sys.argv[1] if len(sys.argv) > 1 else "build/sluice"
RESTARTED = re.compile(r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED"
                       r"|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED")


class PageTest(unittest.TestCase):
    """One server per class, one browser for all; after every test the console must be
    clean (which includes the content policy) and nothing fetched from elsewhere."""
    arguments = ()
    environment = {}
    forgiven = None  # console errors that are part of the test

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, *cls.arguments, environment=cls.environment).__enter__()
        cls.addClassCleanup(cls.server.__exit__)

    def setUp(self):
        browser.resize(driver, 1440, 900)
        browser.prefer(driver, "light")
        driver.get_log("browser")
        driver.get(self.server.url)
        wait_for("the page is live", lambda: self.text("#link-text") == "Live")
        wait_for("the page is filled", lambda: not self.find("main[aria-busy]"))

    def tearDown(self):
        lines = [e["message"] for e in driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        lines = [m for m in lines if not (self.forgiven and self.forgiven.search(m))]
        self.assertEqual(lines, [], "the browser's console")
        self.assertEqual(self.strangers(), set(), "requests to other hosts")
        driver.get("about:blank")

    def strangers(self):
        events = (json.loads(e["message"])["message"] for e in driver.get_log("performance"))
        urls = {e["params"]["request"]["url"] for e in events
                if e["method"] == "Network.requestWillBeSent"}
        return {u for u in urls if not u.startswith((self.server.url, "data:", "about:"))}

    def find(self, selector):
        return driver.find_elements("css selector", selector)

    def count(self, selector):
        return self.js("return document.querySelectorAll(arguments[0]).length", selector)

    def one(self, selector):
        return driver.find_element("css selector", selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def js(self, code, *arguments):
        return driver.execute_script(code, *arguments)

    def press(self, *keys):
        driver.switch_to.active_element.send_keys(*keys)

    def state(self):
        return self.server.get("v1/state")

    def background(self):
        return self.js("return getComputedStyle(document.documentElement).backgroundColor")

    def overflow(self):
        return self.js("return document.documentElement.scrollWidth - window.innerWidth")


class EightGpus(PageTest):
    arguments = ("--demo", "eight-gpus")

    def tile(self, n=0):
        return self.find("#gpu-tiles .tile-open")[n]

    def wait_for_panel(self):
        wait_for("the panel is open", lambda: self.count("dialog.panel[open]"))
        wait_for("its charts are drawn", lambda: self.count(".panel canvas") >= 10 or
                 self.fail(self.text(".chart-problem")))

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
        wait_for("other numbers", lambda: first != [
            t.get_attribute("textContent") for t in self.find("#gpu-tiles .big")])
        wait_for("another curve", lambda: curve !=
                 self.one("#gpu-tiles .spark-curve").get_attribute("d"))

    def test_tiles_keep_their_place_while_values_change(self):
        where = "return [...document.querySelectorAll('.tile')].map(t => t.offsetTop + ' ' + t.offsetLeft)"
        before, number = self.js(where), self.text("#gpu-tiles .spark-curve")
        time.sleep(1.5)
        self.assertEqual(before, self.js(where), number)

    def test_theme_follows_the_system_until_the_button_says_otherwise(self):
        light = self.background()
        browser.prefer(driver, "dark")
        dark = wait_for("dark by the system", lambda: self.background() != light and self.background())
        self.one("#theme").click()
        self.assertEqual((self.text("#theme-text"), self.background()), ("Light", light))
        driver.refresh()
        wait_for("kept", lambda: (self.text("#theme-text"), self.background()) == ("Light", light))
        self.one("#theme").click()
        self.assertEqual((self.text("#theme-text"), self.background()), ("Dark", dark))
        self.one("#theme").click()
        self.assertEqual(self.text("#theme-text"), "Auto")

    def test_a_gpu_opens_and_closes_by_keyboard_alone(self):
        self.one("body").send_keys(Keys.TAB)
        for _ in range(12):
            if "tile-open" in (driver.switch_to.active_element.get_attribute("class") or ""):
                break
            self.press(Keys.TAB)
        focused = driver.switch_to.active_element
        self.assertEqual(focused, self.tile())
        self.press(Keys.ENTER)
        self.wait_for_panel()
        self.assertEqual(self.text("#panel-title"), self.state()["gpus"][0]["name"])
        self.press(Keys.ESCAPE)
        wait_for("the panel is closed", lambda: not self.count("dialog.panel[open]"))
        self.assertEqual(driver.switch_to.active_element, focused)
        self.assertNotIn("#device", driver.current_url)

    def test_the_panel_tells_facts_and_processes(self):
        self.open_first()
        wait_for("a value in every chart", lambda: all(
            re.search(r"\d", c.get_attribute("textContent")) for c in self.find(".panel .legend")))
        self.assertIn(self.state()["gpus"][0]["uuid"], self.text(".fact-list"))
        driver.refresh()
        wait_for("open again after a reload", lambda: self.find("dialog.panel[open]"))
        driver.back()

    def test_history_zooms_by_button_mouse_and_keyboard(self):
        self.open_first()
        self.one('.ranges [data-seconds="3600"]').click()
        self.assertEqual(self.one('.ranges [data-seconds="3600"]').get_attribute("aria-pressed"), "true")
        self.one('.ranges [data-seconds="300"]').click()
        plot = self.one(".panel .chart-plot")
        ActionChains(driver).move_to_element(plot).click_and_hold().move_by_offset(90, 3).release().perform()
        wait_for("a span of its own", lambda: "Drag" not in self.text(".range-words"))
        span = self.text(".range-words")
        plot.send_keys(Keys.ARROW_LEFT)
        wait_for("moved", lambda: self.text(".range-words") != span)
        plot.send_keys("-")
        plot.send_keys(Keys.HOME)
        wait_for("live again", lambda: "Drag" in self.text(".range-words"))

    def test_the_ledger_accounts_for_every_gpu_and_sorts(self):
        self.assertEqual(len(self.find(".ledger-rows li")), 8)
        count = sum(len(g.get("processes", {}).get("list", [])) for g in self.state()["gpus"])
        if not count:
            self.skipTest("the scenario has no processes")
        wait_for("a row per process", lambda: len(self.find("#ledger tbody tr")) > 0)
        self.find("#ledger .sort")[1].send_keys(Keys.ENTER)
        pids = [int(c.get_attribute("textContent")) for c in self.find("#ledger td.col-pid")]
        self.assertEqual(pids, sorted(pids))

    def test_no_width_from_phone_to_wall_scrolls_sideways(self):
        for width, height in ((360, 780), (768, 1024), (1440, 900), (3840, 2160)):
            browser.resize(driver, width, height)
            self.assertLessEqual(self.overflow(), 0, f"{width} px wide")
        browser.resize(driver, 360, 780)
        self.open_first()
        inside = self.js("const p = document.querySelector('.panel'); return p.scrollWidth - p.clientWidth")
        self.assertLessEqual(inside, 0, "the panel on a phone")

    def test_opening_panels_again_and_again_leaves_nothing_behind(self):
        def nodes():
            driver.execute_cdp_cmd("HeapProfiler.collectGarbage", {})
            listed = driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
            return {m["name"]: m["value"] for m in listed}["Nodes"]

        def visit():  # by script: the driver would keep the nodes it has touched alive
            self.js("document.querySelector('.tile-open').click()")
            self.wait_for_panel()
            self.js("document.querySelector('.panel').close()")

        driver.execute_cdp_cmd("Performance.enable", {})
        visit()  # the first time makes what stays
        before = nodes()
        for _ in range(4):
            visit()
        self.assertLess(nodes() - before, 100)


class GpuFallsOff(PageTest):
    arguments = ("--demo", "gpu-falls-off")

    def lost(self):
        return self.find('.tile[data-state="lost"]')

    def test_1_a_lost_gpu_is_shown_with_cause_fix_and_alert_and_comes_back(self):
        tile = wait_for("a tile says lost", self.lost, 25)[0]
        words = tile.get_attribute("textContent")
        self.assertIn("Lost", words)
        wait_for("a verdict", lambda: re.search(r"\d+ of \d+ GPUs? healthy", self.text("#verdict-head")))
        self.assertRegex(self.text("#verdict-tail"), r"1 lost \d+ s ago")
        self.assertTrue(tile.find_element("css selector", ".trouble-cause").text)
        alert = wait_for("an alert", lambda: self.find(".alert"))[0]
        self.silence_by_keyboard(alert)
        device = tile.get_attribute("data-device")
        wait_for("healthy again", lambda: self.one(f'.tile[data-device="{device}"]')
                 .get_attribute("data-state") == "healthy", 40)

    def silence_by_keyboard(self, alert):
        alert.find_element("css selector", '.silence > button').send_keys(Keys.ENTER)
        self.assertEqual(driver.switch_to.active_element.get_attribute("aria-label"), "Silence for 15 min")
        self.press(Keys.ENTER)
        wait_for("the page says so", lambda: self.find(".alert[data-silenced]"))
        active = self.server.get("v1/alerts")["active"]
        self.assertTrue(any(a["silenced_until"] for a in active), active)

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
        self.assertIn("Running on the CPU", self.text("#verdict-head"))
        self.assertIn("sluice doctor", self.text("#no-gpu"))
        wait_for("CPU charts", lambda: self.find(".chart-set canvas"))
        browser.resize(driver, 360, 780)
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
        headers = {"Authorization": "Basic " + base64.b64encode(pair.encode()).decode()} if pair else {}
        driver.execute_cdp_cmd("Network.enable", {})
        driver.execute_cdp_cmd("Network.setExtraHTTPHeaders", {"headers": headers})

    def answer(self, key):
        wait_for("the page asks", lambda: self.count("dialog.key[open]"))
        self.one("#key-input").send_keys(key, Keys.ENTER)

    def test_a_key_that_no_longer_holds_is_asked_for_again_until_it_does(self):
        self.server.stop()
        self.server.start()
        self.answer("wrong")
        wait_for("it says so", lambda: "did not take" in self.text("dialog.key"))
        self.answer("right-key-0123456789")
        wait_for("live", lambda: self.text("#link-text") == "Live")
        self.assertEqual(self.js("return Object.keys(localStorage).filter(k => /key/.test(k))"), [])


class Logic(PageTest):
    """The pure parts of the page, run where they will run."""
    arguments = ("--demo", "eight-gpus")

    def run_module(self, code):
        answer = driver.execute_async_script(
            "const done = arguments[arguments.length - 1];"
            "(async () => {" + code + "})().then(v => done({v}), e => done({e: String(e)}))")
        self.assertNotIn("e", answer)
        return answer["v"]

    def judge(self, states, **more):
        gpus = [{"health": {"state": s, "cause": "fell off the bus", "since_s": 12}} for s in states]
        return self.run_module("const {judge} = await import('/assets/verdict.js');"
                               f"return judge({json.dumps({'gpus': gpus, **more})}, 1)")

    def test_the_verdict_names_the_worst_first_and_its_cause(self):
        self.assertEqual(self.judge(["healthy"] * 8)["head"], "All 8 GPUs are healthy")
        self.assertEqual(self.judge(["healthy"])["head"], "The GPU is healthy")
        one = self.judge(["healthy"] * 7 + ["lost"])
        self.assertEqual((one["state"], one["head"]), ("lost", "7 of 8 GPUs healthy"))
        self.assertEqual(one["tail"], "1 lost 13 s ago: fell off the bus")
        many = self.judge(["degraded", "lost", "lost", "probation"])
        self.assertEqual(many["tail"], "2 lost; 1 degraded for 13 s: fell off the bus; "
                                       "1 on probation for 13 s: fell off the bus")
        self.assertEqual(self.judge([])["head"], "Running on the CPU")

    def test_events_are_whole_however_the_network_cuts_them(self):
        text = ": hello\nretry: 5\n\nid: 7-1\nevent: alert\ndata: {\"a\":\ndata: 1}\n\ndata: x\r\n\r\n"
        events = self.run_module(
            "const {EventParser} = await import('/assets/stream.js'); const all = [];"
            f"for (let n = 1; n < 9; ++n) {{ const seen = []; const text = {json.dumps(text)};"
            "  const parser = new EventParser(e => seen.push([e.type, e.id, e.data]));"
            "  for (let i = 0; i < text.length; i += n) parser.push(text.slice(i, i + n));"
            "  all.push(JSON.stringify(seen)); } return all")
        self.assertEqual({json.dumps(json.loads(e)) for e in events}, {json.dumps(
            [["alert", "7-1", '{"a":\n1}'], ["message", "7-1", "x"]])})

    def test_numbers_read_as_people_read_them(self):
        said = self.run_module(
            "const f = await import('/assets/format.js');"
            "return [f.bytes(150754820096), f.bytesOf(2 ** 30, 2 ** 40), f.percent(99.6), f.percent(undefined),"
            " f.duration(59.6), f.duration(3725), f.milliseconds(0.25), f.milliseconds(1500), f.share(0.042),"
            " f.perSecond(3.25), f.plural(1, 'GPU')]")
        self.assertEqual(said, ["140.4 GiB", "0.0 of 1.0 TiB", "100 %", "\u2013", "1 min 0 s", "1 h 2 min",
                                "250 \u00b5s", "1.5 s", "0.042 %", "3.3 /s", "1 GPU"])

    def test_a_time_without_samples_is_a_hole_and_a_slow_metric_is_not(self):
        rows = self.run_module(
            "const {rowsOf} = await import('/assets/series.js'); const s = v => ({t: v, mean: v, min: v, max: v});"
            "const rows = rowsOf({step_s: 1, metrics: {fast: s([0, 1000, 2000, 90000]), slow: s([0, 5000])}},"
            " ['fast', 'slow']); return rows.map(r => [r[0].getTime(), String(r[1][1]), String(r[2][1])])")
        self.assertEqual([r[1] for r in rows], ["0", "1000", "2000", "null", "NaN", "90000"])
        self.assertNotIn("NaN", [r[2] for r in rows])

    def test_eight_tiles_where_six_fit_stand_as_four_and_four(self):
        columns = self.run_module("const {columnsFor: c} = await import('/assets/balance.js');"
                                  "return [c(8, 6), c(8, 8), c(8, 1), c(3, 6), c(5, 4), c(0, 4)]")
        self.assertEqual(columns, [4, 8, 1, 3, 3, 1])

    def test_the_ledger_adds_up_and_names_what_nobody_owns(self):
        parts = self.run_module(
            "const {partsOf} = await import('/assets/ledger.js'); const G = 2 ** 30;"
            "const list = [{pid: 1, name: 'a', kind: 'compute', memory_bytes: 3 * G}];"
            "return partsOf({processes: {list}}, {used: 5 * G, reserved: G, total: 10 * G})"
            "  .map(p => [p.key, p.bytes / G])")
        self.assertEqual(parts, [["1compute", 3], ["unknown", 2], ["reserved", 1], ["free", 4]])

    def test_a_hostile_process_name_stays_text(self):
        name = "<img src=x onerror=\"window.owned = true\"><script>window.owned = true</script>"
        shown = self.run_module(
            "const {ProcessTable} = await import('/assets/process_table.js');"
            "const table = new ProcessTable({withGpu: false}); document.body.append(table.node);"
            f"table.update([{{pid: 1, name: {json.dumps(name)}, user: '<b>', kind: 'compute'}}]);"
            "await new Promise(r => setTimeout(r, 100));"
            "return [table.node.querySelectorAll('img, script, b').length, window.owned ?? false,"
            " table.node.querySelector('td.col-name').textContent]")
        self.assertEqual(shown, [0, False, name])


if __name__ == "__main__":
    if reason := browser.missing():
        print(f"skipped: {reason}")
        sys.exit(browser.SKIP)
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
    with browser.browser() as driver:
        unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
