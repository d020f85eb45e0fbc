"""Clients that mean harm, or do not care: each attack is bounded, and says what it got that it must not get."""
import random
import signal
import socket
import struct
import time

SECRETS = (b"root:x:0:0", b"DB_PASSWORD", b"DB_NAME")
# Each is answered 400 at the most, and what stands behind it is never taken for a request.
SMUGGLED = b"GET /wp-content/uploads/edge/one.txt HTTP/1.1\r\nHost: a\r\n\r\n"
SMUGGLING = [
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nContent-Length: 50\r\n\r\n" + SMUGGLED,
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    b"POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n" + SMUGGLED,
    b"GET / HTTP/1.1\nHost: a\n\n" + SMUGGLED,
    b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n" + SMUGGLED,
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n" + SMUGGLED,
    b"GET /\x00 HTTP/1.1\r\nHost: a\r\n\r\n" + SMUGGLED,
]
TRAVERSALS = ["/../../../etc/passwd", "/wp-content/uploads/..%2f..%2f..%2fwp-config.php", "/wp-content/uploads/%2e%2e/%2e%2e/%2e%2e/wp-config.php",
              "/wp-content/uploads/edge/link-outside.txt", "/wp-config.php%00.css", "/wp-config.php.bak", "/.git/config", "/.env", "//etc/passwd",
              "/wp-content/uploads/..\\..\\wp-config.php", "/wp-config.txt/..%c0%af../wp-config.php", "/wp-content/uploads/edge/evil.php",
              "/wp-content/uploads/edge/.hidden.txt", "/wp-content/debug.log"]
SCANNED = ["/phpmyadmin/index.php", "/wp-content/plugins/{0}/readme.txt", "/backup-{0}.sql", "/wp-content/uploads/{0}.php", "/admin-{0}.aspx",
           "/wp-includes/{0}.css", "/vendor/{0}/phpunit.xml", "/wp-content/themes/{0}/style.css"]


class Attacker:
    def __init__(self, number, world):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.world, self.rnd, self.source = world, random.Random(world.seed * 77 + number), f"127.0.2.{number + 1}"
        self.counts, self.wrong, self.held = {}, [], []

    def run(self):
        attacks = [self.garbage, self.smuggle, self.traverse, self.scan, self.huge_head, self.reset, self.slow_head, self.slow_body, self.slow_reader,
                   self.silence, self.pipeline]
        while not self.world.stop.is_set():
            attack = self.rnd.choice(attacks)
            name = attack.__name__.replace("_", " ")
            self.counts[name] = self.counts.get(name, 0) + 1
            try:
                attack()
            except OSError:
                # Refused and reset is as good an answer as any.
                pass
            self.hold()
            time.sleep(self.rnd.uniform(0, 0.2))
        for _, held, _ in self.held:
            held.close()
        self.world.reports.put((self.counts, self.wrong, {}, {}))

    # -- means

    def open(self, room=None):
        s = socket.socket()
        if room:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        s.settimeout(10)
        s.bind((self.source, 0))
        s.connect(("127.0.0.1", self.world.port))
        return s

    def exchange(self, data):
        """All that comes back until the server closes, or two seconds of silence."""
        with self.open() as s:
            s.sendall(data)
            s.settimeout(2)
            answer = b""
            try:
                while len(answer) < 1 << 20 and (piece := s.recv(1 << 16)):
                    answer += piece
            except OSError:
                pass
        for secret in SECRETS:
            if secret in answer:
                self.wrong.append(f"{data[:80]!r} tells {secret!r}")
        if answer.startswith((b"HTTP/1.1 500", b"HTTP/1.1 501")):
            self.wrong.append(f"{data[:80]!r}: {answer[:40]!r}")
        return answer

    def hold(self):
        """Goes on with what is slow, a byte at a time, and forgets what is long done."""
        kept = []
        for until, held, piece in self.held:
            if time.monotonic() > until:
                held.close()
                continue
            try:
                held.setblocking(False)
                if piece is None:
                    held.recv(100)
                elif piece:
                    held.send(piece)
            except BlockingIOError:
                pass
            except OSError:
                held.close()
                continue
            kept.append((until, held, piece))
        while len(kept) > 150:
            kept.pop(0)[1].close()
        self.held = kept

    def keep(self, held, piece, seconds):
        self.held.append((time.monotonic() + seconds, held, piece))

    # -- attacks

    def garbage(self):
        data = self.rnd.choice([self.rnd.randbytes(self.rnd.choice([1, 100, 5_000])), b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + self.rnd.randbytes(500),
                                b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"GET\r\n\r\n", b"\r\n" * 1000, b"SSH-2.0-x\r\n"])
        answer = self.exchange(data)
        if answer.startswith(b"HTTP/1.1 2"):
            self.wrong.append(f"garbage {data[:40]!r}: {answer[:60]!r}")

    def smuggle(self):
        data = self.rnd.choice(SMUGGLING)
        answer = self.exchange(data)
        if answer.count(b"HTTP/1.1 ") > 1 or answer and not answer.startswith(b"HTTP/1.1 4") and not answer.startswith(b"HTTP/1.1 501"):
            self.wrong.append(f"smuggled {data[:80]!r}: {answer[:80]!r}")

    def traverse(self):
        self.exchange(f"GET {self.rnd.choice(TRAVERSALS)} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())

    def scan(self):
        for _ in range(30):
            target, began = self.rnd.choice(SCANNED).format(self.rnd.randrange(1 << 40)), time.monotonic()
            answer = self.exchange(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode())
            # What is no file of WordPress' is asked of PHP, which may fail just now.
            is_excused = began <= self.world.php_fails_until.value and answer[9:12] in (b"502", b"503", b"504")
            if answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 5")) and not is_excused:
                self.wrong.append(f"scan {target}: {answer[:40]!r}")

    def huge_head(self):
        data = b"GET / HTTP/1.1\r\nHost: a\r\n" + self.rnd.choice([b"X: " + b"a" * 100_000, b"\r\n".join(b"X%d: a" % n for n in range(5000))]) + b"\r\n\r\n"
        answer = self.exchange(data)
        if answer and not answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")):
            self.wrong.append(f"a huge head: {answer[:40]!r}")

    def reset(self):
        """Leaves in the midst, of a file, a page, or an upload, without a word."""
        s = self.open()
        s.sendall(self.rnd.choice([b"GET /wp-content/uploads/edge/big.bin HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /wpref/gen.php?n=5000000 HTTP/1.1\r\nHost: a\r\n\r\n",
                                   b"POST /wpref/echo.php HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n" + b"a" * 100_000,
                                   b"POST /wpref/echo.php HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\naaaaa\r\n", b"GET / HTTP/1.1\r\nHost: a\r\n\r\n"]))
        if self.rnd.random() < 0.7:
            s.settimeout(0.3)
            try:
                s.recv(1000)
            except OSError:
                pass
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()

    def slow_head(self):
        for _ in range(5):
            s = self.open()
            s.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
            self.keep(s, b"a", 60)

    def slow_body(self):
        for _ in range(5):
            s = self.open()
            s.sendall(b"POST /wpref/echo.php HTTP/1.1\r\nHost: a\r\nContent-Length: 900000\r\n\r\nabc")
            self.keep(s, self.rnd.choice([b"a", b""]), 60)

    def slow_reader(self):
        s = self.open(room=4096)
        s.sendall(self.rnd.choice([b"GET /wp-content/uploads/edge/big.bin HTTP/1.1\r\nHost: a\r\n\r\n", b"GET /wpref/gen.php?n=8000000 HTTP/1.1\r\nHost: a\r\n\r\n"]))
        self.keep(s, self.rnd.choice([None, b""]), 60)

    def silence(self):
        for _ in range(20):
            self.keep(self.open(), b"", 20)

    def pipeline(self):
        """Many requests at once; each gets its answer, in order."""
        answer = self.exchange(b"GET /wp-content/uploads/edge/one.txt HTTP/1.1\r\nHost: a\r\n\r\n" * 49
                               + b"GET /wp-content/uploads/edge/one.txt HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        if answer.count(b"HTTP/1.1 200 OK\r\n") != 50 or not answer.endswith(b"\r\n\r\nx"):
            self.wrong.append(f"of 50 requests at once {answer.count(b'HTTP/1.1 200 OK')} were answered")
