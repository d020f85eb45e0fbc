#!/usr/bin/env python3
"""CPU per request of one server binary beside nginx, lighttpd and H2O: the same files, in one run, one worker each on
CPU 0 and the load (wrk) on CPU 1. `benches/compare` builds Nostat and calls this.

What to read is `cpu`: microseconds of user and system time of the server per request, and its ratio to the best peer.
Throughput is printed too, but on a machine whose cores are shared with the load it is noise.

    compare.py --product 'target/release/nostat serve --config {config}' --product-config benches/product.yaml
    compare.py --peers nginx-best,h2o,floor        # peers alone

In the product's configuration `{port}` and `{root}` are replaced. Needs wrk, a C compiler, taskset, and the peers that
are compared (those not installed are left out); --strace needs strace. Everything listens on 127.0.0.1, is bounded in
time, and is stopped by pid at the end.
"""
import argparse
import json
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

os.environ["PATH"] += ":/usr/sbin"           # where Debian keeps the servers
TICK = os.sysconf("SC_CLK_TCK")
SIZES = {"512": 512, "4k": 4096, "16k": 16384, "64k": 65536, "1m": 1 << 20}


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def tree(root):
    os.makedirs(root, exist_ok=True)
    rnd = random.Random(7)
    for name, size in SIZES.items():
        with open(f"{root}/f{name}.bin", "wb") as f:
            f.write(rnd.randbytes(size))
    os.makedirs(f"{root}/many", exist_ok=True)
    for i in range(2000):                       # WordPress-like sizes: median ~3 kB, tail to ~50 kB
        with open(f"{root}/many/{i}.css", "wb") as f:
            f.write(rnd.randbytes(int(min(50_000, rnd.lognormvariate(8.0, 1.1)))))
    past = time.time() - 86400                  # old enough that no server treats them as just written
    for base, _, files in os.walk(root):
        for f in files:
            os.utime(os.path.join(base, f), (past, past))


NGINX = """worker_processes 1; daemon off; error_log {dir}/err.log crit; pid {dir}/pid; worker_rlimit_nofile 20000;
events {{ worker_connections 4096; multi_accept on; use epoll; }}
http {{ types {{ text/css css; application/octet-stream bin; }} access_log off; keepalive_requests 1000000000;
  sendfile {sendfile}; tcp_nopush {nopush}; tcp_nodelay on;
  {ofc}
  client_body_temp_path {dir}/b; proxy_temp_path {dir}/p; fastcgi_temp_path {dir}/f; uwsgi_temp_path {dir}/u; scgi_temp_path {dir}/s;
  server {{ listen 127.0.0.1:{port}; root {root}; }} }}
"""
OFC = "open_file_cache max=100000 inactive=60s; open_file_cache_valid 30s; open_file_cache_min_uses 2; open_file_cache_errors on;"
LIGHTTPD = """server.document-root="{root}"
server.bind="127.0.0.1"
server.port={port}
server.event-handler="linux-sysepoll"
server.max-keep-alive-requests=1000000000
server.max-connections=4096
server.max-fds=16384
server.stat-cache-engine="simple"
mimetype.assign=(".css"=>"text/css", "" => "application/octet-stream")
"""
H2O = """num-threads: 1
listen: {{host: 127.0.0.1, port: {port}}}
http1-request-timeout: 60
hosts:
  default:
    paths:
      "/":
        file.dir: {root}
"""


class Server:
    def __init__(self, name, port, argv, env=None):
        self.name, self.port = name, port
        self.proc = subprocess.Popen(["taskset", "-c", "0"] + argv, stdout=subprocess.DEVNULL,
                                     stderr=subprocess.DEVNULL, env={**os.environ, **(env or {})}, start_new_session=True)
        for _ in range(100):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/f512.bin", timeout=1).read()
                return
            except Exception:
                if self.proc.poll() is not None:
                    break
                time.sleep(0.1)
        raise SystemExit(f"{name} did not start: {argv}")

    def pids(self):
        out, todo = [], [self.proc.pid]
        while todo:
            p = todo.pop()
            out.append(p)
            try:
                for t in os.listdir(f"/proc/{p}/task"):
                    todo += [int(c) for c in open(f"/proc/{p}/task/{t}/children").read().split()]
            except OSError:
                pass
        return out

    def ticks(self):
        u = s = 0
        for p in self.pids():
            f = open(f"/proc/{p}/stat").read().rsplit(")", 1)[1].split()
            u, s = u + int(f[11]), s + int(f[12])
        return u, s

    def rss(self):
        return sum(int(re.search(r"VmRSS:\s+(\d+)", open(f"/proc/{p}/status").read()).group(1)) for p in self.pids())

    def stop(self):
        try:
            os.killpg(self.proc.pid, signal.SIGTERM)
            self.proc.wait(5)
        except Exception:
            os.killpg(self.proc.pid, signal.SIGKILL)


def start(name, tmp, root, opts):
    port = free_port()
    d = f"{tmp}/{name}"
    os.makedirs(d, exist_ok=True)
    def conf(text, file, **kw):
        path = f"{d}/{file}"
        open(path, "w").write(text.format(port=port, root=root, dir=d, **kw))
        return path
    if name.startswith("nginx"):
        kw = {"nginx-off": dict(sendfile="on", nopush="on", ofc=""),          # as it comes
              "nginx-cache": dict(sendfile="on", nopush="on", ofc=OFC),        # with open_file_cache
              "nginx-best": dict(sendfile="off", nopush="off", ofc=OFC)}[name]  # fastest for small files here
        return Server(name, port, ["nginx", "-c", conf(NGINX, "nginx.conf", **kw)])
    if name == "lighttpd":
        return Server(name, port, ["lighttpd", "-D", "-f", conf(LIGHTTPD, "l.conf")])
    if name == "h2o":
        return Server(name, port, ["h2o", "-c", conf(H2O, "h2o.conf")])
    if name == "product":
        text = open(opts.product_config).read().replace("{port}", str(port)).replace("{root}", root)
        path = f"{d}/product.yaml"
        open(path, "w").write(text)
        return Server(name, port, opts.product.format(config=path).split())
    raise SystemExit(f"unknown peer {name}")


def etag(server, path):
    r = urllib.request.urlopen(f"http://127.0.0.1:{server.port}{path}")
    return r.headers.get("ETag")


def wrk(server, work, secs, conns, tmp):
    args = ["taskset", "-c", "1", "wrk", "-t1", f"-c{conns}", f"-d{secs}s", "--latency"]
    path = work
    if work == "304":
        path = "/f4k.bin"
        args += ["-H", "If-None-Match: " + (etag(server, path) or "*")]
    elif work == "404":
        path = "/missing/nothing.css"
    elif work == "mixed":                        # Zipf over 2,000 files, 30 % revalidations, 5 % misses
        lua = f"{tmp}/mix-{server.name}.lua"
        tags = [etag(server, f"/many/{i}.css") for i in range(2000)]
        with open(lua, "w") as f:
            f.write("local reqs = {}\nlocal function add(p, tag) reqs[#reqs+1] = {p, tag} end\n")
            rnd = random.Random(11)
            weights = [1 / (i + 1) ** 0.9 for i in range(2000)]
            for i in rnd.choices(range(2000), weights, k=20000):
                x = rnd.random()
                if x < 0.05:
                    f.write(f"add('/many/no-{i}.css')\n")
                elif x < 0.35 and tags[i]:
                    f.write(f"add('/many/{i}.css', '{tags[i]}')\n")
                else:
                    f.write(f"add('/many/{i}.css')\n")
            # formatted in init, where wrk knows the Host header
            f.write("local fixed, n = {}, 0\nfunction init(args)\n"
                    "  for i, r in ipairs(reqs) do\n    local h = {}\n    for k, v in pairs(wrk.headers) do h[k] = v end\n"
                    "    if r[2] then h['If-None-Match'] = r[2] end\n    fixed[i] = wrk.format('GET', r[1], h)\n  end\nend\n"
                    "function request() n = n % #fixed + 1; return fixed[n] end\n")
        args += ["-s", lua]
        path = "/"
    else:
        path = f"/f{work}.bin"
    u0, s0 = server.ticks()
    out = subprocess.run(args + [f"http://127.0.0.1:{server.port}{path}"], capture_output=True, text=True).stdout
    u1, s1 = server.ticks()
    n = int(re.search(r"(\d+) requests in", out).group(1))
    bad = re.search(r"Socket errors: (.*)", out)
    non2 = re.search(r"Non-2xx or 3xx responses: (\d+)", out)
    return dict(rps=float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), n=n,
                user=(u1 - u0) / TICK * 1e6 / n, sys=(s1 - s0) / TICK * 1e6 / n, cpu=(u1 - u0 + s1 - s0) / TICK * 1e6 / n,
                p99=re.search(r"99%\s+(\S+)", out).group(1), bad=bad.group(1) if bad else "", non2xx=int(non2.group(1)) if non2 else 0)


FILE_CALLS = {"open", "openat", "openat2", "stat", "lstat", "fstat", "statx", "newfstatat", "close", "access", "faccessat2", "readlink"}


def strace(server, work, tmp):
    """System calls per request, all and file-metadata ones, warm cache."""
    out = f"{tmp}/strace-{server.name}"
    worker = [x for p in server.pids() for x in ("-p", str(p))]
    tr = subprocess.Popen(["strace", "-f", "-c", "-S", "calls", "-o", out] + worker, stderr=subprocess.DEVNULL)
    time.sleep(0.7)
    r = wrk(server, work, 2, 16, tmp)
    time.sleep(0.2)
    tr.send_signal(signal.SIGINT)
    tr.wait(10)
    calls = {}
    for line in open(out):
        f = line.split()
        if len(f) >= 5 and f[0][0].isdigit() and f[-1] != "total":
            calls[f[-1]] = int(f[3])
    meta = sum(v for k, v in calls.items() if k in FILE_CALLS)
    return sum(calls.values()) / r["n"], meta / r["n"], calls


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--peers", default="floor,nginx-off,nginx-cache,nginx-best,lighttpd,h2o")
    ap.add_argument("--product")
    ap.add_argument("--product-config")
    ap.add_argument("--work", default="512,4k,16k,64k,1m,304,404,mixed")
    ap.add_argument("--secs", type=int, default=1)
    ap.add_argument("--rounds", type=int, default=7)
    ap.add_argument("--conns", type=int, default=64)
    ap.add_argument("--strace", action="store_true", help="also count system calls per request (4k, 304, 404)")
    ap.add_argument("--json", help="write the figures here")
    o = ap.parse_args()
    tmp = tempfile.mkdtemp(prefix="compare-")
    root = f"{tmp}/tree"
    tree(root)
    os.chmod(tmp, 0o755)
    here = os.path.dirname(os.path.abspath(__file__))
    subprocess.run(["cc", "-O2", "-o", f"{tmp}/floor", f"{here}/floor.c"], check=True)
    names = [n for n in o.peers.split(",") if n and n != "floor"]
    absent = [n for n in names if not shutil.which(n.split("-")[0])]
    if absent:
        print("not installed, left out: " + ", ".join(absent))
    names = [n for n in names if n not in absent] + (["product"] if o.product else [])
    servers, result = [], {}
    try:
        for n in names:
            servers.append(start(n, tmp, root, o))
        for work in o.work.split(","):
            rows = {s.name: [] for s in servers}
            floor = []
            for _ in range(o.rounds):
                if "floor" in o.peers and (work in SIZES or work == "304"):
                    port = free_port()
                    f = subprocess.Popen(["taskset", "-c", "0", f"{tmp}/floor", str(port), str(SIZES.get(work, 0))])
                    time.sleep(0.2)
                    fs = Server.__new__(Server); fs.name, fs.port, fs.proc = "floor", port, f
                    floor.append(wrk(fs, work if work in SIZES else "512", o.secs, o.conns, tmp))
                    f.kill(); f.wait()
                for s in servers:
                    rows[s.name].append(wrk(s, work, o.secs, o.conns, tmp))
            if floor:
                rows["floor"] = floor
            med = {n: {k: statistics.median(r[k] for r in rs) for k in ("cpu", "user", "sys", "rps")} | {"p99": rs[-1]["p99"], "bad": rs[-1]["bad"], "non2xx": rs[-1]["non2xx"]} for n, rs in rows.items()}
            best = min((m["cpu"] for n, m in med.items() if n not in ("floor", "product")), default=med["product"]["cpu"])
            print(f"== {work}: best peer {best:.2f} us/request" + (f", floor {med['floor']['cpu']:.2f}" if floor else ""))
            for n, m in sorted(med.items(), key=lambda kv: kv[1]["cpu"]):
                print(f"   {n:12} cpu {m['cpu']:7.2f} (user {m['user']:5.2f} sys {m['sys']:6.2f})  x{best / m['cpu']:.2f} of best peer   rps {m['rps']:8.0f}  p99 {m['p99']:>9} {m['bad']}{' non2xx ' + str(m['non2xx']) if m['non2xx'] and work not in ('404', 'mixed') else ''}")
            result[work] = med
            sys.stdout.flush()
        if o.strace:
            for work in ("4k", "304", "404"):
                for s in servers:
                    total, meta, calls = strace(s, work, tmp)
                    top = ", ".join(f"{k} {v}" for k, v in sorted(calls.items(), key=lambda kv: -kv[1])[:6])
                    print(f"   syscalls/request {work:4} {s.name:12} all {total:5.2f}  file metadata {meta:6.4f}   ({top})")
                    result.setdefault("syscalls", {}).setdefault(work, {})[s.name] = dict(all=total, meta=meta)
        for s in servers:
            result.setdefault("rss_kb", {})[s.name] = s.rss()
        print("   rss kB: " + ", ".join(f"{k} {v}" for k, v in result["rss_kb"].items()))
    finally:
        for s in servers:
            s.stop()
        if o.json:
            json.dump(result, open(o.json, "w"), indent=1)
        shutil.rmtree(tmp, ignore_errors=True)


if __name__ == "__main__":
    main()
