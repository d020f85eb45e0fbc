"""The server under test as a process of its own: its settings, its metrics, and what it holds of the machine."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PROJECT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def built(given=None):
    """The binary that was given, here or as NOSTAT; else a debug build, whose assertions are on."""
    given = given or os.environ.get("NOSTAT")
    if given:
        return os.path.abspath(given)
    subprocess.run(["cargo", "build", "--locked"], cwd=PROJECT, check=True)
    metadata = subprocess.run(["cargo", "metadata", "--no-deps", "--locked", "--format-version", "1"], cwd=PROJECT, check=True,
                              capture_output=True).stdout
    return json.loads(metadata)["target_directory"] + "/debug/nostat"


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def eventually(holds, patience=30, pause=0.1):
    """What `holds` says at last, or its last false word when patience is over."""
    end = time.monotonic() + patience
    while not (answer := holds()) and time.monotonic() < end:
        time.sleep(pause)
    return answer


class Count:
    """Checks that hold and checks that do not."""

    def __init__(self):
        self.passed = self.failed = 0

    def check(self, what, holds, more=""):
        if holds:
            self.passed += 1
        else:
            self.failed += 1
            print(f"FAIL  {what}: {more}", flush=True)
        return bool(holds)

    def end(self):
        print(f"\n{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


class Server:
    """`settings` is the text of the settings with {port} and {folder}; the folder has the spool, the logs and admin.sock."""

    def __init__(self, binary, settings, name="nightly", port=None, folder=None):
        self.binary, self.settings, self.process = binary, settings, None
        self.folder = folder or tempfile.mkdtemp(prefix=f"nostat-{name}-")
        os.chmod(self.folder, 0o755)
        os.makedirs(f"{self.folder}/spool", exist_ok=True)
        self.port = port or free_port()
        self.file = f"{self.folder}/nostat.yaml"
        self.write(settings)

    def write(self, settings):
        """Puts these settings in the place of the file."""
        with open(f"{self.folder}/new.yaml", "w") as f:
            f.write(settings.replace("{port}", str(self.port)).replace("{folder}", self.folder))
        os.rename(f"{self.folder}/new.yaml", self.file)

    def start(self, before=(), env=None, patience=30):
        """Starts it, `before` being the words in front of its command, and waits until it says that it serves."""
        log = open(f"{self.folder}/log", "ab")
        seen = log.tell()
        self.process = subprocess.Popen([*before, self.binary, "serve", "--config", self.file], stdout=log, stderr=log,
                                        stdin=subprocess.DEVNULL, env={**os.environ, "NO_COLOR": "1", **(env or {})},
                                        start_new_session=True)
        log.close()
        if not eventually(lambda: " serving " in self.log()[seen:] or self.process.poll() is not None, patience) or self.process.poll() is not None:
            raise SystemExit(f"the server did not start:\n{self.log()[-3000:]}")
        return self

    @property
    def pid(self):
        return self.process.pid

    def log(self):
        with open(f"{self.folder}/log", errors="replace") as f:
            return f.read()

    def complaints(self):
        """Lines of the log that must never be there."""
        return [line for line in self.log().splitlines() if "panicked" in line or "overflow" in line or "RefCell" in line]

    def signal(self, number):
        self.process.send_signal(number)

    def reload(self):
        self.signal(signal.SIGHUP)

    def runs(self):
        return self.process.poll() is None

    def stop(self, patience=45):
        """SIGTERM; the exit status, or None when it had to be killed."""
        if self.process is None:
            return 0
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            return None

    def clean(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    # -- what it tells

    def admin(self, target, method="GET", timeout=10):
        """Status and text of an admin endpoint."""
        connection = http.client.HTTPConnection("localhost", timeout=timeout)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.settimeout(timeout)
        try:
            connection.sock.connect(f"{self.folder}/admin.sock")
            connection.request(method, target)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def metrics(self):
        """Every sample by its name and labels."""
        samples = {}
        for line in self.admin("/metrics")[1].splitlines():
            if line and not line.startswith("#"):
                name, _, value = line.rpartition(" ")
                samples[name] = float(value)
        return samples

    def metric(self, name):
        """The sum of a family's samples."""
        return sum(value for key, value in self.metrics().items() if key.split("{")[0] == name)

    # -- what it holds of the machine

    def descriptors(self):
        targets = {}
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                targets[fd] = os.readlink(f"/proc/{self.pid}/fd/{fd}")
            except OSError:
                pass
        return targets

    def deleted(self):
        """Files of the disk that are open and have no name any more."""
        return [target for target in self.descriptors().values() if target.startswith("/") and target.endswith("(deleted)") and "memfd" not in target]

    def watches(self):
        count = 0
        for fd, target in self.descriptors().items():
            if "inotify" in target:
                with open(f"/proc/{self.pid}/fdinfo/{fd}") as f:
                    count += sum(line.startswith("inotify wd:") for line in f)
        return count

    def status(self, name):
        """A figure of /proc/PID/status."""
        with open(f"/proc/{self.pid}/status") as f:
            return int(re.search(rf"^{name}:\s+(\d+)", f.read(), re.M).group(1))

    def rss(self):
        return self.status("VmRSS")
