"""A client of HTTP/1 on one connection: it judges framing, and tells an answer that was cut from one that is whole."""
import socket


class Cut(Exception):
    """The connection ended, or said nothing for too long, before the answer was whole. `status` is None when no head came."""

    def __init__(self, why, status=None, timed_out=False):
        super().__init__(why)
        self.status, self.timed_out = status, timed_out


class Answer:
    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body

    def field(self, name, default=None):
        for key, value in self.fields:
            if key == name:
                return value
        return default


class Client:
    """Opens its connection when it is needed, and again after it was closed."""

    def __init__(self, port, source="127.0.0.1", timeout=30, host="127.0.0.1"):
        self.port, self.source, self.timeout, self.host = port, source, timeout, host
        self.sock, self.rest = None, b""

    def get(self, target, **fields):
        return self.request("GET", target, fields)

    def request(self, method, target, fields=None, body=None):
        """Sends a request and reads its answer; names of fields may have _ for -."""
        fresh = self.sock is None
        head = f"{method} {target} HTTP/1.1\r\n"
        given = {name.replace("_", "-"): value for name, value in (fields or {}).items()}
        if "Host" not in given:
            head += f"Host: {self.host}\r\n"
        if body is not None:
            head += f"Content-Length: {len(body)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in given.items())
        try:
            if fresh:
                self.open()
            self.sock.sendall(head.encode("latin-1") + b"\r\n" + (body or b""))
        except OSError as error:
            # An answer may stand there nevertheless: a server may refuse a body while it comes.
            try:
                return self.read(method)
            except Cut:
                raise Cut(f"{target}: not sent: {error!r}") from error
        try:
            return self.read(method)
        except Cut as cut:
            if not fresh and cut.status is None and not cut.timed_out and method in ("GET", "HEAD"):
                # Closed while it was idle, as a server may.
                return self.request(method, target, fields, body)
            raise Cut(f"{target}: {cut}", cut.status, cut.timed_out) from cut

    def open(self):
        self.sock, self.rest = socket.create_connection(("127.0.0.1", self.port), self.timeout, (self.source, 0)), b""

    def read(self, method="GET"):
        """The next final answer."""
        status = None
        try:
            while True:
                while b"\r\n\r\n" not in self.rest:
                    self.fill()
                head, self.rest = self.rest.split(b"\r\n\r\n", 1)
                lines = head.decode("latin-1").split("\r\n")
                if not lines[0].startswith("HTTP/1.") or not lines[0][9:12].isdigit():
                    raise Cut(f"bytes that are no head: {lines[0][:80]!r}")
                status = int(lines[0][9:12])
                if status >= 200:
                    break
            fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in lines[1:])]
            answer = Answer(status, fields, b"")
            closes = "close" in answer.field("connection", "").lower() or lines[0].startswith("HTTP/1.0")
            length, coding = answer.field("content-length"), answer.field("transfer-encoding")
            if length is not None and coding is not None:
                raise Cut("a length beside chunks", status)
            if method != "HEAD" and status not in (204, 304):
                if coding is not None:
                    answer.body = self.chunks()
                elif length is not None:
                    answer.body = self.take(int(length))
                else:
                    answer.body = self.until_end()
                    closes = True
            if closes:
                self.close()
            return answer
        except OSError as error:
            self.close()
            raise Cut(repr(error), status, isinstance(error, TimeoutError)) from error
        except Cut as cut:
            self.close()
            cut.status = cut.status or status
            raise

    def fill(self):
        if self.sock is None:
            raise Cut("not connected")
        data = self.sock.recv(1 << 16)
        if not data:
            raise Cut(f"ended with {len(self.rest)} bytes unread")
        self.rest += data

    def take(self, count):
        pieces, have = [self.rest[:count]], len(self.rest[:count])
        self.rest = self.rest[count:]
        while have < count:
            data = self.sock.recv(min(1 << 18, count - have))
            if not data:
                raise Cut(f"ended after {have} of {count} bytes")
            pieces.append(data)
            have += len(data)
        return b"".join(pieces)

    def until_end(self):
        pieces, self.rest = [self.rest], b""
        while data := self.sock.recv(1 << 18):
            pieces.append(data)
        return b"".join(pieces)

    def chunks(self):
        pieces = []
        while True:
            while b"\r\n" not in self.rest:
                self.fill()
            line, self.rest = self.rest.split(b"\r\n", 1)
            try:
                size = int(line, 16)
            except ValueError as error:
                raise Cut(f"a chunk's size is {line[:40]!r}") from error
            pieces.append(self.take(size))
            if self.take(2) != b"\r\n":
                raise Cut("a chunk without its end")
            if size == 0:
                return b"".join(pieces)

    def close(self):
        if self.sock:
            self.sock.close()
        self.sock, self.rest = None, b""
