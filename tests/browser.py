"""What the tests of the page share: the program as a server, and a real Chromium."""

import contextlib, json, os, shutil, signal, socket, subprocess, tempfile, time, urllib.request

try:
    from selenium import webdriver
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys
except ImportError:  # missing() says so
    webdriver = ActionChains = Keys = None

SKIP = 77  # ctest: not run, and that is no failure


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait_for(what, check, timeout=15, pause=0.05):
    """The first true answer of check(); its last error or answer when there is none."""
    end, last = time.monotonic() + timeout, None
    while time.monotonic() < end:
        try:
            last = check()
            if last:
                return last
        except Exception as error:  # the page or the server may be between two states
            last = error
        time.sleep(pause)
    raise AssertionError(f"not within {timeout} s: {what} (last: {last!r})")


class Server:
    """`sluice serve`, which can be stopped and started again on the same port."""

    def __init__(self, program, *arguments, environment=None):
        self.port, self.arguments, self.program = free_port(), arguments, program
        self.environment = {**os.environ, **(environment or {})}
        self.url = f"http://127.0.0.1:{self.port}/"
        self.state = tempfile.TemporaryDirectory(prefix="sluice-page-")
        self.log = open(os.path.join(self.state.name, "log"), "w+")
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.log.close()
        self.state.cleanup()

    def start(self):
        self.process = subprocess.Popen(
            [
                self.program,
                "serve",
                "--port",
                str(self.port),
                "--state",
                self.state.name,
                *self.arguments,
            ],
            stdout=self.log,
            stderr=self.log,
            env=self.environment,
        )
        try:
            wait_for("the server answers", lambda: self.get("health"), 20)
        except AssertionError as error:
            self.stop()
            self.log.seek(0)
            raise AssertionError(f"{error}\n{self.log.read()[-3000:]}") from None

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, path):
        if self.process.poll() is not None:
            raise RuntimeError(f"the server ended with {self.process.returncode}")
        with urllib.request.urlopen(self.url + path, timeout=5) as answer:
            return json.load(answer)


def find(*names):
    return next((path for path in map(shutil.which, names) if path), None)


def missing():
    """Why the page cannot be tested here; None when it can."""
    if webdriver is None:
        return "Python has no selenium (./test installs it into .venv)"
    if not find("chromium", "chromium-browser", "google-chrome"):
        return "no Chromium (apt-get install chromium)"
    if not find("chromedriver"):
        return "no chromedriver (apt-get install chromium-driver)"
    return None


@contextlib.contextmanager
def browser():
    options = webdriver.ChromeOptions()
    options.binary_location = find("chromium", "chromium-browser", "google-chrome")
    for argument in (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
    ):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(
        options=options, service=webdriver.ChromeService(find("chromedriver"))
    )
    try:
        yield driver
    finally:
        driver.quit()


def resize(driver, width, height, scale=1):
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": scale, "mobile": width < 600},
    )


def prefer(driver, scheme):
    driver.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
