"""What visitors and authors of a real WordPress do, each a process of its own; what they get is compared with what must be so."""
import base64
import gzip
import hashlib
import json
import os
import random
import re
import signal
import time
import urllib.parse
import zlib

from client import Client, Cut

# Folders whose files nobody changes.
STILL = ["wp-includes/css", "wp-includes/js", "wp-includes/images", "wp-includes/fonts", "wp-content/themes", "wp-content/uploads/2024",
         "wp-admin/css", "wp-admin/js", "wp-admin/images"]
NEVER_SENT = (".php", ".inc", ".log", ".md", ".po", ".mo", ".map", ".scss", ".lock", ".dist", "package.json", "package-lock.json", "composer.json")
PAGES = ["/", "/page/2/", "/about/", "/about/team/", "/gallery/", "/category/news/", "/author/admin/", "/2024/03/", "/?s=reference", "/nothing/here/"]
MOVING = 24                                  # files that are replaced while they are read
FOLDER = "wp-content/uploads/hold"
PATIENCE = 2.0                               # seconds: a file that takes longer is a stall
GRACE = 4.0                                  # seconds after a fault of PHP's until nobody may see it any more


# -- bodies that tell by themselves whether they are whole

def moving_body(name, version, length):
    filler = (b"%d." % version * (length // 2 + 1))[:length]
    return b"%s %d %d %d\n" % (name.encode(), version, length, zlib.crc32(filler)) + filler


def moving_version(name, data):
    """The version, or why this is none."""
    head, _, filler = data.partition(b"\n")
    words = head.split(b" ")
    if len(words) != 4 or words[0] != name.encode():
        return f"begins {data[:60]!r}"
    if len(filler) != int(words[2]) or zlib.crc32(filler) != int(words[3]):
        return f"torn, {len(filler)} of {int(words[2])} bytes of version {int(words[1])}"
    return int(words[1])


def still_files(site):
    """Paths of files that stay as they are, with their bytes' length and digest."""
    found = []
    for folder in STILL:
        for place, folders, names in os.walk(f"{site}/{folder}"):
            folders.sort()
            for name in sorted(names):
                path = f"{place}/{name}"
                if not name.startswith(".") and not name.lower().endswith(NEVER_SENT) and os.path.isfile(path):
                    with open(path, "rb") as f:
                        data = f.read()
                    found.append((urllib.parse.quote(path[len(site):]), len(data), hashlib.sha1(data).digest()))
    return found


class Visitor:
    """One process' share: it counts by kind, notes what is wrong, and how long files took by minute."""

    def __init__(self, number, world):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        self.world, self.rnd = world, random.Random(world.seed * 1000 + number)
        # Addresses of their own, none of a trusted proxy.
        self.client = Client(world.port, source=f"127.0.1.{number + 1}", host=world.host)
        self.counts, self.wrong, self.latency, self.statuses = {}, [], {}, {}
        self.versions, self.tags = {}, {}

    # -- one request

    def ask(self, kind, method, target, fields=None, body=None, host=None):
        """An answer; None where PHP may fail just now, and where it is wrong, which is noted."""
        fields = dict(fields or {})
        if host:
            fields["Host"] = host
        began = time.monotonic()
        self.counts[kind] = self.counts.get(kind, 0) + 1
        try:
            answer = self.client.request(method, target, fields, body)
        except Cut as cut:
            if kind.startswith("file") or not self.is_excused(began):
                self.complain(kind, f"{method} {target}: {cut} after {time.monotonic() - began:.1f} s")
            self.tally(kind, "cut")
            return None
        took = time.monotonic() - began
        self.tally(kind, answer.status)
        if kind.startswith("file"):
            self.latency.setdefault(int((began - self.world.began) // 60), []).append(took)
            if answer.status >= 500:
                self.complain(kind, f"{method} {target}: {answer.status}")
                return None
            if took > PATIENCE:
                self.complain(kind, f"{method} {target}: a stall of {took:.1f} s")
        elif answer.status >= 500:
            if answer.status not in (502, 503, 504) or not self.is_excused(began):
                self.complain(kind, f"{method} {target}: {answer.status} after {took:.1f} s")
            return None
        return answer

    def is_excused(self, began):
        return began <= self.world.php_fails_until.value

    def tally(self, kind, status):
        group = self.statuses.setdefault("file" if kind.startswith("file") else "php", {})
        group[status] = group.get(status, 0) + 1

    def complain(self, kind, what):
        self.wrong.append(f"{kind}: {what}")

    def expect(self, kind, holds, what):
        if not holds:
            self.complain(kind, what)

    # -- files

    def still(self):
        target, length, digest = self.rnd.choice(self.world.files)
        how = self.rnd.random()
        kind, is_right = "file", lambda data: len(data) == length and hashlib.sha1(data).digest() == digest
        if how < 0.2 and target in self.tags:
            answer = self.ask("file 304", "GET", target, {"If-None-Match": self.tags[target]})
            self.expect("file 304", answer is None or answer.status == 304 and not answer.body, f"{target}: {answer and answer.status}")
        elif how < 0.3:
            answer = self.ask("file head", "HEAD", target)
            self.expect("file head", answer is None or answer.status == 200 and answer.field("content-length") == str(length),
                        f"{target}: {answer and (answer.status, answer.fields)}")
        elif how < 0.45 and length > 10:
            first = self.rnd.randrange(length)
            last = min(length - 1, first + self.rnd.choice([0, 100, 70_000]))
            answer = self.ask("file range", "GET", target, {"Range": f"bytes={first}-{last}"})
            with open(self.world.site + urllib.parse.unquote(target), "rb") as f:
                f.seek(first)
                expected = f.read(last - first + 1)
            self.expect("file range", answer is None or answer.status == 206 and answer.body == expected, f"{target} {first}-{last}: {answer and answer.status}")
        elif how < 0.6:
            answer = self.ask("file gzip", "GET", target, {"Accept-Encoding": "gzip"})
            if answer:
                data = gzip.decompress(answer.body) if answer.field("content-encoding") == "gzip" else answer.body
                self.expect("file gzip", answer.status == 200 and is_right(data), f"{target}: {answer.status}, {len(data)} bytes")
        else:
            answer = self.ask(kind, "GET", target)
            if answer:
                self.expect(kind, answer.status == 200 and is_right(answer.body), f"{target}: {answer.status}, {len(answer.body)} of {length} bytes")
                self.expect(kind, answer.field("x-rules") in ("one", "two"), f"{target}: X-Rules {answer.field('x-rules')}")
                tag = answer.field("etag", "W/")
                if not tag.startswith("W/"):
                    self.tags[target] = tag

    def moving(self):
        name = f"f{self.rnd.randrange(MOVING)}.txt"
        answer = self.ask("file moving", "GET", f"/{FOLDER}/{name}")
        if answer is None:
            return
        self.expect("file moving", answer.status in (200, 404), f"{name}: {answer.status}")
        if answer.status == 200:
            version = moving_version(name, answer.body)
            if isinstance(version, str):
                self.complain("file moving", f"{name}: {version}")
            else:
                self.expect("file moving", version >= self.versions.get(name, 0), f"{name}: {version} after {self.versions.get(name)}")
                self.versions[name] = version

    def big(self):
        first = self.rnd.randrange(8 << 20)
        answer = self.ask("file large", "GET", "/wp-content/uploads/edge/big.bin", {"Range": f"bytes={first}-"} if self.rnd.random() < 0.5 else {})
        if answer:
            whole = self.world.big if answer.status == 200 else self.world.big[first:]
            self.expect("file large", answer.status in (200, 206) and answer.body == whole, f"{answer.status}, {len(answer.body)} of {len(whole)} bytes")

    # -- pages

    def page(self):
        target = self.rnd.choice(PAGES + self.world.posts)
        host = self.rnd.choice([None, "cached.test"])
        answer = self.ask("page of the cache" if host else "page", "GET", target, {"Accept": "text/html"}, host=host)
        if answer:
            expected = 404 if target.startswith("/nothing") else 200
            self.expect("page", answer.status == expected and answer.body.rstrip().endswith(b"</html>"),
                        f"{target}: {answer.status}, {len(answer.body)} bytes that end {answer.body[-30:]!r}")

    def feed(self):
        answer = self.ask("feed", "GET", self.rnd.choice(["/feed/", "/comments/feed/", "/category/news/feed/"]))
        if answer:
            self.expect("feed", answer.status == 200 and answer.body.rstrip().endswith(b"</rss>"), f"{answer.status}, ends {answer.body[-30:]!r}")

    def rest(self):
        answer = self.ask("wp-json", "GET", self.rnd.choice(["/wp-json/wp/v2/posts?per_page=5", "/wp-json/wp/v2/pages", "/wp-json/wp/v2/categories"]))
        if answer:
            try:
                self.expect("wp-json", answer.status == 200 and isinstance(json.loads(answer.body), list), f"{answer.status}")
            except ValueError as error:
                self.complain("wp-json", f"{error}")

    def generated(self):
        """An answer whose every byte is known, small and large, with a length and without."""
        size = self.rnd.choice([0, 1, 1000, 65_536, 300_000, 3_000_000])
        answer = self.ask("php bytes", "GET", f"/wpref/gen.php?n={size}" + ("&len=1" if self.rnd.random() < 0.5 else ""))
        if answer:
            expected = (b"abcdefghijklmnopqrstuvwxyz012345" * (size // 32 + 1))[:size]
            self.expect("php bytes", answer.status == 200 and answer.body == expected, f"{answer.status}, {len(answer.body)} of {size} bytes")

    def echoed(self):
        body = self.rnd.randbytes(self.rnd.choice([1, 1000, 100_000, 1_000_000]))
        answer = self.ask("php echo", "POST", "/wpref/echo.php", {"Content-Type": "application/octet-stream"}, body)
        if answer:
            self.expect("php echo", answer.status == 200 and answer.body == body, f"{answer.status}, {len(answer.body)} of {len(body)} bytes")

    def comment(self):
        number = self.rnd.choice(self.world.post_ids)
        # WordPress refuses what was said before, perhaps in another run.
        text = f"Comment {self.rnd.randrange(1 << 40)} {time.time_ns()}"
        form = urllib.parse.urlencode({"comment_post_ID": number, "comment": text, "author": "Visitor", "email": "visitor@example.test", "url": ""})
        answer = self.ask("comment", "POST", "/wp-comments-post.php", {"Content-Type": "application/x-www-form-urlencoded"}, form.encode())
        if answer:
            self.expect("comment", answer.status == 302 and "#comment-" in answer.field("location", ""), f"{answer.status} {answer.field('location')}")

    def visit(self):
        """Until the end."""
        while not self.world.stop.is_set():
            how = self.rnd.random()
            if how < 0.50:
                self.still()
            elif how < 0.70:
                self.moving()
            elif how < 0.72:
                self.big()
            elif how < 0.84:
                self.page()
            elif how < 0.88:
                self.generated()
            elif how < 0.92:
                self.echoed()
            elif how < 0.95:
                self.rest()
            elif how < 0.98:
                self.feed()
            elif how < 0.99:
                self.comment()
            else:
                self.client.close()
            time.sleep(self.rnd.choice([0, 0, 0.002, 0.02]))
        self.report()

    # -- an author: uploads are seen at once, and gone at once

    def write(self):
        cookies = None
        basic = "Basic " + base64.b64encode(f"admin:{self.world.app_password}".encode()).decode()
        while not self.world.stop.is_set():
            cookies = cookies or self.log_in()
            if cookies:
                answer = self.ask("dashboard", "GET", self.rnd.choice(["/wp-admin/", "/wp-admin/edit.php", "/wp-admin/upload.php"]), {"Cookie": cookies})
                if answer and answer.status == 302:
                    cookies = None
                elif answer:
                    self.expect("dashboard", answer.status == 200 and answer.body.rstrip().endswith(b"</html>"), f"{answer.status}, ends {answer.body[-30:]!r}")
            name, text = f"note-{self.rnd.randrange(1 << 40)}.txt", self.rnd.randbytes(self.rnd.choice([10, 5_000, 200_000])).hex().encode()
            answer = self.ask("upload", "POST", "/wp-json/wp/v2/media",
                              {"Authorization": basic, "Content-Type": "text/plain", "Content-Disposition": f'attachment; filename="{name}"'}, text)
            if answer:
                self.expect("upload", answer.status == 201, f"{answer.status} {answer.body[:200]!r}")
                if answer.status == 201:
                    self.look_at_upload(json.loads(answer.body), text, basic)
            time.sleep(self.rnd.uniform(0.5, 2))
        self.report()

    def look_at_upload(self, media, text, basic):
        target = urllib.parse.urlsplit(media["source_url"]).path
        answer = self.ask("file uploaded", "GET", target)
        if answer:
            self.expect("file uploaded", answer.status == 200 and answer.body == text, f"{target}: {answer.status}, {len(answer.body)} of {len(text)} bytes")
        gone = self.ask("delete", "DELETE", f"/wp-json/wp/v2/media/{media['id']}?force=true", {"Authorization": basic})
        if gone:
            self.expect("delete", gone.status == 200, f"{gone.status} {gone.body[:200]!r}")
            answer = self.ask("file deleted", "GET", target)
            self.expect("file deleted", answer is None or answer.status == 404, f"{target}: {answer and answer.status}")

    def log_in(self):
        form = urllib.parse.urlencode({"log": "admin", "pwd": self.world.password, "wp-submit": "Log In", "redirect_to": "/wp-admin/", "testcookie": "1"})
        answer = self.ask("login", "POST", "/wp-login.php", {"Content-Type": "application/x-www-form-urlencoded", "Cookie": "wordpress_test_cookie=WP+Cookie+check"},
                          form.encode())
        if answer is None:
            return None
        self.expect("login", answer.status == 302, f"{answer.status}")
        return "; ".join(value.split(";")[0] for name, value in answer.fields if name == "set-cookie")

    def report(self):
        self.client.close()
        self.world.reports.put((self.counts, self.wrong, self.latency, self.statuses))


def posts_of(client):
    """Permalinks and numbers of the posts, by the REST API."""
    posts = json.loads(client.request("GET", "/wp-json/wp/v2/posts?per_page=20").body)
    open_ones = [post for post in posts if re.search("reference-post", post["link"])]
    return [urllib.parse.urlsplit(post["link"]).path for post in open_ones], [post["id"] for post in open_ones]
