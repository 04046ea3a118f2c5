#!/usr/bin/env python3
"""Makes the pictures of the dashboard in docs/images again, from the demo.
Usage: .venv/bin/python tools/screenshots.py [SLUICE]   (after ./test, which makes .venv)"""
import base64, pathlib, sys, time

root = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(root / "tests"))
import browser  # noqa: E402

SCENARIO = "eight-gpus"
SETTLE_S = 45  # the small curves should have something to show
SIZE = (1440, 900)
LIMIT = 300_000  # bytes: the pictures are part of the repository


def save(driver, path):
    data = driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png", "optimizeForSpeed": False})
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
    with browser.Server(program, "--demo", SCENARIO) as server, browser.browser() as driver:
        browser.resize(driver, *SIZE)
        driver.get(server.url)
        browser.wait_for("tiles", lambda: driver.find_elements("css selector", "#gpu-tiles .tile"))
        time.sleep(SETTLE_S)
        fits = []
        for theme in ("dark", "light"):
            browser.prefer(driver, theme)
            time.sleep(1)
            fits.append(save(driver, folder / f"dashboard-{theme}.png"))
    sys.exit(0 if all(fits) else f"a picture is larger than {LIMIT} bytes")


if __name__ == "__main__":
    main()
