#!/usr/bin/env bash
# nginx.sh start|stop|restart|conf   - nginx in front of the same WordPress, to compare with
#   WP_STATE (default /var/tmp/nostat-wordpress)  WP_NGINX_PORT (default 8088)  WP_NGINX_WORKERS (default 1)
#   WP_DOCROOT (default $WP_STATE/site)
#   WP_NGINX_SYMLINKS (default if_not_owner; off = nginx's own default, one open() a file)
set -euo pipefail
export PATH="$PATH:/usr/sbin"
here=$(cd "$(dirname "$0")" && pwd)
S=${WP_STATE:-/var/tmp/nostat-wordpress}; PORT=${WP_NGINX_PORT:-8088}; WORKERS=${WP_NGINX_WORKERS:-1} ROOT=${WP_DOCROOT:-$S/site}
CONF=$S/etc/nginx.conf PID=$S/run/nginx.pid
running() { local p; p=$(cat "$PID" 2>/dev/null) && [ -n "$p" ] && tr '\0' ' ' <"/proc/$p/cmdline" 2>/dev/null | grep -F -- "$CONF" >/dev/null; }
conf() {
  mkdir -p "$S/nginx"; chown www-data: "$S/nginx"
  sed -e "s#@WP_STATE@#$S#g; s#@ROOT@#$ROOT#g; s#@SYMLINKS@#${WP_NGINX_SYMLINKS:-if_not_owner}#; s#@PORT@#$PORT#g; s#@WORKERS@#$WORKERS#g" "$here/nginx.conf" >"$CONF"
  nginx -t -q -c "$CONF"
}
stop() {
  running || { echo "not running"; return 0; }
  local p; p=$(cat "$PID"); kill "$p"
  for _ in $(seq 100); do [ -d "/proc/$p" ] || break; sleep 0.05; done
  [ ! -d "/proc/$p" ] && echo "stopped nginx ($p)"
}
case ${1:-} in
  start)   running && { echo "already on"; exit 0; }; conf; nginx -c "$CONF"; for _ in $(seq 50); do running && break; sleep 0.1; done
           echo "nginx ($(cat "$PID")) on http://127.0.0.1:$PORT, docroot $ROOT" ;;
  stop)    stop ;;
  restart) stop; exec "$0" start ;;
  conf)    conf; echo "$CONF" ;;
  *)       sed -n 2,5p "$0"; exit 2 ;;
esac
