"""The page of a recording, the plot, and `python -m tensorx memory`."""

import html
import json
import os
import re
import shutil
import subprocess
import sys

import pytest

import tensorx as tx

CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome") or shutil.which("chromium-browser")

LEAKY = """\
import tensorx as tx

w = tx.ones((64, 64)).requires_grad_()
losses = []


def step(i):
    x = tx.full((16, 64), float(i))
    loss = ((x @ w) ** 2).mean()
    loss.backward(retain_graph=True)
    losses.append(loss)


for i in range(8):
    step(i)
print("steps done")
"""


def recording():
    x = tx.ones(1 << 14)
    with tx.deferred(True), tx.memory.record() as r:
        keep = x.alias()
        x = x * 2.0 + 1.0  # <b>&"line"
        tx.eval(x)
        parts = [tx.zeros(1000 * i + 1) for i in range(1, 9)]
        del parts[3], keep
        y = tx.ones(100)
        del y
    assert x.size
    return r


def data_in(text):
    return json.loads(re.search(r"^const D = (.*);$", text, re.M)[1])


def test_the_page_is_one_file_with_all_data(tmp_path):
    r = recording()
    path = tmp_path / "page.html"
    r.save_html(path, "A <title> & more", notes='a "@DATA@" <note>')
    text = path.read_text(encoding="utf-8")
    assert '<pre id="notes">a &quot;@DATA@&quot; &lt;note&gt;</pre>' in text
    assert "<title>A &lt;title&gt; &amp; more</title>" in text
    assert not re.search(r"""(src|href)\s*=|https?://|@import|url\(""", text)
    assert text.count("<script>") == text.count("</script>") == 1
    data = data_in(text)
    assert len(data["blocks"]) == r.allocations and sum(b[2] for b in data["blocks"]) == r.bytes == data["bytes"]
    assert data["peak"] == r.peak()[0] == max(total for _, _, total in data["totals"])
    assert any("'keep'" in reason for reason in data["reasons"])
    assert any(line["source"] == 'x = x * 2.0 + 1.0  # <b>&"line"' for line in data["lines"])
    for first, last, *_ in data["blocks"]:
        assert 0 <= first < last <= data["events"]


def test_small_blocks_are_one_band(tmp_path, monkeypatch):
    from tensorx import page

    monkeypatch.setattr(page, "LARGEST", 3)
    data = page.data_of(recording())
    assert len(data["blocks"]) == 3 and max(n for _, n in data["rest"]) > 0


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium")
def test_the_page_in_a_browser(tmp_path):
    sync = pytest.importorskip("playwright.sync_api")
    path = tmp_path / "page.html"
    recording().save_html(path)
    with sync.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(offline=True, viewport={"width": 1100, "height": 900}).new_page()
        errors = []
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto(path.as_uri())
        assert page.evaluate("[tensorxPage.view.x0, tensorxPage.view.x1 === tensorxPage.data.events]") == [0, True]
        at = page.evaluate(
            """() => { const d = tensorxPage.data, i = d.blocks.findIndex(b => d.reasons[b[4]].includes("keep")), b = d.blocks[i],
               s = tensorxPage.steps[i][0]; return tensorxPage.pixel(b[0] + 0.5, s[1] + b[2] / 2); }"""
        )
        box = page.locator("#timeline").bounding_box()
        page.mouse.click(box["x"] + at[0], box["y"] + at[1])
        shown = page.inner_text("#detail")
        assert "x = x * 2.0 + 1.0" in shown and re.search(r"test_page\.py:\d+ in recording", shown) and "shared by: local 'keep'" in shown
        page.mouse.move(box["x"] + 300, box["y"] + 50)
        page.mouse.wheel(0, -500)
        page.wait_for_function("tensorxPage.view.x1 - tensorxPage.view.x0 < tensorxPage.data.events / 2")
        page.click("#reset")
        assert page.evaluate("tensorxPage.view.x1 - tensorxPage.view.x0 === tensorxPage.data.events")
        page.click("#lines tr")
        assert page.evaluate("tensorxPage.view.line") >= 0 and not errors
        browser.close()


def test_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    path = tmp_path / "plot.png"
    ax = recording().plot(path)
    assert path.read_bytes()[:4] == b"\x89PNG" and "peak" in ax.get_title()
    assert any("test_page.py" in t.get_text() for t in ax.get_legend().get_texts())


def run_memory(tmp_path, source, *arguments, name="leaky.py"):
    script = tmp_path / name
    script.write_text(source)
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(os.path.dirname(tx.__file__)), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", "tensorx", "memory", "-o", "out", name, *arguments], capture_output=True, text=True, cwd=tmp_path, timeout=60, env=env
    )


def test_the_command_finds_the_leak(tmp_path):
    done = run_memory(tmp_path, LEAKY)
    assert done.returncode == 0, done.stderr
    assert "steps done" in done.stdout
    assert re.search(r"leaky\.py:9 in step: matmul", done.stdout)
    assert re.search(r"held by global 'losses' \(.*leaky\.py:4\), a list of 8", done.stdout)
    assert re.search(r"losses\[\d\] -> its graph", done.stdout) and re.search(r"8 x kept for the gradient of matmul at .*leaky\.py:9", done.stdout)
    page = (tmp_path / "out" / "leaky.memory.html").read_text(encoding="utf-8")
    assert data_in(page)["allocations"] > 8
    notes = html.unescape(re.search(r'<pre id="notes">(.*?)</pre>', page, re.S)[1])
    assert notes.startswith("at the end of the script, alive now") and "held by global 'losses'" in notes and notes in done.stdout
    assert "losses" in (tmp_path / "out" / "leaky.memory.txt").read_text()


def test_a_script_that_runs_out_of_memory_says_what_was_alive(tmp_path):
    source = """\
import sys
import tensorx as tx

cache = []


def layer(x):
    big = x * 2.0
    tx.eval(big)
    cache.append(big)
    return big + 1.0


def main():
    y = tx.ones(1 << 14)
    for _ in range(50):
        layer(y)


if sys.argv[1:]:
    kept = tx.ones(1 << 14)
    raise KeyboardInterrupt
tx.memory.set_limit(10 << 16)
main()
"""
    done = run_memory(tmp_path, source)
    assert done.returncode == 1 and "OutOfMemoryError" in done.stderr
    assert "when the script was ended by an error, alive now and not before: 640.0 KiB in 10 storages" in done.stdout
    assert re.search(r"held by global 'cache' \(.*leaky\.py:4\), a list of 9\n.*\n    \d x made by multiply at .*leaky\.py:8", done.stdout)
    assert "64.0 KiB in 1 storage: held by local 'y' of main (line 14), a tensor of shape (16384,)" in done.stdout
    done = run_memory(tmp_path, source, "stop")
    assert done.returncode == 130 and re.search(r"ended by an error, alive .*\n64\.0 KiB in 1 storage: held by global 'kept'", done.stdout)


def test_the_command_passes_on_arguments_errors_and_status(tmp_path):
    done = run_memory(tmp_path, "import sys, tensorx as tx\nx = tx.ones(5)\nprint(sys.argv[1:], __name__)\nsys.exit(3)\n", "--flag", "b")
    assert done.returncode == 3 and "['--flag', 'b'] __main__" in done.stdout and "1 allocations, 20 B" in done.stdout
    done = run_memory(tmp_path, "import tensorx as tx\nx = tx.ones(5)\n\ndef f():\n    raise KeyError('k')\nf()\n")
    assert done.returncode == 1 and "KeyError: 'k'" in done.stderr and "profile_script" not in done.stderr and "runpy" not in done.stderr
    assert "1 allocations" in done.stdout
    done = run_memory(tmp_path, "", name="a.py")
    assert done.returncode == 0 and "0 allocations" in done.stdout
    missing = subprocess.run([sys.executable, "-m", "tensorx", "memory", "none.py"], capture_output=True, text=True, timeout=60)
    assert missing.returncode == 2 and "no file 'none.py'" in missing.stderr
