<?php
/**
 * Plugin Name: Nostat Purge
 * Description: Has Nostat's page cache forget the pages that a change makes old.
 * Version: 1.0.0
 * Requires at least: 5.7
 * Requires PHP: 7.4
 * License: GPL-2.0-or-later
 *
 * A must-use plugin: copy this file into wp-content/mu-plugins/. Where the defaults do not fit, in wp-config.php:
 *   define( 'NOSTAT_PURGE_URL', 'http://127.0.0.1:8080' ); // Nostat; several as an array or with commas between
 *   define( 'NOSTAT_PURGE_TOKEN', '…' );                   // the word in page_cache.purge.token_file
 */

defined( 'ABSPATH' ) || exit;

final class Nostat_Purge {
	/** More pages of one site than this are purged as the whole site. */
	private const MOST_URLS = 50;
	/** Seconds; an editor waits for it. */
	private const TIMEOUT = 2;
	/** Post types that have no page but show on many. */
	private const EVERYWHERE = array( 'nav_menu_item', 'wp_block', 'wp_navigation', 'wp_template', 'wp_template_part', 'wp_global_styles', 'custom_css', 'customize_changeset' );
	/** Options that show on many pages; some have a name that goes on. */
	private const OPTIONS = '/^(blogname|blogdescription|blog_public|siteurl|home|permalink_structure|category_base|tag_base|show_on_front|page_on_front|page_for_posts|posts_per_page|posts_per_rss|rss_use_excerpt|sticky_posts|date_format|time_format|start_of_week|timezone_string|gmt_offset|WPLANG|site_icon|site_logo|stylesheet|template|sidebars_widgets|widget_.*|theme_mods_.*|show_avatars|avatar_.*|thread_comments.*|page_comments|comments_per_page|default_comments_page|comment_order|comment_registration)$/';

	/** @var array<string, array<string, true>> URLs to purge, by the home URL of their site. */
	private static array $urls = array();
	/** @var array<int, array<int, true>> Posts whose pages are looked up once more at the end, by site. */
	private static array $posts = array();
	/** Whether this answer's header says that it is not to be kept. */
	private static bool $told = false;

	public static function start(): void {
		// A post's pages as they were, and (at the end of the request) as they are.
		add_action( 'pre_post_update', array( self::class, 'post' ) );
		add_action( 'before_delete_post', array( self::class, 'post' ) );
		add_action( 'before_delete_post', fn( $id, $post ) => self::post_status( 'deleted', $post->post_status, $post ), 10, 2 );
		add_action( 'transition_post_status', array( self::class, 'post_status' ), 10, 3 );
		add_action( 'post_updated', array( self::class, 'page_in_lists' ), 10, 3 );
		add_action( 'set_object_terms', fn( $id, $terms, $new, $taxonomy, $append, $old ) => self::terms_left( $id, array_diff( $old, $new ), $taxonomy ), 10, 6 );
		add_action( 'deleted_term_relationships', array( self::class, 'terms_left' ), 10, 3 );
		foreach ( array( 'added_post_meta', 'updated_post_meta', 'deleted_post_meta' ) as $hook ) {
			add_action( $hook, fn( $ids, $post, $key ) => '_thumbnail_id' === $key && self::post( $post ), 10, 3 );
		}

		add_action( 'wp_insert_comment', fn( $id, $comment ) => self::comment( $comment ), 10, 2 );
		add_action( 'edit_comment', fn( $id ) => self::comment( get_comment( $id ) ) );
		add_action( 'transition_comment_status', fn( $new, $old, $comment ) => in_array( 'approved', array( $new, $old ), true ) && self::post( $comment->comment_post_ID ), 10, 3 );

		foreach ( array( 'woocommerce_update_product', 'woocommerce_product_set_stock_status', 'woocommerce_variation_set_stock_status', 'woocommerce_update_product_variation' ) as $hook ) {
			add_action( $hook, fn( $id ) => self::post( 'product_variation' === get_post_type( $id ) ? wp_get_post_parent_id( $id ) : $id ) );
		}
		foreach ( array( 'woocommerce_product_set_stock', 'woocommerce_variation_set_stock' ) as $hook ) {
			add_action( $hook, fn( $product ) => self::post( $product->get_parent_id() ?: $product->get_id() ) );
		}

		foreach ( array( 'edited_term', 'delete_term' ) as $hook ) {
			add_action( $hook, fn( $id, $tt_id, $taxonomy ) => ( 'nav_menu' === $taxonomy || is_taxonomy_viewable( $taxonomy ) ) && self::everything(), 10, 3 );
		}
		foreach ( array( 'added_option', 'updated_option', 'deleted_option' ) as $hook ) {
			add_action( $hook, fn( $name ) => preg_match( self::OPTIONS, $name ) && self::everything() );
		}
		// An author's name is below all their posts. Customers change their profiles, too, and have none.
		add_action( 'profile_update', fn( $id ) => count_user_posts( $id, get_post_types( array( 'public' => true ) ), true ) > 0 && self::everything() );
		foreach ( array( 'deleted_user', 'edit_attachment', 'delete_attachment', 'switch_theme', 'customize_save_after', 'wp_update_nav_menu', 'permalink_structure_changed', 'activated_plugin', 'deactivated_plugin', 'upgrader_process_complete' ) as $hook ) {
			add_action( $hook, array( self::class, 'everything' ), 10, 0 );
		}

		// Before WordPress lets go of the answer, so that its reader finds the new pages; and once more for what others do at last.
		add_action( 'shutdown', array( self::class, 'send' ), 0, 0 );
		add_action( 'shutdown', array( self::class, 'send' ), PHP_INT_MAX, 0 );
		if ( ! is_admin() && in_array( $_SERVER['REQUEST_METHOD'] ?? '', array( 'GET', 'HEAD' ), true ) ) {
			header_register_callback( array( self::class, 'tell' ) );
			add_action( 'shutdown', array( self::class, 'told_too_late' ), -1, 0 );
		}
	}

	/** All pages of the current site. */
	public static function everything(): void {
		self::add( array( home_url( '/.*' ) ) );
	}

	/** The pages that show a post, if it is public. */
	public static function post( $id ): void {
		$post = get_post( (int) $id );
		// Imports change many: no need to look up what goes anyway.
		if ( $post && is_post_publicly_viewable( $post ) && ! isset( self::$urls[ home_url( '/' ) ][ home_url( '/.*' ) ] ) ) {
			self::add( self::urls_of( $post ) );
			self::$posts[ get_current_blog_id() ][ $post->ID ] = true;
		}
	}

	public static function post_status( $new, $old, WP_Post $post ): void {
		if ( ! is_post_status_viewable( (string) $new ) && ! is_post_status_viewable( (string) $old ) ) {
			return;
		}
		if ( in_array( $post->post_type, self::EVERYWHERE, true ) ) {
			self::everything();
		} elseif ( is_post_type_viewable( $post->post_type ) ) {
			self::$posts[ get_current_blog_id() ][ $post->ID ] = true;
			if ( $new !== $old && is_post_type_hierarchical( $post->post_type ) ) {
				self::everything();
			}
		}
	}

	/** Menus and lists show pages by these; below a page, URLs begin with its own. */
	public static function page_in_lists( int $id, WP_Post $after, WP_Post $before ): void {
		if ( ! is_post_type_hierarchical( $after->post_type ) || ! is_post_publicly_viewable( $after ) ) {
			return;
		}
		foreach ( array( 'post_title', 'post_name', 'post_parent', 'menu_order' ) as $field ) {
			if ( (string) $after->$field !== (string) $before->$field ) {
				self::everything();
			}
		}
	}

	/** The archives of terms that a post has no more. */
	public static function terms_left( $id, array $tt_ids, string $taxonomy ): void {
		$post = get_post( (int) $id );
		if ( ! $post || ! is_post_publicly_viewable( $post ) || ! is_object_in_taxonomy( $post->post_type, $taxonomy ) ) {
			return;
		}
		foreach ( $tt_ids as $tt_id ) {
			self::add( self::urls_of_term( get_term_by( 'term_taxonomy_id', (int) $tt_id, $taxonomy ) ) );
		}
		self::post( $post->ID );
	}

	/** Lists show how many comments a post has: it is as if the post had changed. */
	private static function comment( ?WP_Comment $comment ): void {
		if ( $comment && '1' === (string) $comment->comment_approved ) {
			self::post( $comment->comment_post_ID );
		}
	}

	/** @return string[] */
	private static function urls_of( WP_Post $post ): array {
		// WordPress renames a post before it says that it moves it to the trash.
		$urls   = self::below( str_replace( '__trashed', '', (string) get_permalink( $post ) ) );
		$urls[] = home_url( '/' );
		foreach ( array( 'page/.*', 'feed/.*', 'comments/feed/.*', 'wp-sitemap.*', 'sitemap.*', $post->post_type . '-sitemap.*' ) as $path ) {
			$urls[] = home_url( '/' . $path );
		}
		foreach ( get_object_taxonomies( $post ) as $taxonomy ) {
			foreach ( get_the_terms( $post, $taxonomy ) ?: array() as $term ) {
				array_push( $urls, ...self::urls_of_term( $term ) );
			}
		}
		$lists = array( (string) get_post_type_archive_link( $post->post_type ) );
		if ( 'post' === $post->post_type ) {
			list( $year, $month, $day ) = explode( '-', substr( $post->post_date, 0, 10 ) );
			array_push( $lists, get_year_link( $year ), get_month_link( $year, $month ), get_day_link( $year, $month, $day ) );
		}
		// Other posts may be below these: not everything there.
		foreach ( array_filter( $lists ) as $list ) {
			$list = trailingslashit( strtok( $list, '?' ) );
			array_push( $urls, $list, $list . 'page/.*', $list . 'feed/.*' );
		}
		if ( ! is_post_type_hierarchical( $post->post_type ) ) {
			array_push( $urls, ...self::below( get_author_posts_url( (int) $post->post_author ) ), ...self::neighbours( $post ) );
		}
		return $urls;
	}

	/** The posts before and after it, which link to it. @return string[] */
	private static function neighbours( WP_Post $post ): array {
		$urls            = array();
		$before          = $GLOBALS['post'] ?? null;
		$GLOBALS['post'] = $post; // where get_adjacent_post() looks
		foreach ( array( true, false ) as $previous ) {
			$neighbour = get_adjacent_post( false, '', $previous );
			if ( $neighbour instanceof WP_Post ) {
				array_push( $urls, ...self::below( (string) get_permalink( $neighbour ) ) );
			}
		}
		$GLOBALS['post'] = $before;
		return $urls;
	}

	/** The archives of a term and of those above it. @return string[] */
	private static function urls_of_term( $term ): array {
		if ( ! $term instanceof WP_Term || ! is_taxonomy_viewable( $term->taxonomy ) ) {
			return array();
		}
		$urls = array();
		foreach ( array( $term->term_id, ...get_ancestors( $term->term_id, $term->taxonomy, 'taxonomy' ) ) as $id ) {
			$link = get_term_link( $id, $term->taxonomy );
			array_push( $urls, ...( is_string( $link ) ? self::below( $link ) : array() ) );
		}
		return $urls;
	}

	/** A page with its further pages, feeds and embeds; but the front page alone. @return string[] */
	private static function below( string $url ): array {
		$url = trailingslashit( strtok( $url, '?' ) );
		return array( home_url( '/' ) === $url ? $url : $url . '.*' );
	}

	/** @param string[] $urls */
	private static function add( array $urls ): void {
		$home                = home_url( '/' );
		self::$urls[ $home ] = array_fill_keys( $urls, true ) + ( self::$urls[ $home ] ?? array() );
		$everything          = $home . '.*';
		if ( isset( self::$urls[ $home ][ $everything ] ) || count( self::$urls[ $home ] ) > self::MOST_URLS ) {
			self::$urls[ $home ] = array( $everything => true );
		}
	}

	/** Sends what has come together. Whether all went well. */
	public static function send(): bool {
		foreach ( self::$posts as $blog => $posts ) {
			$switched = is_multisite() && get_current_blog_id() !== $blog && switch_to_blog( $blog );
			array_map( array( self::class, 'post' ), array_keys( $posts ) );
			if ( $switched ) {
				restore_current_blog();
			}
		}
		$urls        = array_keys( array_merge( ...array_values( self::$urls ) ) );
		self::$urls  = array();
		self::$posts = array();
		if ( ! $urls ) {
			return true;
		}
		/** The URLs to purge; `.*` at the end of one stands for all that begin so. */
		$urls = array_unique( (array) apply_filters( 'nostat_purge_urls', $urls ) );
		$well = true;
		foreach ( self::servers() as $server ) {
			foreach ( $urls as $url ) {
				$failure = self::purge( $server, $url );
				if ( null !== $failure ) {
					error_log( "Nostat Purge: $server did not purge $url: $failure" );
					$well = false;
					break; // nor will it the others, and somebody waits
				}
			}
		}
		return $well;
	}

	/** @return string[] */
	private static function servers(): array {
		$port    = wp_parse_url( home_url(), PHP_URL_PORT );
		$servers = defined( 'NOSTAT_PURGE_URL' ) ? NOSTAT_PURGE_URL : 'http://127.0.0.1' . ( $port ? ":$port" : '' );
		$servers = is_array( $servers ) ? $servers : explode( ',', (string) $servers );
		return array_map( fn( $server ) => rtrim( trim( $server ), '/' ), array_filter( $servers ) );
	}

	/** Why it failed, or null. */
	private static function purge( string $server, string $url ): ?string {
		$parts = wp_parse_url( $url );
		if ( empty( $parts['host'] ) ) {
			return 'not a whole URL';
		}
		$headers = array( 'Host' => $parts['host'] . ( isset( $parts['port'] ) ? ":{$parts['port']}" : '' ) );
		if ( defined( 'NOSTAT_PURGE_TOKEN' ) ) {
			$headers['X-Purge-Token'] = NOSTAT_PURGE_TOKEN;
		}
		$answer = wp_remote_request(
			$server . ( $parts['path'] ?? '/' ),
			array( 'method' => 'PURGE', 'headers' => $headers, 'timeout' => self::TIMEOUT, 'redirection' => 0 )
		);
		if ( is_wp_error( $answer ) ) {
			return $answer->get_error_message();
		}
		$status = wp_remote_retrieve_response_code( $answer );
		// Any web server may say 200 to a method that it does not know.
		return 200 === $status && preg_match( '/^\d+ purged/', wp_remote_retrieve_body( $answer ) ) ? null : "status $status, and not what Nostat says";
	}

	/** Whether plugins say that this answer is for one visitor. */
	private static function is_personal(): bool {
		return defined( 'DONOTCACHEPAGE' ) && DONOTCACHEPAGE;
	}

	/** Called when PHP is about to send the header. */
	public static function tell(): void {
		if ( ! self::is_personal() ) {
			return;
		}
		self::$told = true;
		if ( ! preg_grep( '/^Cache-Control:.*\b(no-store|private)\b/i', headers_list() ) ) {
			header( 'Cache-Control: no-store, private' );
		}
	}

	/** Where a plugin said so in the midst of the page: what is purged while it is being made is not kept. */
	public static function told_too_late(): void {
		$path = (string) strtok( $_SERVER['REQUEST_URI'] ?? '', '?' );
		// A visitor's path must not become a purge of more than itself.
		$is_order = preg_match( '~\.\*$|^/+purgeall/*$~', rawurldecode( $path ) );
		if ( self::is_personal() && ! self::$told && headers_sent() && ! $is_order ) {
			self::add( array( 'http://' . ( $_SERVER['HTTP_HOST'] ?? '' ) . $path ) );
		}
	}

	/** wp nostat purge [<url>...] [--all] */
	public static function command( array $urls, array $options ): void {
		if ( ! empty( $options['all'] ) ) {
			self::everything();
		} elseif ( $urls ) {
			self::add( $urls );
		} else {
			WP_CLI::error( 'Name URLs, or say --all.' );
		}
		self::send() ? WP_CLI::success( 'Purged.' ) : WP_CLI::error( 'Not purged everywhere; the error log has why.' );
	}
}

Nostat_Purge::start();
if ( defined( 'WP_CLI' ) && WP_CLI ) {
	WP_CLI::add_command( 'nostat purge', array( 'Nostat_Purge', 'command' ), array( 'shortdesc' => "Has Nostat forget pages: those of these URLs ('.*' at an end: all that begin so), or all of the site." ) );
}
