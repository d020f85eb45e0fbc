#!/usr/bin/env bash
# Start a real WordPress for tests and for the demo: WordPress and PHP-FPM, on MariaDB or SQLite, on loopback only.
# Debian 12 and later, Ubuntu 22.04 and later; as root, or as a user who may sudo. Idempotent: installs packages and
# fills the site once, then only starts what is down. down.sh stops it.
#
#   WP_STATE     state folder, absolute           (default /var/tmp/nostat-wordpress)
#   WP_FPM_PORT  a second pool on 127.0.0.1:PORT  (default 0 = none; the first one listens on $WP_STATE/php-fpm.sock)
#   WP_CHILDREN  PHP-FPM children per pool        (default 4, pm = static)
#   WP_DB        mariadb | sqlite                 (default mariadb; sqlite needs npm)
#   WP_THEME     active theme                     (default: the first installed of those below)
#   WP_URL       URL seen from the command line   (default http://127.0.0.1:8080);
#                over HTTP the site takes its URL from the Host header, so any port works
#   WP_CRON      1 = let page views start wp-cron (default 0)
set -euo pipefail
umask 022
export PATH="$PATH:/usr/sbin:/sbin" LC_ALL=C.UTF-8

WP_STATE=${WP_STATE:-/var/tmp/nostat-wordpress}
WP_FPM_PORT=${WP_FPM_PORT:-0}
WP_CHILDREN=${WP_CHILDREN:-4}
WP_DB=${WP_DB:-mariadb}
WP_THEME=${WP_THEME:-}
WP_URL=${WP_URL:-http://127.0.0.1:8080}
WP_CRON=${WP_CRON:-0}
ADMIN_USER=admin ADMIN_PASS=wpref-admin-pass
SQLITE_NPM=@wp-playground/cli@3.1.56        # carries the SQLite drop-in as sqlite-database-integration.zip
RUN_AS=www-data
HERE=$(cd "$(dirname "$0")" && pwd)
S=$WP_STATE SITE=$WP_STATE/site RUN=$WP_STATE/run LOG=$WP_STATE/log ETC=$WP_STATE/etc
DB_SOCK=$RUN/mariadb.sock

say() { printf '[%3ds] %s\n' "$SECONDS" "$*"; }
die() { echo "up.sh: $*" >&2; exit 1; }
as_www() { runuser -u "$RUN_AS" -- "$@"; }
# alive PIDFILE WORD: the process of that pid file runs and its command line has WORD
alive() {
  local pid; pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] &&
    tr '\0' ' ' <"/proc/$pid/cmdline" 2>/dev/null | grep -F -- "$2" >/dev/null
}
wait_for() { # wait_for SECONDS COMMAND...
  local end=$(( SECONDS + $1 )); shift
  until "$@" >/dev/null 2>&1; do [ "$SECONDS" -lt "$end" ] || return 1; sleep 0.1; done
}

if [ "$(id -u)" != 0 ]; then
  command -v sudo >/dev/null || die "run me as root, or install sudo"
  exec sudo env PATH="$PATH" WP_STATE="$WP_STATE" WP_FPM_PORT="$WP_FPM_PORT" WP_CHILDREN="$WP_CHILDREN" WP_DB="$WP_DB" \
    WP_THEME="$WP_THEME" WP_URL="$WP_URL" WP_CRON="$WP_CRON" bash "$0" "$@"
fi
case $WP_STATE in /*) ;; *) die "WP_STATE must be an absolute path" ;; esac
case $WP_DB in mariadb|sqlite) ;; *) die "WP_DB must be mariadb or sqlite" ;; esac
if [ -e "$S" ]; then                            # what runs as root below is configured there
  owner=$(stat -c %u "$S")
  [ "$owner" = 0 ] || [ "$owner" = "${SUDO_UID:-0}" ] || die "$S belongs to somebody else (uid $owner)"
fi
mkdir -p "$S" "$RUN" "$LOG" "$ETC" "$S/tmp"
: >"$S/.wp-state"                               # marks the folder as ours, for down.sh --purge
exec 9>"$S/.lock"; flock 9                      # one up.sh or down.sh at a time

# ---------------------------------------------------------------- 1. packages
# what an earlier run settled stays settled
if [ -e "$S/installed" ]; then
  was=$(sed -n 's/^WP_DB=//p' "$S/credentials")
  [ "$was" = "$WP_DB" ] || { say "keeping WP_DB=$was of the installed site"; WP_DB=$was; }
fi
# nginx for comparison, and as the web server that the package wordpress asks for: else apt would choose Apache.
# Not every release has each theme, nor each library that the package's tree links to.
PACKAGES=(php-fpm php-cli php-mysql php-sqlite3 php-gd php-curl php-xml php-mbstring php-intl php-zip php
          nginx-light curl ca-certificates wordpress
          '?wordpress-theme-twentytwentyone' '?wordpress-theme-twentytwentythree' '?wordpress-theme-twentytwentyfour'
          '?wordpress-theme-twentytwentyfive' '?php-getid3' '?libjs-cropper' '?libjs-underscore' '?libjs-lodash')
[ "$WP_DB" = sqlite ] || PACKAGES+=(mariadb-server)
"$HERE/../prerequisites" "${PACKAGES[@]}" 9>&-
VERSION=$(dpkg-query -W -f='${Depends}' php-fpm | grep -o '[0-9]*\.[0-9]*-fpm' | head -n 1)   # the release's own PHP
FPM=/usr/sbin/php-fpm${VERSION%-fpm} PHP=/usr/bin/php${VERSION%-fpm}
if [ ! -x "$FPM" ] || [ ! -x "$PHP" ]; then die "no $FPM or no $PHP"; fi
chown root:root "$S"; chmod 755 "$S" "$RUN" "$ETC"
chown "$RUN_AS:" "$S/tmp" "$LOG"
as_www test -x "$S" || die "$RUN_AS cannot enter $S: choose a WP_STATE below a folder open to all"

# ---------------------------------------------------------------- 2. MariaDB
if [ "$WP_DB" = mariadb ] && ! alive "$RUN/mariadb.pid" "$S/db"; then
  if [ ! -e "$S/db/mysql/global_priv.MAD" ]; then
    say "creating the MariaDB data folder"
    rm -rf "$S/db"; mkdir -p "$S/db"; chown "$RUN_AS:" "$S/db"; chmod 750 "$S/db"
    nice mariadb-install-db --no-defaults --force --user="$RUN_AS" --datadir="$S/db" --skip-test-db \
      --auth-root-authentication-method=socket --skip-name-resolve >"$LOG/mariadb-install.log" 2>&1 9>&- ||
      { tail -20 "$LOG/mariadb-install.log" >&2; die "mariadb-install-db failed"; }
  fi
  chown "$RUN_AS:" "$RUN"
  rm -f "$RUN/mariadb.pid" "$DB_SOCK"
  say "starting MariaDB"
  setsid nohup mariadbd --no-defaults --user="$RUN_AS" --datadir="$S/db" --socket="$DB_SOCK" \
    --pid-file="$RUN/mariadb.pid" --log-error="$LOG/mariadb.log" --tmpdir="$S/tmp" \
    --skip-networking --skip-name-resolve --skip-log-bin --performance-schema=OFF \
    --innodb-buffer-pool-size=96M --innodb-log-file-size=32M --innodb-flush-log-at-trx-commit=2 \
    --max-connections=64 --character-set-server=utf8mb4 </dev/null >/dev/null 2>&1 9>&- &
  wait_for 40 mariadb --no-defaults -S "$DB_SOCK" -u root -e 'select 1' || { tail -20 "$LOG/mariadb.log" >&2; die "MariaDB did not come up"; }
fi

# ---------------------------------------------------------------- 3. document root
if [ ! -e "$SITE/wp-config.php" ]; then
  say "copying WordPress into $SITE (symlinks resolved)"
  rm -rf "$SITE.new" "$SITE"
  cp -rL --preserve=timestamps /usr/share/wordpress "$SITE.new"   # mtimes kept: the same ETags after every install
  rm -f "$SITE.new/.htaccess"
  mkdir -p "$SITE.new"/wp-content/{plugins,mu-plugins,uploads,languages}
  [ -e "$SITE.new/wp-content/index.php" ] || printf '<?php\n// Silence is golden.\n' >"$SITE.new/wp-content/index.php"
  rnd() { head -c 48 /dev/urandom | base64 | tr -d '\n/+=' ; }
  DB_PASS=$(rnd)
  if [ "$WP_DB" = mariadb ]; then
    mariadb --no-defaults -S "$DB_SOCK" -u root <<SQL
CREATE DATABASE IF NOT EXISTS wordpress CHARACTER SET utf8mb4;
CREATE OR REPLACE USER 'wordpress'@'localhost' IDENTIFIED BY '$DB_PASS';
GRANT ALL ON wordpress.* TO 'wordpress'@'localhost';
SQL
  else
    say "adding the SQLite drop-in from npm package $SQLITE_NPM"
    rm -rf "$S/npm"; mkdir -p "$S/npm"
    (cd "$S/npm" && npm pack --silent "$SQLITE_NPM" >/dev/null && tar xzf ./*.tgz package/sqlite-database-integration.zip)
    # shellcheck disable=SC2016
    "$PHP" -r '$z=new ZipArchive; $z->open($argv[1]) === true && $z->extractTo($argv[2]) || exit(1);' \
      "$S/npm/package/sqlite-database-integration.zip" "$S/npm"
    mv "$S/npm/plugin-sqlite-database-integration" "$SITE.new/wp-content/plugins/sqlite-database-integration"
    sed -e "s#'{SQLITE_IMPLEMENTATION_FOLDER_PATH}'#__DIR__ . '/plugins/sqlite-database-integration'#" \
        -e "s#{SQLITE_PLUGIN}#sqlite-database-integration/load.php#" \
        "$SITE.new/wp-content/plugins/sqlite-database-integration/db.copy" >"$SITE.new/wp-content/db.php"
    # the plugin asks for WordPress 6.4; for 6.1 this one word must change
    # shellcheck disable=SC2016
    sed -i 's/private \$allow_unsafe_unquoted_parameters/protected $allow_unsafe_unquoted_parameters/' \
      "$SITE.new/wp-content/plugins/sqlite-database-integration/wp-includes/sqlite/class-wp-sqlite-db.php"
    rm -rf "$S/npm"
    mkdir -p "$S/sqlite"; chown "$RUN_AS:" "$S/sqlite"
  fi
  {
    cat <<PHP
<?php
define( 'DB_NAME', 'wordpress' );
define( 'DB_USER', 'wordpress' );
define( 'DB_PASSWORD', '$DB_PASS' );
define( 'DB_HOST', 'localhost:$DB_SOCK' );
define( 'DB_CHARSET', 'utf8mb4' );
define( 'DB_COLLATE', '' );
define( 'DB_DIR', '$S/sqlite' );        // read by the SQLite drop-in only
define( 'DB_FILE', 'wordpress.sqlite' );
PHP
    for k in AUTH SECURE_AUTH LOGGED_IN NONCE; do
      printf "define( '%s_KEY', '%s' );\ndefine( '%s_SALT', '%s' );\n" $k "$(rnd)" $k "$(rnd)"
    done
    cat <<PHP
\$wpref_cli_url = '$WP_URL';
define( 'DISABLE_WP_CRON', ! (bool) (int) '$WP_CRON' );
PHP
    cat <<'PHP'
$table_prefix = 'wp_';

// TLS may end at a proxy before us. (A real site trusts this header from its own proxy only.)
if ( 'https' === strtolower( $_SERVER['HTTP_X_FORWARDED_PROTO'] ?? '' ) ) {
	$_SERVER['HTTPS'] = 'on';
}
// The site's URL is whatever host and port the client asked for, so that one
// installation serves behind any listener: Nostat, nginx, a tunnel.
$wpref_host = $_SERVER['HTTP_HOST'] ?? '';
if ( preg_match( '/^(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]+\])(?::\d{1,5})?$/i', $wpref_host ) ) {
	$wpref_https = in_array( strtolower( $_SERVER['HTTPS'] ?? '' ), array( 'on', '1' ), true );
	define( 'WP_HOME', ( $wpref_https ? 'https://' : 'http://' ) . $wpref_host );
} else {
	define( 'WP_HOME', $wpref_cli_url );
}
define( 'WP_SITEURL', WP_HOME );

define( 'WP_ENVIRONMENT_TYPE', 'local' );       // application passwords over plain HTTP
define( 'FS_METHOD', 'direct' );
define( 'WP_AUTO_UPDATE_CORE', false );
define( 'AUTOMATIC_UPDATER_DISABLED', true );
define( 'WP_HTTP_BLOCK_EXTERNAL', true );       // a test must not depend on the network, nor wait for it
define( 'WP_ACCESSIBLE_HOSTS', '127.0.0.1,localhost' );
define( 'WP_DEBUG', false );
if ( ! defined( 'ABSPATH' ) ) {
	define( 'ABSPATH', __DIR__ . '/' );
}
require_once ABSPATH . 'wp-settings.php';
PHP
  } >"$SITE.new/wp-config.php"
  cat >"$SITE.new/wp-content/mu-plugins/wpref.php" <<'PHP'
<?php
/* Plugin Name: Settings for repeatable tests */
add_action( 'init', function () { remove_action( 'check_comment_flood', 'check_comment_flood_db', 10 ); } );
add_filter( 'wp_is_comment_flood', '__return_false', 99 );
add_filter( 'admin_email_check_interval', '__return_zero' ); // no "confirm your e-mail" page at login
PHP
  mkdir -p "$SITE.new/wpref"                  # small PHP scripts to probe a FastCGI front end
  cat >"$SITE.new/wpref/env.php" <<'PHP'
<?php // every variable PHP got, as JSON; plus the body's length and digest
$b = file_get_contents( 'php://input' );
ksort( $_SERVER );
header( 'Content-Type: application/json' );
echo json_encode( array( 'server' => $_SERVER, 'get' => $_GET, 'post' => $_POST, 'cookie' => $_COOKIE,
	'files' => $_FILES, 'body_len' => strlen( $b ), 'body_sha1' => sha1( $b ) ), JSON_PRETTY_PRINT | JSON_UNESCAPED_SLASHES | JSON_PARTIAL_OUTPUT_ON_ERROR );
PHP
  cat >"$SITE.new/wpref/echo.php" <<'PHP'
<?php // the request's body, back
header( 'Content-Type: ' . ( $_SERVER['CONTENT_TYPE'] ?? 'application/octet-stream' ) );
readfile( 'php://input' );
PHP
  cat >"$SITE.new/wpref/gen.php" <<'PHP'
<?php // ?n=BYTES &chunk=BYTES &ms=PAUSE_PER_CHUNK &status=CODE &h[Name]=value &len=1 &err=TEXT(to stderr) &die=1
$n = min( (int) ( $_GET['n'] ?? 0 ), 1 << 30 ); $c = max( 1, (int) ( $_GET['chunk'] ?? 65536 ) );
if ( isset( $_GET['status'] ) ) { http_response_code( (int) $_GET['status'] ); }
foreach ( (array) ( $_GET['h'] ?? array() ) as $k => $v ) { foreach ( (array) $v as $x ) { header( "$k: $x", false ); } }
if ( ! empty( $_GET['len'] ) ) { header( 'Content-Length: ' . $n ); }
if ( isset( $_GET['err'] ) ) { error_log( $_GET['err'] ); }
while ( ob_get_level() ) { ob_end_flush(); }
for ( $o = 0; $o < $n; $o += $c ) {
	echo str_pad( '', min( $c, $n - $o ), 'abcdefghijklmnopqrstuvwxyz012345' );
	if ( ! empty( $_GET['ms'] ) ) { flush(); usleep( 1000 * (int) $_GET['ms'] ); }
	if ( ! empty( $_GET['die'] ) ) { flush(); posix_kill( getmypid(), 9 ); }
}
PHP
  mkdir -p "$S/echo"                          # a second docroot: every method's body back, for HTTP/1.1 test suites
  cat >"$S/echo/index.php" <<'PHP'
<?php
$b = file_get_contents( 'php://input' );
header( 'Content-Type: application/octet-stream' );
header( 'Content-Length: ' . strlen( $b ) );
echo $b;
PHP
  chown -R "$RUN_AS:" "$SITE.new"
  mv "$SITE.new" "$SITE"
fi

# ---------------------------------------------------------------- 4. install and seed
ini=(-d error_log="$LOG/php-cli.log" -d log_errors=1 -d display_errors=1 -d memory_limit=512M
     -d sendmail_path=/bin/true -d date.timezone=UTC -d sys_temp_dir="$S/tmp" -d opcache.enable_cli=0)
if [ ! -e "$S/installed" ]; then
  say "installing and seeding WordPress"
  cat >"$S/tmp/seed.php" <<'PHP'
<?php
list( , $step, $site, $user, $pass, $want_theme, $out ) = $argv;
if ( 'install' === $step ) { define( 'WP_INSTALLING', true ); }
error_reporting( E_ALL & ~E_DEPRECATED & ~E_WARNING & ~E_NOTICE );
$_SERVER += array( 'REQUEST_METHOD' => 'GET', 'REQUEST_URI' => '/', 'SERVER_PROTOCOL' => 'HTTP/1.1', 'SERVER_NAME' => '127.0.0.1', 'REMOTE_ADDR' => '127.0.0.1' );
require $site . '/wp-load.php';
require_once ABSPATH . 'wp-admin/includes/upgrade.php';
foreach ( array( 'file', 'media', 'image', 'post', 'nav-menu' ) as $f ) { require_once ABSPATH . "wp-admin/includes/$f.php"; }
add_filter( 'pre_wp_mail', '__return_false' );
function must( $x, $what ) { if ( ! $x || is_wp_error( $x ) ) { fwrite( STDERR, "seed: $what: " . ( is_wp_error( $x ) ? $x->get_error_message() : 'failed' ) . "\n" ); exit( 1 ); } return $x; }
mt_srand( 42 );

if ( 'install' === $step ) {
	if ( ! is_blog_installed() ) { must( wp_install( 'Reference Site', $user, 'admin@example.test', true, '', wp_slash( $pass ) ), 'wp_install' ); }
	exit;
}
wp_set_current_user( 1 );
foreach ( array( $want_theme, 'twentytwentyone', 'twentytwentyfive', 'twentytwentyfour', 'twentytwentythree' ) as $t ) {
	if ( '' !== $t && wp_get_theme( $t )->exists() ) { switch_theme( $t ); break; }
}
foreach ( array(
	'blogdescription' => 'A real WordPress for tests', 'show_avatars' => 0, 'timezone_string' => 'UTC', 'posts_per_page' => 10,
	'comment_moderation' => 0, 'comment_previously_approved' => 0, 'comments_notify' => 0, 'moderation_notify' => 0,
	'default_pingback_flag' => 0, 'default_ping_status' => 'closed', 'users_can_register' => 0, 'blog_public' => 1,
) as $k => $v ) { update_option( $k, $v ); }
global $wp_rewrite;
$wp_rewrite->set_permalink_structure( '/%year%/%monthnum%/%day%/%postname%/' );

foreach ( array( 'editor' => 'editor', 'reader' => 'subscriber' ) as $name => $role ) {
	if ( ! username_exists( $name ) ) {
		must( wp_insert_user( array( 'user_login' => $name, 'user_pass' => "wpref-$name-pass", 'user_email' => "$name@example.test", 'role' => $role ) ), $name );
	}
}

// 20 images, drawn and then put through WordPress's own upload and thumbnail path
function draw( $i, $w, $h, $ext ) {
	$im = imagecreatetruecolor( $w, $h );
	for ( $y = 0; $y < $h; $y += 2 ) {
		$c = imagecolorallocate( $im, (int) ( 40 + 180 * $y / $h ), ( 53 * $i ) % 200, (int) ( 220 - 160 * $y / $h ) );
		imagefilledrectangle( $im, 0, $y, $w, $y + 1, $c );
	}
	for ( $k = 0; $k < 160; $k++ ) {
		$c = imagecolorallocatealpha( $im, mt_rand( 0, 255 ), mt_rand( 0, 255 ), mt_rand( 0, 255 ), mt_rand( 30, 110 ) );
		imagefilledellipse( $im, mt_rand( 0, $w ), mt_rand( 0, $h ), mt_rand( 10, (int) ( $w / 4 ) ), mt_rand( 10, (int) ( $h / 4 ) ), $c );
	}
	imagestring( $im, 5, 20, 20, "reference image $i ${w}x$h", imagecolorallocate( $im, 255, 255, 255 ) );
	$f = wp_tempnam( "ref-$i.$ext" );
	switch ( $ext ) {
		case 'png':  imagepng( $im, $f, 6 ); break;
		case 'webp': imagewebp( $im, $f, 80 ); break;
		case 'gif':  imagegif( $im, $f ); break;
		default:     imagejpeg( $im, $f, 84 );
	}
	imagedestroy( $im );
	return $f;
}
$ids = get_posts( array( 'post_type' => 'attachment', 'post_status' => 'inherit', 'numberposts' => -1, 'fields' => 'ids', 'orderby' => 'ID', 'order' => 'ASC' ) );
for ( $i = count( $ids ); $i < 20; $i++ ) {
	if ( $i < 14 ) { $d = array( 1600, 1067, 'jpg' ); } elseif ( $i < 17 ) { $d = array( 1000, 667, 'png' ); } elseif ( $i < 19 ) { $d = array( 1200, 800, 'webp' ); } else { $d = array( 600, 400, 'gif' ); }
	$name = sprintf( 'ref-image-%02d.%s', $i + 1, $d[2] );
	$id = media_handle_sideload( array( 'name' => $name, 'tmp_name' => draw( $i + 1, $d[0], $d[1], $d[2] ) ), 0, "Reference image " . ( $i + 1 ),
		array( 'post_date' => '2024-03-01 00:00:00', 'post_date_gmt' => '2024-03-01 00:00:00' ) );
	$ids[] = must( $id, $name );
}
update_option( 'site_icon', $ids[14] );

$lorem = 'A static file that has been opened once need not be opened again while its descriptor stays in the cache. The origin answers the rest: the loop, the template, the comments, and every page that a person may see only after logging in. ';
$img = function ( $id, $size = 'large' ) {
	list( $src ) = wp_get_attachment_image_src( $id, $size );
	$src = wp_make_link_relative( $src );      // root-relative: right behind every host and port
	return "<!-- wp:image {\"id\":$id,\"sizeSlug\":\"$size\"} -->\n<figure class=\"wp-block-image size-$size\"><img src=\"$src\" alt=\"\" class=\"wp-image-$id\"/></figure>\n<!-- /wp:image -->";
};
$para = function ( $n ) use ( $lorem ) { return "<!-- wp:paragraph -->\n<p>" . str_repeat( $lorem, $n ) . "</p>\n<!-- /wp:paragraph -->"; };
$new = function ( $type, $slug, $title, $body, $more = array() ) {
	$old = get_page_by_path( $slug, OBJECT, $type );
	return $old ? $old->ID : must( wp_insert_post( wp_slash( $more + array( 'post_type' => $type, 'post_name' => $slug, 'post_title' => $title, 'post_content' => $body, 'post_status' => 'publish', 'post_author' => 1 ) ), true ), $slug );
};
wp_update_post( array( 'ID' => 1, 'post_date' => '2024-01-01 00:00:00', 'post_date_gmt' => '2024-01-01 00:00:00', 'edit_date' => true ) ); // "Hello world!": not the first of the loop
foreach ( array( 'news' => 'News', 'guides' => 'Guides' ) as $slug => $n ) { if ( ! term_exists( $slug, 'category' ) ) { wp_insert_term( $n, 'category', array( 'slug' => $slug ) ); } }
for ( $i = 1; $i <= 12; $i++ ) {
	$body = $para( 2 ) . "\n\n" . $img( $ids[ $i - 1 ] ) . "\n\n<!-- wp:heading -->\n<h2>Section $i</h2>\n<!-- /wp:heading -->\n\n" . $para( 3 ) . "\n\n" . $img( $ids[ 19 - ( $i % 8 ) ], 'medium' ) . "\n\n" . $para( 1 );
	$at = sprintf( '2024-03-%02d 09:30:00', $i );
	$id = $new( 'post', "reference-post-$i", "Reference post $i", $body, array( 'post_date' => $at, 'post_date_gmt' => $at, 'tags_input' => array( 'tag' . ( $i % 3 ), 'static' ),
		'post_category' => array( get_term_by( 'slug', $i % 2 ? 'news' : 'guides', 'category' )->term_id ) ) );
	set_post_thumbnail( $id, $ids[ $i - 1 ] );
	if ( ! get_comments( array( 'post_id' => $id, 'count' => true ) ) ) {
		for ( $k = 1; $k <= 2; $k++ ) {
			wp_insert_comment( array( 'comment_post_ID' => $id, 'comment_author' => "Reader $k", 'comment_author_email' => "r$k@example.test", 'comment_content' => "Comment $k on post $i.", 'comment_approved' => 1, 'comment_date' => $at, 'comment_date_gmt' => $at ) );
		}
	}
}
$new( 'post', 'secret-post', 'Secret post', $para( 1 ), array( 'post_password' => 'sesame', 'post_date' => '2024-02-01 00:00:00', 'post_date_gmt' => '2024-02-01 00:00:00' ) );
$about = $new( 'page', 'about', 'About', $para( 2 ) . "\n\n" . $img( $ids[13] ) );
$team  = $new( 'page', 'team', 'Team', $para( 1 ), array( 'post_parent' => $about ) );
$new( 'page', 'gallery', 'Gallery', implode( "\n\n", array_map( function ( $id ) use ( $img ) { return $img( $id, 'medium' ); }, $ids ) ) );
if ( ! wp_get_nav_menu_object( 'Main' ) ) {
	$m = must( wp_create_nav_menu( 'Main' ), 'menu' );
	foreach ( array( $about, $team ) as $p ) {
		wp_update_nav_menu_item( $m, 0, array( 'menu-item-object-id' => $p, 'menu-item-object' => 'page', 'menu-item-type' => 'post_type', 'menu-item-status' => 'publish' ) );
	}
	set_theme_mod( 'nav_menu_locations', array( 'primary' => $m ) );
}

// files that are awkward to serve
$dir = wp_upload_dir()['basedir'] . '/edge';
wp_mkdir_p( "$dir/sub" );
foreach ( array( 'empty.txt' => '', 'one.txt' => 'x', 'with space.txt' => "space\n", "\u{fc}n\u{ef}.txt" => "utf8\n", '100%.txt' => "percent\n", 'a+b.txt' => "plus\n",
	'a;b,c&d=e.txt' => "punctuation\n", 'UPPER.CSS' => "body{}\n", 'noext' => "no extension\n", '.hidden.txt' => "hidden\n", 'sub/deep.txt' => "deep\n",
	'page.html' => "<!doctype html><title>static</title>\n", 'data.json' => "{\"a\":1}\n", 'module.mjs' => "export default 1;\n", 'range.txt' => str_repeat( '0123456789', 100 ) ) as $n => $b ) {
	file_put_contents( "$dir/$n", $b );
}
$f = fopen( "$dir/big.bin", 'wb' ); for ( $i = 0; $i < 8192; $i++ ) { fwrite( $f, str_pad( (string) $i, 1024, "\n" ) ); } fclose( $f );
@symlink( 'one.txt', "$dir/link-inside.txt" );
@symlink( '/etc/hostname', "$dir/link-outside.txt" );
file_put_contents( "$dir/evil.php", "<?php echo 'must not run from uploads';\n" );

flush_rewrite_rules( false );
$app = '';
if ( ! WP_Application_Passwords::get_user_application_passwords( 1 ) ) {
	list( $app ) = must( WP_Application_Passwords::create_new_application_password( 1, array( 'name' => 'wpref' ) ), 'application password' );
	file_put_contents( $out, WP_Application_Passwords::chunk_password( $app ) . "\n" );
}
echo "posts " . wp_count_posts()->publish . ", pages " . wp_count_posts( 'page' )->publish . ", images " . count( $ids ) . ", WordPress $wp_version, theme " . get_stylesheet() . "\n";
PHP
  chown "$RUN_AS:" "$S/tmp/seed.php"
  for step in install seed; do
    (cd "$SITE" && as_www nice "$PHP" "${ini[@]}" "$S/tmp/seed.php" $step "$SITE" "$ADMIN_USER" "$ADMIN_PASS" "$WP_THEME" "$S/tmp/app-password" 9>&-) ||
      die "$step failed (see $LOG/php-cli.log)"
  done
  cat >"$S/credentials" <<EOF
WP_ADMIN_USER=$ADMIN_USER
WP_ADMIN_PASS=$ADMIN_PASS
WP_APP_PASSWORD="$(cat "$S/tmp/app-password")"
WP_EDITOR_USER=editor
WP_EDITOR_PASS=wpref-editor-pass
WP_READER_USER=reader
WP_READER_PASS=wpref-reader-pass
WP_DB=$WP_DB
EOF
  rm -f "$S/tmp/seed.php" "$S/tmp/app-password"
  date -u +%FT%TZ >"$S/installed"
fi

# ---------------------------------------------------------------- 5. PHP-FPM
pool() { # pool NAME LISTEN
  cat <<EOF
[$1]
user = $RUN_AS
group = $RUN_AS
listen = $2
listen.backlog = 1024
listen.owner = $RUN_AS
listen.group = $RUN_AS
listen.mode = 0666
pm = static
pm.max_children = $WP_CHILDREN
pm.status_path = /fpm-status
ping.path = /fpm-ping
request_terminate_timeout = 120s
catch_workers_output = yes
decorate_workers_output = no
security.limit_extensions = .php
php_admin_value[error_log] = $LOG/php-errors.log
php_admin_flag[log_errors] = on
php_admin_flag[display_errors] = off
php_admin_value[upload_max_filesize] = 64M
php_admin_value[post_max_size] = 64M
php_admin_value[memory_limit] = 256M
php_admin_value[date.timezone] = UTC
php_admin_value[sendmail_path] = /bin/true
php_admin_value[upload_tmp_dir] = $S/tmp
php_admin_value[sys_temp_dir] = $S/tmp
EOF
}
if ! alive "$RUN/php-fpm.pid" "$ETC/php-fpm.conf"; then
  say "starting PHP-FPM"
  {
    printf '[global]\npid = %s\nerror_log = %s\nlog_level = notice\ndaemonize = yes\n' "$RUN/php-fpm.pid" "$LOG/php-fpm.log"
    pool wp "$S/php-fpm.sock"
    [ "$WP_FPM_PORT" = 0 ] || pool wp-tcp "127.0.0.1:$WP_FPM_PORT" | sed 's,^listen.owner.*,listen.allowed_clients = 127.0.0.1,; /^listen.group/d; /^listen.mode/d'
  } >"$ETC/php-fpm.conf"
  rm -f "$S/php-fpm.sock"
  "$FPM" --fpm-config "$ETC/php-fpm.conf" 9>&- 2>"$LOG/php-fpm-start.log" || { cat "$LOG/php-fpm-start.log" >&2; die "PHP-FPM did not start"; }
  wait_for 10 test -S "$S/php-fpm.sock" || die "PHP-FPM has no socket"
fi

# ---------------------------------------------------------------- 6. report
# shellcheck disable=SC1091
. "$S/credentials"
say "up"
cat <<EOF
docroot         $SITE
fastcgi unix    $S/php-fpm.sock
fastcgi tcp     $([ "$WP_FPM_PORT" = 0 ] && echo none || echo "127.0.0.1:$WP_FPM_PORT")
database        $([ "$WP_DB" = mariadb ] && echo "MariaDB, unix socket $DB_SOCK (no TCP)" || echo "SQLite, $S/sqlite/wordpress.sqlite")
pid files       $(printf '%s ' "$RUN"/*.pid)
logs            $LOG
login           $WP_ADMIN_USER / $WP_ADMIN_PASS   (also editor, reader; all in $S/credentials)
application pw  $WP_APP_PASSWORD
site URL        the Host header's
EOF
