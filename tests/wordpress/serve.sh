# shellcheck shell=bash
# Sourced, from the project's folder: a real WordPress behind the built nostat, on a free port.
#
#   serve_wordpress FOLDER [SETTINGS]   starts what is down, waits until it answers; sets BASE_URL, SECURE_URL (TLS by a
#                            certificate that nobody knows) and NOSTAT_PID.
#                            FOLDER takes nostat's settings, logs and spool; SETTINGS are further lines of these, SITE_SETTINGS
#                            one of the site. With BASE_URL set, that server is used as it is.
#   stop_serving             stops exactly what serve_wordpress started

export WP_STATE=${WP_STATE:-/var/tmp/nostat-wordpress}
NOSTAT_PID='' SECURE_URL='' SITE_IS_OURS=no

free_port() { python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'; }
target_folder() { cargo metadata --no-deps --locked --format-version 1 | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'; }
answers() { curl -fsS -o /dev/null --max-time 10 "$1"; }
site_is_up() { local pid; pid=$(cat "$WP_STATE/run/php-fpm.pid" 2>/dev/null) && [ -d "/proc/${pid:-none}" ]; }
nostat_gone() { ! kill -0 "$NOSTAT_PID" 2>/dev/null; }
wait_for() { # wait_for SECONDS COMMAND...
  local end=$((SECONDS + $1)); shift
  until "$@" 2>/dev/null; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.1; done
}

serve_wordpress() {
  local folder=$1 settings=${2:-} port secure
  [ -z "${BASE_URL:-}" ] || return 0
  site_is_up || SITE_IS_OURS=yes
  tests/wordpress/up.sh | sed -n '/^\[/p; /^installing/p' || return
  cargo build --locked || return
  port=$(free_port) secure=$(free_port)
  mkdir -p "$folder/spool"
  cat >"$folder/nostat.yaml" <<YAML
listen: ["127.0.0.1:$port", {address: "127.0.0.1:$secure", tls: self_signed}]
sites:
  - root: "$WP_STATE/site"
    preset: wordpress
    php: "unix:$WP_STATE/php-fpm.sock"
    client_ip_header: X-Real-IP
${SITE_SETTINGS:+    $SITE_SETTINGS}
access_log: {path: "$folder/access.log", format: json}
spool: {dir: "$folder/spool"}
$settings
YAML
  "$(target_folder)/debug/nostat" serve --config "$folder/nostat.yaml" >"$folder/nostat.log" 2>&1 &
  NOSTAT_PID=$! BASE_URL=http://127.0.0.1:$port SECURE_URL=https://127.0.0.1:$secure
  wait_for 20 answers "$BASE_URL/wp-includes/css/buttons.css" || { cat "$folder/nostat.log" >&2; return 1; }
}

stop_serving() {
  if [ -n "$NOSTAT_PID" ]; then
    kill -TERM "$NOSTAT_PID" 2>/dev/null || true
    wait_for 10 nostat_gone || kill -KILL "$NOSTAT_PID" 2>/dev/null || true
  fi
  [ "$SITE_IS_OURS" = no ] || tests/wordpress/down.sh || true
  NOSTAT_PID='' SITE_IS_OURS=no
}
