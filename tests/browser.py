"""A headless browser, and what can be asked of a page in it."""

import base64
import json
import os
import shutil
from contextlib import contextmanager

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
DRIVER = shutil.which("chromedriver")
MISSING = "needs chromium (or google-chrome) and chromedriver on the PATH"

_EMPTY_PICTURES = """
return [...document.querySelectorAll('img, svg')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width < 2 || box.height < 2 || (e.tagName === 'IMG' && !(e.naturalWidth > 0));
}).map(e => e.outerHTML.slice(0, 200));
"""
_TOO_WIDE = """
const wide = document.documentElement.clientWidth;
const found = [...document.body.querySelectorAll('*')].filter(e => {
  const box = e.getBoundingClientRect();
  return box.width > 0 && (box.right > wide + 1 || box.left < -1);
}).map(e => e.outerHTML.slice(0, 200));
if (document.documentElement.scrollWidth > wide + 1) found.push('the page itself');
return found;
"""
_CLASHES = """
const found = [];
for (const figure of document.querySelectorAll('svg')) {
  const frame = figure.getBoundingClientRect();
  const texts = [...figure.querySelectorAll('text')].map(e => [e, e.getBoundingClientRect()]);
  texts.forEach(([e, a], i) => {
    if (a.left < frame.left - 1 || a.right > frame.right + 1 ||
        a.top < frame.top - 1 || a.bottom > frame.bottom + 1)
      found.push('clipped: ' + e.textContent);
    for (const [other, b] of texts.slice(i + 1)) {
      const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (across > 1 && down > 3) found.push(e.textContent + ' | ' + other.textContent);
    }
  });
}
return found;
"""


class Page:
    """A page that is open in the browser."""

    def __init__(self, driver):
        self._driver = driver
        entries = (
            json.loads(entry["message"])["message"] for entry in driver.get_log("performance")
        )
        self.requests = [
            entry["params"]["request"]["url"]
            for entry in entries
            if entry["method"] == "Network.requestWillBeSent"
        ]
        self.complaints = [entry["message"] for entry in driver.get_log("browser")]

    def resize(self, width):
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self._driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def empty_pictures(self):
        return self._driver.execute_script(_EMPTY_PICTURES)

    def too_wide(self):
        """Elements that stick out of the page."""
        return self._driver.execute_script(_TOO_WIDE)

    def clashes(self):
        """Texts in figures that cover each other or leave their figure."""
        return self._driver.execute_script(_CLASHES)

    def outside_requests(self):
        return [url for url in self.requests if not url.startswith(("file://", "data:"))]

    def ask(self, script):
        return self._driver.execute_script(f"return {script}")

    def screenshot(self, height=None):
        """A PNG of the page down to ``height``, or of all of it."""
        size = self.ask("[document.documentElement.clientWidth, document.body.scrollHeight]")
        clip = {"x": 0, "y": 0, "width": size[0], "height": height or size[1], "scale": 1}
        options = {"format": "png", "captureBeyondViewport": True, "clip": clip}
        return base64.b64decode(
            self._driver.execute_cdp_cmd("Page.captureScreenshot", options)["data"]
        )

    def printed(self):
        """The page as a PDF."""
        options = {"printBackground": True, "preferCSSPageSize": True}
        return base64.b64decode(self._driver.execute_cdp_cmd("Page.printToPDF", options)["data"])


@contextmanager
def browser():
    """Opens files: yields a function from a path to a :class:`Page`."""
    os.environ["SE_OFFLINE"] = "true"  # the driver is named below; nothing is to be downloaded
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = BROWSER
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"performance": "ALL", "browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(executable_path=DRIVER))

    def open_file(path):
        driver.get_log("performance"), driver.get_log("browser")  # forget the page before
        driver.get(path.resolve().as_uri())
        return Page(driver)

    try:
        yield open_file
    finally:
        driver.quit()
