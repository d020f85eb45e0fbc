"""A PHP-FPM of our own, with a small pool, and what can befall it."""
import glob
import os
import signal
import subprocess
import time

from server import eventually


def binary():
    found = sorted(glob.glob("/usr/sbin/php-fpm*[0-9]"))
    if not found:
        raise SystemExit("php-fpm is missing: apt-get install php-fpm")
    return found[-1]


class PhpFpm:
    """One master by its settings file; the master's pid is in `pid_file`, `socket` is where it listens."""

    def __init__(self, config, pid_file, socket):
        self.config, self.pid_file, self.socket = config, pid_file, socket

    @classmethod
    def with_pool(cls, folder, children=4, more=""):
        """Settings for a pool of this many workers in a folder."""
        settings = f"""[global]
pid = {folder}/php-fpm.pid
error_log = {folder}/php-fpm.log
daemonize = yes
[www]
user = www-data
group = www-data
listen = {folder}/php.sock
listen.mode = 0666
listen.backlog = 64
pm = static
pm.max_children = {children}
catch_workers_output = yes
php_admin_value[error_log] = {folder}/php-errors.log
php_admin_value[upload_max_filesize] = 64M
php_admin_value[post_max_size] = 64M
{more}
"""
        with open(f"{folder}/php-fpm.conf", "w") as f:
            f.write(settings)
        return cls(f"{folder}/php-fpm.conf", f"{folder}/php-fpm.pid", f"{folder}/php.sock")

    def master(self):
        """Its pid, when it runs and is ours."""
        try:
            with open(self.pid_file) as f:
                pid = int(f.read())
            with open(f"/proc/{pid}/cmdline", "rb") as f:
                return pid if self.config.encode() in f.read() else None
        except (OSError, ValueError):
            return None

    def workers(self):
        master = self.master()
        if master is None:
            return []
        try:
            with open(f"/proc/{master}/task/{master}/children") as f:
                return [int(pid) for pid in f.read().split()]
        except OSError:
            return []

    def start(self):
        subprocess.run([binary(), "--fpm-config", self.config], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, start_new_session=True)
        if not eventually(lambda: self.master() and os.path.exists(self.socket), 10, 0.02):
            raise SystemExit("php-fpm did not start")
        return self

    def kill(self):
        """As when a machine's memory is gone: master and workers at once, the socket's file stays."""
        pids = [self.master(), *self.workers()]
        for pid in pids:
            _send(pid, signal.SIGKILL)
        eventually(lambda: not any(_runs(pid) for pid in pids), 10, 0.02)

    def stop(self, how=signal.SIGQUIT):
        """In order (SIGQUIT), or at once (SIGTERM); killed when that takes long."""
        pids = [self.master(), *self.workers()]
        self.go_on()
        _send(pids[0], how)
        if not eventually(lambda: not any(_runs(pid) for pid in pids), 15, 0.02):
            for pid in pids:
                _send(pid, signal.SIGKILL)

    def reload(self):
        _send(self.master(), signal.SIGUSR2)
        time.sleep(0.2)

    def freeze(self):
        """No worker does anything until `go_on`; the kernel still takes connections for them."""
        for pid in self.workers():
            _send(pid, signal.SIGSTOP)

    def go_on(self):
        for pid in self.workers():
            _send(pid, signal.SIGCONT)

    def kill_worker(self, index=0):
        workers = self.workers()
        if workers:
            _send(workers[index % len(workers)], signal.SIGKILL)


def _runs(pid):
    if pid is None:
        return False
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _send(pid, number):
    if pid is not None:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass
