#!/usr/bin/env python3
"""Makes the pictures of the dashboard in docs/images again, from the demo.
Usage: .venv/bin/python tools/screenshots.py [SLUICE] [--all FOLDER [--demo SCENARIO]]
(after ./test, which makes .venv). With --all every page goes to FOLDER, light and dark, on a
desk, a tablet and a phone: what to look at after a change of the page."""

import argparse, base64, json, pathlib, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests"))
import browser, past  # noqa: E402
from lease_life import Life  # noqa: E402

SETTLE_S = 120  # the small curves are full
LOST_AT_S = SETTLE_S - 8
SIZE = (1440, 900)
LIMIT = 300_000  # bytes: the pictures are part of the repository
GIB = 2**30
THEMES = ("dark", "light")
WIDTHS = {"desk": 1440, "tablet": 820, "phone": 390}

# The hour before: one GPU's memory has been rising, one's fan is clogging up.
HOUR_BEFORE = {
    past.gpu(1): {"memory_used": lambda ago: (118 - 6.4 * ago / 3600) * GIB},
    past.gpu(4): {"temperature": lambda ago: 73 - 4.6 * ago / 3600},
}


def scenario(folder, life):
    """The eight busy GPUs of the demo, with leases, and one of them falls off the bus."""
    machine = json.loads((root / "tests/fake_nvml/scenarios/eight-gpus.json").read_text())
    machine["gpus"][5]["events"] = [
        {"type": "xid", "code": 79, "at_s": LOST_AT_S},
        {"type": "lost", "at_s": LOST_AT_S, "until_s": 10 * SETTLE_S},
    ]
    life.put_into(machine)
    path = pathlib.Path(folder) / "one-of-eight-lost"
    path.write_text(json.dumps(machine))
    return str(path)


def save(driver, path, **more):
    data = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False, **more}
    )
    path.write_bytes(base64.b64decode(data["data"]))
    size = path.stat().st_size
    print(f"{path.name}: {size} bytes")
    return size


def save_leases(driver, path):
    """Only that section, whole."""
    box = driver.execute_script(
        "const r = document.querySelector('#leases-section').getBoundingClientRect();"
        "return [r.x - 14, r.y + scrollY - 10, r.width + 28, r.height + 20]"
    )
    clip = dict(zip(("x", "y", "width", "height"), box), scale=1)
    return save(driver, path, clip=clip, captureBeyondViewport=True)


def for_the_docs(driver, server, life):
    folder = root / "docs" / "images"
    folder.mkdir(exist_ok=True)
    browser.resize(driver, *SIZE)
    driver.get(server.url)
    browser.wait_for(
        "a lost GPU",
        lambda: driver.find_elements("css selector", ".alert[data-severity=critical]"),
        SETTLE_S + 30,
    )
    time.sleep(6)
    sizes = []
    for theme in THEMES:
        browser.prefer(driver, theme)
        time.sleep(1)
        sizes.append(save(driver, folder / f"dashboard-{theme}.png"))
    driver.execute_script("document.querySelector('.timeline [data-seconds=\"300\"]').click()")
    life.hurry()
    time.sleep(4)
    sizes.append(save_leases(driver, folder / "leases-light.png"))
    if max(sizes) > LIMIT:
        sys.exit(f"a picture is larger than {LIMIT} bytes")


def whole_page(driver, width):
    """As high as what is on it, so that nothing is left out."""
    browser.resize(driver, width, 700)
    height = driver.execute_script(
        "return Math.max(document.documentElement.scrollHeight,"
        " document.querySelector('dialog[open] > *')?.scrollHeight ?? 0)"
    )
    browser.resize(driver, width, height)


def every_page(driver, server, folder):
    browser.wait_for("a first look", lambda: server.get("health")["ready"])
    gpus = [gpu["uuid"] for gpu in server.get("v1/state")["gpus"]]
    pages = {"main": ""}
    pages.update({f"gpu{n}": f"#device={uuid}" for n, uuid in enumerate(gpus[:2], 1)})
    pages.update({"cpu": "#device=cpu", "server": "#device=server"})
    for theme in THEMES:
        browser.prefer(driver, theme)
        for form, width in WIDTHS.items():
            for page, fragment in pages.items():
                driver.get("about:blank")
                driver.get(server.url + fragment)
                time.sleep(2)
                whole_page(driver, width)
                time.sleep(0.5)
                save(driver, folder / f"{page}-{form}-{theme}.png")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", nargs="?", default=str(root / "build" / "sluice"))
    parser.add_argument("--all", metavar="FOLDER", type=pathlib.Path)
    parser.add_argument("--demo", help="another scenario for --all")
    flags = parser.parse_args()
    if reason := browser.missing():
        sys.exit(f"cannot take pictures: {reason}")
    with tempfile.TemporaryDirectory() as made, Life() as life, browser.browser() as driver:
        server = browser.Server(flags.program, "--demo", flags.demo or scenario(made, life))
        past.write(server.state.name, HOUR_BEFORE)
        with server:
            life.begin(server)
            if flags.all:
                flags.all.mkdir(parents=True, exist_ok=True)
                every_page(driver, server, flags.all)
            else:
                for_the_docs(driver, server, life)


if __name__ == "__main__":
    main()
