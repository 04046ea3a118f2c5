"""The page's leases: table, capacity, timeline and revoking, in a real browser."""

import json, subprocess, sys, threading, urllib.request

import browser
from browser import ActionChains, Keys, wait_for
from page_case import RESTARTED, PageTest, run


class Leases(PageTest):
    """Eight GPUs with unmanaged processes on all of them; the last has the most capacity, 117 GiB."""

    arguments = ("--demo", "eight-gpus")
    environment = {"SLUICE_BROKER_YIELD_WITHIN_S": "120"}  # longer than the test looks

    def setUp(self):
        super().setUp()
        wait_for("capacity on the last GPU", lambda: self.listed()["cards"][7]["free_gb"] > 100, 30)

    def tearDown(self):
        listed = self.listed()
        for lease in listed["leases"] + listed["waiting"] + listed["on_cpu"]:
            if lease["state"] != "draining":
                self.send("POST", f"v1/leases/{lease['lease_id']}/revoke", {"reason": "test over"})
        wait_for("all given back", lambda: not self.listed()["leases"])
        super().tearDown()

    def send(self, method, path, body, timeout=30):
        request = urllib.request.Request(
            self.server.url + path,
            json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            return json.load(answer)

    def listed(self):
        return self.server.get("v1/leases")

    def ask(self, agent, memory_gb, **more):
        fields = {"agent": agent, "memory_gb": memory_gb, "ttl_s": 600, **more}
        return self.send("POST", "v1/leases", fields)

    def wait_in_queue(self, agent, memory_gb, **more):
        """In the background: the answer comes when it is served or taken back."""
        fields = {"on_unavailable": "wait", "wait_s": 120, **more}
        threading.Thread(target=self.ask, args=(agent, memory_gb), kwargs=fields).start()
        wait_for(
            f"{agent} waits",
            lambda: any(w["agent"] == agent for w in self.listed()["waiting"]),
        )

    def give_back(self, answer):
        self.send("DELETE", f"v1/leases/{answer['lease_id']}", {"token": answer["token"]})

    def words(self, lease, part="td"):
        selector = f'.lease-table tr[data-lease="{lease}"] {part}'
        return self.js(
            "return [...document.querySelectorAll(arguments[0])].map(n => n.innerText).join(' | ')",
            selector,
        )

    def row(self, agent):
        """The words of the row of this agent, once it is there."""
        look = (
            "const row = [...document.querySelectorAll('.lease-table tbody tr')]"
            ".find(r => r.querySelector('.lease-agent .pair-text').textContent === arguments[0]);"
            "return row ? [...row.cells].map(c => c.innerText).join(' | ') : ''"
        )
        words = wait_for(f"a row of {agent}", lambda: self.js(look, agent))
        return words.replace("\u00a0", " ")

    def test_a_lease_comes_and_goes_without_a_reload(self):
        self.js("window.same = true")
        answer = self.ask("scout", 40, priority="high", model_type="scout")
        row = self.row("scout")
        for said in ("High", "Held", f"GPU {answer['gpu_device']}", "40.0 GiB promised", "None",
                     "a promise only", f"lease {answer['lease_id']}"):
            self.assertIn(said, row)
        self.assertRegex(row, r"\b(10 min 0|9 min \d+) s")
        wait_for("it counts", lambda: "1 lease holds 40.0 GiB" in self.text("#leases-total"))
        self.assertTrue(self.js("return document.querySelector('.lease-empty').hidden"))
        left = self.words(answer["lease_id"], ".lease-left .pair-text")
        wait_for("time runs", lambda: self.words(answer["lease_id"],
                                                 ".lease-left .pair-text") != left)
        self.give_back(answer)
        wait_for("the row is gone", lambda: not self.words(answer["lease_id"]))
        wait_for("as before", lambda: self.one(".lease-empty").is_displayed())
        self.assertTrue(self.js("return window.same"))

    def test_the_command_offered_when_there_are_none_gets_a_lease(self):
        wait_for("no leases", lambda: self.one(".lease-empty").is_displayed())
        command, python = (n.get_attribute("textContent") for n in self.find(
            ".lease-empty .copy-text"))
        self.assertIn("sluice.lease(", python)
        done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=20)
        self.assertEqual(json.loads(done.stdout)["status"], "allocated", done)
        self.assertIn("8.0 GiB promised", self.row("scout"))

    def test_a_cpu_lease_is_shown_with_the_reason(self):
        answer = self.ask("giant", 130, priority="low")
        self.assertEqual(answer["status"], "cpu_fallback")
        row = self.row("giant")
        self.assertIn("On the CPU", row)
        self.assertIn(answer["reason"], row)
        self.assertIn("130.0 GiB requested", row)
        wait_for("counted", lambda: self.text("#leases-total") == "1 on the CPU")

    def test_the_queue_shows_places_and_a_yielding_lease_shows_a_countdown(self):
        self.ask("background", 110, priority="low", device=7)
        self.wait_in_queue("urgent", 112, priority="critical")
        self.wait_in_queue("patient", 113, priority="low")
        self.assertIn("place 1 of 2", self.row("urgent"))
        wait_for("place", lambda: "place 2 of 2" in self.row("patient"))
        wait_for("yield", lambda: "Asked to yield" in self.row("background"))
        self.assertRegex(self.row("background"), r"[12] min \d+ s left to give it back")
        wait_for("two bars", lambda: self.count('.bar[data-kind="waiting"][data-open]') == 2)

    def test_unmanaged_processes_are_listed_under_their_gpu_with_owner_and_size(self):
        cards = self.listed()["cards"]
        wait_for("a place for each GPU", lambda: self.count(".capacity-list > li") == len(cards))
        shown = [n.get_attribute("textContent") for n in self.find(".capacity-list > li")]
        for card, words in zip(cards, shown):
            self.assertIn(f"GPU {card['gpu_device']}", words)
            self.assertTrue(card["unmanaged"])
            for p in card["unmanaged"]:
                self.assertRegex(words, rf"{p['name']}{p['user']} · pid {p['pid']}[\d.]+ GiB")

    def test_the_timeline_keeps_ended_leases_and_shows_details_by_mouse_and_keyboard(self):
        self.give_back(self.ask("brief", 8, priority="critical"))
        kept = self.ask("kept", 16, priority="normal")
        bar = f'.bar[data-lease="{kept["lease_id"]}"]'
        wait_for("bars", lambda: self.count(bar + "[data-open]"))
        ended = wait_for("an ended one", lambda: [
            b for b in self.find(".bar:not([data-open])") if b.text == "brief"
            or "brief" in b.get_attribute("aria-label")])[0]
        self.assertIn("pr-critical", ended.get_attribute("class"))
        ActionChains(self.driver).move_to_element(self.one(bar)).perform()
        wait_for("a word on it", lambda: "16.0 GiB" in self.one(".tip").text)
        self.assertIn("Normal priority", self.one(".tip").text)
        self.assertEqual(self.count('.bar[tabindex="0"]'), 1)
        self.js("document.querySelector('.bar[tabindex=\"0\"]').focus()")
        self.press(Keys.HOME)
        first = wait_for("shown by focus", lambda: self.one(".tip").text)
        self.press(Keys.END)
        wait_for("shown by keyboard", lambda: self.one(".tip").text not in ("", first))
        self.press(Keys.ESCAPE)
        self.assertFalse(self.one(".tip").is_displayed())
        self.one('[data-by="agent"]').send_keys(Keys.ENTER)
        names = wait_for("lanes of agents", lambda: [
            n.text for n in self.find(".lane-name") if n.text in ("brief", "kept")])
        self.assertEqual(sorted(names), ["brief", "kept"])
        self.one('.timeline [data-seconds="900"]').send_keys(Keys.ENTER)
        wait_for("still there", lambda: self.count(bar))

    def test_an_operator_revokes_by_keyboard_and_must_say_why(self):
        answer = self.ask("unruly", 20)
        self.row("unruly")
        button = self.one(f'tr[data-lease="{answer["lease_id"]}"] .lease-act button')
        button.send_keys(Keys.ENTER)
        wait_for("asked", lambda: self.count("dialog.ask[open]"))
        self.assertIn("unruly", self.text("#revoke-title"))
        self.press(Keys.ENTER)  # no reason, no effect
        self.assertEqual(self.count("dialog.ask[open]"), 1)
        self.press(Keys.ESCAPE)
        wait_for("kept", lambda: not self.count("dialog.ask[open]"))
        self.assertEqual(self.driver.switch_to.active_element, button)
        self.assertEqual([x["state"] for x in self.listed()["leases"]], ["held"])
        button.send_keys(Keys.ENTER)
        self.press("maintenance at two", Keys.ENTER)
        wait_for("the row is gone", lambda: not self.words(answer["lease_id"]))
        ended = self.server.get(f"v1/leases/{answer['lease_id']}")
        self.assertEqual((ended["status"], ended["reason"]), ("ended", "maintenance at two"))

    def test_names_from_outside_stay_text(self):
        name = '<img src=x onerror="window.owned = true">'
        answer = self.ask(name, 1, model_type="<b>bold</b>")
        self.assertIn(name, self.row(name))
        wait_for("a bar", lambda: self.count(".bar[data-open]"))
        self.one(f'tr[data-lease="{answer["lease_id"]}"] .lease-act button').send_keys(Keys.ENTER)
        wait_for("the question", lambda: name in self.text("#revoke-title"))
        self.assertEqual(self.count("#leases img, #leases b, dialog img, dialog b"), 0)
        self.press(Keys.ESCAPE)
        self.assertFalse(self.js("return window.owned ?? false"))

    def test_only_some_of_many_leases_are_shown_and_all_can_be_found(self):
        rows = "return document.querySelectorAll('.lease-table tbody tr').length"
        count = "return document.querySelector('.lease-filter p').textContent"
        for n in range(60):
            self.ask(f"crowd-{n}", 5000, on_unavailable="cpu")
        wait_for("all are counted", lambda: self.js(count) == "the first 50 of 60 leases")
        self.assertEqual(self.js(rows), 50)
        more = self.driver.find_element("css selector", ".lease-more")
        self.assertEqual(more.text, "Show 10 more of 10")

        box = self.driver.find_element("id", "lease-filter")
        box.send_keys("crowd-59")
        self.assertEqual((self.js(rows), self.js(count)), (1, "1 of 60 leases"))
        self.assertIn("crowd-59", self.row("crowd-59"))
        self.assertFalse(more.is_displayed())
        box.send_keys("x")
        self.assertEqual((self.js(rows), self.js(count)), (0, "none of 60 leases"))
        box.clear()
        box.send_keys(Keys.SPACE, Keys.BACKSPACE)
        self.assertEqual(self.js(rows), 50)
        more.send_keys(Keys.ENTER)
        self.assertEqual((self.js(rows), self.js(count)), (60, "60 leases"))
        self.assertFalse(more.is_displayed())

    def test_no_width_scrolls_sideways_and_a_phone_shows_cards(self):
        self.ask("an-agent-with-quite-a-long-name-for-a-small-telephone", 4, priority="critical")
        self.ask("giant", 130)
        for width in (360, 768, 1024, 1440, 3840):
            browser.resize(self.driver, width, 800)
            self.row("giant")
            self.assertLessEqual(self.overflow(), 0, f"{width} px wide")
            cut = self.js("const t = document.querySelector('.lease-box');"
                          "return t.scrollWidth - t.clientWidth")
            self.assertLessEqual(cut, 0, f"the table at {width} px")
        browser.resize(self.driver, 360, 780)
        display = "return getComputedStyle(document.querySelector('.lease-table tbody tr')).display"
        self.assertEqual(self.js(display), "grid")

    def test_leases_survive_a_restart_of_the_server_on_the_open_page(self):
        type(self).forgiven = RESTARTED
        self.addCleanup(setattr, type(self), "forgiven", None)
        self.js("window.same = true")
        answer = self.ask("steady", 12)
        self.row("steady")
        self.server.stop()
        wait_for("the page notices", lambda: self.text("#link-text") == "Reconnecting")
        self.assertIn("Held", self.words(answer["lease_id"]))
        self.server.start()
        wait_for("live again", lambda: self.text("#link-text") == "Live", 20)
        self.assertIn("Held", self.row("steady"))
        wait_for("capacity", lambda: self.listed()["cards"][7]["free_gb"] > 100, 30)
        self.ask("newcomer", 3)
        self.assertIn("3.0 GiB", self.row("newcomer"))
        self.assertTrue(self.js("return window.same"), "without a reload")


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
