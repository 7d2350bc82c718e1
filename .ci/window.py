"""A real desktop under Xvfb with software OpenGL, the real program in it, and a web to crawl.

For the scripts that try the window as a volunteer would. Everything that is started here ends
with the script, however that ends.
"""

import atexit
import http.server
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

PROGRAM = pathlib.Path(sys.argv[1]).resolve()
OUTPUT = pathlib.Path(sys.argv[2]).resolve()
PATIENCE = 60
SCREENS = ["overview", "activity", "queues", "network", "crawl", "archive", "limits", "log"]
# Nobody else's network is touched, and the web of this test may be visited.
ALONE = ["--allow-private", "--set", "overlay.mdns=false"]
ALONE += ["--set", 'overlay.listen=["/ip4/127.0.0.1/tcp/0"]']


STARTED = []


def begin(command, **options):
    """Starts a process that ends with this script, however that ends."""
    STARTED.append(subprocess.Popen(command, **options))
    return STARTED[-1]


@atexit.register
def end_all():
    for process in reversed(STARTED):
        if process.poll() is None:
            process.kill()
            process.wait()


def comes_true(is_so, patience):
    """Waits for a condition, and gives what it gave."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = is_so()
        if found:
            return found
        time.sleep(0.1)
    return None


def wait_for(what, is_so, patience=PATIENCE):
    """The same for what must come true."""
    found = comes_true(is_so, patience)
    assert found, f"waited in vain for {what}"
    return found


class Display:
    """A screen of our own."""

    def __init__(self, width=1400, height=900):
        read, write = os.pipe()
        size = f"{width}x{height}x24"
        self.server = begin(
            ["Xvfb", "-displayfd", str(write), "-screen", "0", size, "-nolisten", "tcp", "-noreset"],
            pass_fds=[write],
            stderr=subprocess.DEVNULL,
        )
        os.close(write)
        with os.fdopen(read) as pipe:
            self.name = ":" + pipe.readline().strip()

    def close(self):
        self.server.terminate()
        self.server.wait()


class Desktop:
    """A desktop of our own: windows with frames, a panel with a tray, notifications."""

    def __init__(self, display):
        bus = ["dbus-daemon", "--session", "--nofork", "--print-address"]
        quiet = dict(stderr=subprocess.DEVNULL)
        self.processes = [begin(bus, stdout=subprocess.PIPE, text=True, **quiet)]
        self.home = tempfile.mkdtemp(prefix="peercrawl-desktop-")
        self.environment = dict(
            os.environ,
            DISPLAY=display.name,
            WAYLAND_DISPLAY="",
            HOME=self.home,
            DBUS_SESSION_BUS_ADDRESS=self.processes[0].stdout.readline().strip(),
        )
        quiet.update(stdout=subprocess.DEVNULL, env=self.environment)
        for program in ("xfwm4", "xfce4-panel", "dunst"):
            self.processes.append(begin([program], **quiet))
        wait_for("a tray", lambda: "StatusNotifierWatcher" in self.ask(
            "org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus.ListNames"))

    def ask(self, service, path, method, *arguments):
        """Calls a method over D-Bus, and gives what it printed."""
        command = ["gdbus", "call", "--session", "--dest", service, "--object-path", path]
        command += ["--method", method, *arguments]
        done = subprocess.run(command, env=self.environment, capture_output=True, text=True)
        return done.stdout

    def trays(self):
        """The services behind the icons in the tray."""
        watcher = "org.kde.StatusNotifierWatcher"
        items = self.ask(watcher, "/StatusNotifierWatcher", "org.freedesktop.DBus.Properties.Get",
                         watcher, "RegisteredStatusNotifierItems")
        return re.findall(r"org\.kde\.StatusNotifierItem-[\d-]+", items)

    def notices(self):
        """What was shown outside of windows."""
        history = ["dunstctl", "history"]
        done = subprocess.run(history, env=self.environment, capture_output=True, text=True)
        return done.stdout

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
            process.wait()
        shutil.rmtree(self.home, ignore_errors=True)


class App:
    """The program, with a home of its own."""

    def __init__(self, display, *arguments, config="", environment=os.environ, still=None):
        self.display = display
        # The part of the window that stands still once it is there; all of it, if none.
        self.still = still
        self.home = tempfile.mkdtemp(prefix="peercrawl-home-")
        self.config_file = pathlib.Path(self.home, "config/peercrawl/config.toml")
        if config:
            self.config_file.parent.mkdir(parents=True)
            self.config_file.write_text(config)
        self.log = open(os.path.join(self.home, "stderr"), "a+")
        self.environment = dict(
            environment,
            DISPLAY=display.name,
            WAYLAND_DISPLAY="",
            HOME=self.home,
            XDG_CONFIG_HOME=f"{self.home}/config",
            XDG_DATA_HOME=f"{self.home}/data",
            LIBGL_ALWAYS_SOFTWARE="1",
            RUST_BACKTRACE="0",
        )
        self.process = self.start(*arguments)
        self.meet()

    def meet(self):
        """Waits for its window."""
        self.window = wait_for("a window", self.find)
        self.run("windowfocus", "--sync", self.window)
        wait_for("something in the window", self.is_drawn)
        # What is typed before its next frames would be lost.
        wait_for("a window that stands still", self.stands_still)

    def start(self, *arguments):
        return begin(
            [PROGRAM, *arguments], env=self.environment, stdout=self.log, stderr=self.log
        )

    def run(self, *arguments):
        return subprocess.run(
            ["xdotool", *arguments], env=self.environment, capture_output=True, text=True
        ).stdout

    def find(self):
        if self.process.poll() is not None:
            self.log.seek(0)
            raise AssertionError(f"it ended: {self.log.read()}")
        return self.run("search", "--onlyvisible", "--name", "^PeerCrawl$").strip()

    def is_drawn(self):
        """Whether there is more to see than one colour."""
        return colours_of(self.shoot(pathlib.Path(self.home, "opened.png"))) > 16

    def stands_still(self):
        """Whether two pictures in a row are alike, but for a caret or a number."""
        names = "one.png", "next.png"
        pair = [self.shoot(pathlib.Path(self.home, name), self.still) for name in names]
        return differ(*pair) < 500

    def press(self, *keys):
        self.run("key", "--delay", "60", *keys)

    def type(self, text):
        self.run("type", "--delay", "20", text)

    def begin_with(self, address):
        """Answers the first page, and waits until the window shows the crawl instead."""
        self.type(address)
        page = self.shoot(pathlib.Path(self.home, "first-page.png"))
        self.press("Return")
        now = pathlib.Path(self.home, "now.png")
        wait_for("the crawl in the window", lambda: differ(page, self.shoot(now)) > 10_000)

    def shoot(self, path, part=None):
        """Takes a picture of the window, or of a part of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(
            ["import", "-silent", "-window", self.window, str(path)],
            env=self.environment,
            check=True,
            # It waits for ever for a window that has gone.
            timeout=PATIENCE,
        )
        if part:
            subprocess.run(["mogrify", "-crop", part, "+repage", str(path)], check=True)
        return path

    def config(self):
        return self.config_file.read_text() if self.config_file.exists() else ""

    def processor(self, seconds):
        """Percent of a core over the next seconds: all of it, its window, its renderer."""

        folder = pathlib.Path(f"/proc/{self.process.pid}")

        def used(stat, by=""):
            try:
                name, fields = stat.read_text().split("(", 1)[1].rsplit(")", 1)
            except OSError:
                return 0  # A thread that has ended.
            return sum(int(field) for field in fields.split()[11:13]) * name.startswith(by)

        def look():
            window = used(folder / f"task/{self.process.pid}/stat")
            threads = folder.glob("task/*/stat")
            return used(folder / "stat"), window, sum(used(one, "llvmpipe") for one in threads)

        before, begun = look(), time.monotonic()
        time.sleep(seconds)
        ticks = (time.monotonic() - begun) * os.sysconf("SC_CLK_TCK")
        return [100 * (now - then) / ticks for now, then in zip(look(), before)]

    def close(self):
        """Closes it as the desktop would at the end of a session."""
        self.process.terminate()
        status = self.process.wait(timeout=30)
        self.log.seek(0)
        said = self.log.read()
        assert status == 0 and "panicked" not in said, f"it ended with {status}: {said}"

    def forget(self):
        shutil.rmtree(self.home, ignore_errors=True)


class Web:
    """A web without end, or of pages with these titles alone, by their paths.

    It counts what it is asked for and what it sends. Of several hosts, each takes so many
    seconds for an answer.
    """

    def __init__(self, titles=None, hosts=1, seconds=0):
        web = self
        self.requests = 0
        self.bytes = 0
        self.under_way = 0
        self.most_at_once = 0
        self.lock = threading.Condition()
        self.latest = None

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self):
                super().setup()
                write = self.wfile.write

                def count(data):
                    write(data)
                    with web.lock:
                        web.bytes += len(data)

                # Headers included.
                self.wfile.write = count

            def do_GET(self):
                with web.lock:
                    web.under_way += 1
                    web.most_at_once = max(web.most_at_once, web.under_way)
                time.sleep(seconds)
                with web.lock:
                    web.under_way -= 1
                    web.latest = (time.monotonic(), web.bytes)
                    web.lock.notify_all()
                if self.path == "/robots.txt":
                    body = b"User-agent: *\nDisallow: /no\n"
                elif titles:
                    links = "".join(f"<a href={path}>x</a>" for path in titles)
                    body = f"<title>{titles.get(self.path, '')}</title>{self.path}{links}".encode()
                else:
                    number = int(self.path.strip("/") or 0)
                    links = "".join(f"<a href=/{number * 4 + k}>x</a>" for k in range(1, 5))
                    title = f"<title>Seite {number} · страница · 页</title>"
                    # Two hosts must not look like mirrors of each other.
                    title += self.headers["Host"]
                    body = (title + links + f"{number} " * 3000).encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/html; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                for start in range(0, len(body), 1024):
                    self.wfile.write(body[start : start + 1024])
                with web.lock:
                    web.requests += 1

            def log_message(self, *_):
                pass

        self.urls = []
        for number in range(1, hosts + 1):
            server = http.server.ThreadingHTTPServer((f"127.0.0.{number}", 0), Handler)
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, daemon=True).start()
            self.urls.append(f"http://127.0.0.{number}:{server.server_port}/")
        self.url = self.urls[0]

    def next_request(self):
        """When the next request comes, and the bytes that were sent before it.

        On its one connection all of them have been read by then: none waits in a socket,
        where it would not have passed any limit yet.
        """
        with self.lock:
            last = self.latest
            assert self.lock.wait_for(lambda: self.latest != last, PATIENCE), "no request"
            return self.latest

    def rate(self, seconds):
        """KiB a second over the next seconds, and the rest of a page."""
        begun, before = self.next_request()
        time.sleep(seconds)
        ended, after = self.next_request()
        return (after - before) / 1024 / (ended - begun)


def differ(one, other):
    """How many pixels differ."""
    compared = subprocess.run(
        ["compare", "-metric", "AE", str(one), str(other), "null:"],
        capture_output=True,
        text=True,
    )
    return float(compared.stderr.split()[0])


def ask_of(picture, what):
    identify = ["identify", "-format", what, str(picture)]
    return subprocess.run(identify, capture_output=True, text=True, check=True).stdout


def size_of(picture):
    """Width and height in pixels."""
    return ask_of(picture, "%wx%h")


def colours_of(picture):
    """How many there are."""
    return int(ask_of(picture, "%k"))
