"""The base of the page's tests: one server per class, one browser for all."""

import json, re, sys, unittest

import browser, past
from browser import Server, wait_for


# What the console says while a server is away.
RESTARTED = re.compile(
    r"ERR_CONNECTION_REFUSED|ERR_CONNECTION_RESET|ERR_INCOMPLETE_CHUNKED"
    r"|ERR_EMPTY_RESPONSE|ERR_SOCKET_NOT_CONNECTED"
)


class PageTest(unittest.TestCase):
    """One server per class, one browser for all; after every test the console must be
    clean (which includes the content policy) and nothing fetched from elsewhere."""

    program = None  # set by run()
    driver = None
    arguments = ()
    environment = {}
    hour_before = {}  # what its history has already, see past.write()
    forgiven = None  # console errors that are part of the test
    servers = set()  # of all classes so far

    @classmethod
    def setUpClass(cls):
        cls.server = Server(cls.program, *cls.arguments, environment=cls.environment)
        cls.addClassCleanup(cls.server.__exit__)
        if cls.hour_before:
            past.write(cls.server.state.name, cls.hour_before)
        cls.server.start()
        PageTest.servers.add(cls.server.url)

    def setUp(self):
        browser.resize(self.driver, 1440, 900)
        browser.prefer(self.driver, "light")
        self.driver.get_log("browser")
        self.driver.get(self.server.url)
        wait_for("the page is live", lambda: self.text("#link-text") == "Live")
        wait_for("the page is filled", lambda: not self.find("main[aria-busy]"))

    def tearDown(self):
        log = [e for e in self.driver.get_log("browser") if e["level"] in ("SEVERE", "WARNING")]
        lines = [e["message"] for e in log]
        if self.forgiven:
            lines = [line for line in lines if not self.forgiven.search(line)]
        self.assertEqual(lines, [], "the browser's console")
        self.assertEqual(self.foreign_requests(), set(), "requests to other hosts")
        self.driver.get("about:blank")

    def foreign_requests(self):
        """Without those of a page of an earlier class, whose last ones may be logged late."""
        earlier = tuple(PageTest.servers - {self.server.url})
        events = (json.loads(e["message"])["message"] for e in self.driver.get_log("performance"))
        urls = {
            e["params"]["request"]["url"]
            for e in events
            if e["method"] == "Network.requestWillBeSent"
            and not e["params"].get("documentURL", "").startswith(earlier)
        }
        return {u for u in urls if not u.startswith((self.server.url, "data:", "about:"))}

    def find(self, selector):
        return self.driver.find_elements("css selector", selector)

    def count(self, selector):
        return self.js("return document.querySelectorAll(arguments[0]).length", selector)

    def one(self, selector):
        return self.driver.find_element("css selector", selector)

    def text(self, selector):
        return self.js("return document.querySelector(arguments[0]).textContent", selector)

    def js(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def state(self):
        return self.server.get("v1/state")

    def background(self):
        return self.js("return getComputedStyle(document.documentElement).backgroundColor")

    def overflow(self):
        return self.js("return document.documentElement.scrollWidth - window.innerWidth")


def run(program, names):
    """Runs the tests of the main module; ends the process."""
    if reason := browser.missing():
        print(f"skipped: {reason}")
        sys.exit(browser.SKIP)
    with browser.browser() as driver:
        PageTest.program, PageTest.driver = program, driver
        unittest.main(module="__main__", argv=[sys.argv[0], *names], verbosity=2)
