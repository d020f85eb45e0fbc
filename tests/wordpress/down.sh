#!/usr/bin/env bash
# Stop exactly what up.sh and nginx.sh started, by pid file. --purge also removes the state folder.
set -uo pipefail
WP_STATE=${WP_STATE:-/var/tmp/nostat-wordpress}
[ -e "$WP_STATE/.wp-state" ] || { echo "nothing at $WP_STATE"; exit 0; }
[ "$(id -u)" = 0 ] || exec sudo env WP_STATE="$WP_STATE" bash "$0" "$@"
exec 9>"$WP_STATE/.lock"; flock 9
rc=0
stop() { # stop NAME WORD SIGNAL
  local f=$WP_STATE/run/$1.pid pid i
  pid=$(cat "$f" 2>/dev/null) || return 0
  if [ -z "$pid" ] || ! tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -F -- "$2" >/dev/null; then
    rm -f "$f"; return 0                         # gone, or the pid is another program's by now
  fi
  kill -s "$3" "$pid"
  for ((i = 0; i < 300; i++)); do
    if ! grep -q '^State:.[^Z]' "/proc/$pid/status" 2>/dev/null; then
      echo "stopped $1 ($pid)"; rm -f "$f"; return 0
    fi
    sleep 0.1
  done
  echo "$1 ($pid) did not stop within 30 s" >&2; rc=1
}
stop nginx   "$WP_STATE/etc/nginx.conf"   TERM
stop php-fpm "$WP_STATE/etc/php-fpm.conf" TERM
stop mariadb "$WP_STATE/db"               TERM
if [ "${1:-}" = --purge ] && [ $rc = 0 ] && [ -e "$WP_STATE/.wp-state" ]; then
  rm -rf "$WP_STATE"; echo "removed $WP_STATE"
fi
exit $rc
