#!/usr/bin/env python3
"""Makes the pictures of the dashboard in docs/images again, from the demo.
Usage: .venv/bin/python tools/screenshots.py [SLUICE]   (after ./test, which makes .venv)"""

import base64, json, pathlib, sys, tempfile, time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests"))
import browser  # noqa: E402

SETTLE_S = 120  # the small curves are full
LOST_AT_S = SETTLE_S - 8
SIZE = (1440, 900)
LIMIT = 300_000  # bytes: the pictures are part of the repository


def scenario(folder):
    """The eight busy GPUs of the demo, and one of them falls off the bus."""
    machine = json.loads((root / "tests/fake_nvml/scenarios/eight-gpus.json").read_text())
    machine["gpus"][5]["events"] = [
        {"type": "xid", "code": 79, "at_s": LOST_AT_S},
        {"type": "lost", "at_s": LOST_AT_S, "until_s": 10 * SETTLE_S},
    ]
    path = pathlib.Path(folder) / "one-of-eight-lost"
    path.write_text(json.dumps(machine))
    return str(path)


def save(driver, path):
    data = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False}
    )
    path.write_bytes(base64.b64decode(data["data"]))
    size = path.stat().st_size
    print(f"{path.relative_to(root)}: {size} bytes")
    return size <= LIMIT


def main():
    if reason := browser.missing():
        sys.exit(f"cannot take pictures: {reason}")
    program = sys.argv[1] if len(sys.argv) > 1 else str(root / "build" / "sluice")
    folder = root / "docs" / "images"
    folder.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as made, browser.Server(
        program, "--demo", scenario(made)
    ) as server, browser.browser() as driver:
        browser.resize(driver, *SIZE)
        driver.get(server.url)
        browser.wait_for("tiles", lambda: driver.find_elements("css selector", "#gpu-tiles .tile"))
        browser.wait_for(
            "a lost GPU",
            lambda: driver.find_elements("css selector", ".alert[data-severity=critical]"),
            SETTLE_S + 30,
        )
        time.sleep(6)
        fits = []
        for theme in ("dark", "light"):
            browser.prefer(driver, theme)
            time.sleep(1)
            fits.append(save(driver, folder / f"dashboard-{theme}.png"))
    sys.exit(0 if all(fits) else f"a picture is larger than {LIMIT} bytes")


if __name__ == "__main__":
    main()
