//! What becomes of a directive that no part takes over: nothing to do, done elsewhere, or left out; with the sentence
//! that says what to do.

/// What to say of a directive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advice {
    /// Nothing: Nostat does it, or has no such thing to set.
    Nothing,
    /// It is done in another way.
    Note(&'static str),
    /// What it did is not done.
    LeftOut(&'static str),
}

/// The advice on a directive by its name; a name that ends with a star stands for all that begin so.
#[must_use]
pub fn on(name: &str) -> Advice {
    let is = |pattern: &str| match pattern.strip_suffix('*') {
        Some(start) => name.starts_with(start),
        None => name == pattern,
    };
    let said = |list: &[(&[&str], &'static str)]| {
        let found = list.iter().find(|(names, _)| names.iter().any(|n| is(n)));
        found.map(|(_, text)| *text)
    };
    if let Some(text) = said(LEFT_OUT) {
        Advice::LeftOut(text)
    } else if let Some(text) = said(NOTES) {
        Advice::Note(text)
    } else if NOTHING.split_ascii_whitespace().any(is) {
        Advice::Nothing
    } else {
        Advice::LeftOut(
            "not known to nostat import: see whether the site needs it, and keep it in the server in front",
        )
    }
}

/// Whether a switch stands where Nostat has it anyway.
#[must_use]
pub fn is_default(name: &str, value: &str) -> bool {
    match value {
        "on" => ON.contains(&name),
        "off" => !ON.contains(&name),
        _ => false,
    }
}

/// Switches that are always on; of others that are told about, off is what Nostat does.
const ON: [&str; 5] = [
    "etag",
    "merge_slashes",
    "ignore_invalid_headers",
    "fastcgi_buffering",
    "proxy_buffering",
];

/// What is not done, and what to do.
const LEFT_OUT: &[(&[&str], &str)] = &[
    (
        &["rewrite"],
        "see redirects: [{from, to, status}]; paths are not rewritten here",
    ),
    (
        &["if"],
        "conditions are not taken over: keep it in the server in front, if the site needs it",
    ),
    (
        &["auth_request", "auth_jwt*"],
        "nobody else is asked who may pass: keep this path in the server in front, or see auth: [{match, users_file}]",
    ),
    (
        &["limit_req", "limit_conn"],
        "see rate_limits: {match, rate, burst} for each path; logins, xmlrpc.php and what is missing are limited by default. \
         For connections: limits: {connections_per_address}",
    ),
    (
        &["limit_rate*"],
        "answers are sent as fast as the client takes them: keep it in the server in front",
    ),
    (
        &["limit_except"],
        "methods are not restricted by path: WordPress judges them; keep it in the server in front",
    ),
    (
        &["map", "geo", "split_clients", "geoip*"],
        "variables are not taken over: see which directives use them",
    ),
    (
        &[
            "sub_filter*",
            "addition_types",
            "add_before_body",
            "add_after_body",
            "ssi*",
            "xslt*",
            "image_filter*",
        ],
        "answers are not rewritten here: do it in the theme or in the server in front",
    ),
    (
        &["mirror*"],
        "requests are not copied: keep it in the server in front",
    ),
    (
        &[
            "*_by_lua*",
            "access_by_lua*",
            "content_by_lua*",
            "rewrite_by_lua*",
            "init_by_lua*",
            "log_by_lua*",
            "header_filter_by_lua*",
            "body_filter_by_lua*",
            "set_by_lua*",
            "init_worker_by_lua*",
            "lua_*",
            "js_*",
            "perl*",
        ],
        "programs are not run here: keep it in the server in front",
    ),
    (
        &[
            "modsecurity*",
            "naxsi*",
            "SecRules*",
            "MainRule",
            "BasicRule",
        ],
        "there is no filter of attacks here: keep it in the server in front",
    ),
    (
        &["alias"],
        "a site has one root: link the folder into it (link_targets), or keep the location in the server in front",
    ),
    (
        &["autoindex*", "fancyindex*", "random_index"],
        "folders are not listed",
    ),
    (
        &[
            "dav_methods",
            "dav_*",
            "mp4*",
            "flv",
            "empty_gif",
            "secure_link*",
            "userid*",
            "slice",
            "grpc_pass",
            "uwsgi_pass",
            "scgi_pass",
            "memcached_pass",
        ],
        "not done here: keep it in the server in front",
    ),
    (
        &["allow", "deny"],
        "addresses are not told apart: keep it in the server in front",
    ),
    (
        &[
            "fastcgi_hide_header",
            "proxy_hide_header",
            "more_clear_headers",
            "more_clear_input_headers",
        ],
        "fields of answers are passed on as they are; expose_php = Off in php.ini removes X-Powered-By",
    ),
    (
        &["more_set_headers", "more_set_input_headers"],
        "write it as headers: of the site for files; for pages it is PHP's or the server in front's",
    ),
    (&["add_trailer"], "trailers are not sent"),
    (
        &["disable_symlinks"],
        "see the key symlinks: beneath is the default, which stays below the root; off follows none",
    ),
    (
        &["fastcgi_store*", "proxy_store*"],
        "answers are not written into the tree: see page_cache",
    ),
    (
        &["fastcgi_buffering", "proxy_buffering"],
        "answers are buffered while the client is slower than PHP, and sent as they come",
    ),
    (
        &[
            "proxy_ssl*",
            "proxy_bind*",
            "fastcgi_bind",
            "proxy_protocol*",
        ],
        "not done towards an origin: keep a server between",
    ),
    (
        &["ssl_password_file"],
        "keys are read without a password: write them anew (openssl pkey), readable for user alone",
    ),
    (
        &["ssl_verify_depth", "ssl_crl", "ssl_ocsp*"],
        "certificates of clients are judged by client_ca alone",
    ),
    (
        &["stream", "mail", "rtmp"],
        "only HTTP is served: keep it in nginx",
    ),
    (
        &[
            "merge_slashes",
            "underscores_in_headers",
            "ignore_invalid_headers",
            "msie_*",
        ],
        "requests are read strictly by RFC 9110; see whether the site needs it",
    ),
    (&["etag"], "see the key etag; it cannot be turned off"),
    (
        &["try_files"],
        "only the front controller of the site is taken over",
    ),
    (
        &["return"],
        "fixed answers are not made here: keep it in the server in front",
    ),
    (
        &["include"],
        "the file is not there: import it where it is, or copy it beside this one",
    ),
    (&["root"], "a site has one root"),
];

/// What is done in another way.
const NOTES: &[(&[&str], &str)] = &[
    (
        &["error_page"],
        "pages of errors are WordPress' or Nostat's own; keep other ones in the server in front",
    ),
    (
        &[
            "charset",
            "charset_map",
            "source_charset",
            "override_charset",
        ],
        "text is sent as UTF-8; headers: {Content-Type} says another by pattern",
    ),
    (
        &[
            "gzip",
            "brotli",
            "zstd",
            "gzip_static",
            "gzip_min_length",
            "gunzip",
        ],
        "compression and precompressed are for all of a site",
    ),
    (
        &["gzip_types", "brotli_types", "zstd_types"],
        "all text, JSON, XML, SVG and fonts are compressed; compression: {types: […]} names others for answers of PHP",
    ),
    (
        &["ssl_ciphers", "ssl_conf_command"],
        "ciphers are rustls' own choice, none of them weak",
    ),
    (
        &["http3*", "quic*"],
        "HTTP/3 is not spoken: clients take HTTP/2",
    ),
    (
        &["stub_status", "vhost_traffic*"],
        "see admin: {socket: …}, nostat status and GET /metrics",
    ),
    (
        &["log_format", "log_subrequest", "open_log_file_cache"],
        "the access log has the formats combined and json",
    ),
    (
        &["fastcgi_cache_purge", "proxy_cache_purge"],
        "purges are taken from this machine, as Nginx Helper and others send them; see purge: of page_cache",
    ),
    (
        &["fastcgi_cache_path", "proxy_cache_path"],
        "see page_store: {memory, disk, dir} for the sizes",
    ),
    (
        &["worker_rlimit_nofile"],
        "raise the limit on open files of the service (LimitNOFILE); Nostat shares it out by itself",
    ),
    (
        &["fastcgi_request_buffering", "proxy_request_buffering"],
        "bodies are always taken in whole before PHP is taken (spool)",
    ),
    (&["resolver*"], "names are looked up by the system"),
    (&["valid_referers"], "see the conditions that use it"),
];

/// What needs nothing.
const NOTHING: &str = "\
    grpc_* memcached_* scgi_* uwsgi_* \
    absolute_redirect accept_mutex* access_log aio* break brotli_* charset_types gzip_* http2_* ssl_* zstd_* \
    chunked_transfer_encoding client_body_buffer_size client_body_in_* client_body_temp_path \
    client_header_buffer_size connection_pool_size daemon debug_* default_type directio* env error_log events \
    fastcgi_* if_modified_since index internal keepalive_disable keepalive_min_timeout keepalive_time \
    limit_conn_* limit_req_* lingering_* load_module lock_file log_not_found map_hash_* master_process \
    max_ranges multi_accept output_buffers pcre_jit pid port_in_redirect postpone_output proxy_* read_ahead \
    real_ip_recursive recursive_error_pages request_pool_size reset_timedout_connection rewrite_log \
    satisfy_any send_lowat sendfile* server_name_in_redirect server_names_hash_* server_tokens set \
    subrequest_output_buffer_size tcp_nodelay tcp_nopush thread_pool timer_resolution types types_hash_* \
    uninitialized_variable_warn upstream use variables_hash_* worker_*";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_directive_has_one_answer() {
        assert_eq!(on("sendfile"), Advice::Nothing);
        assert_eq!(on("worker_connections"), Advice::Nothing);
        assert!(matches!(on("worker_rlimit_nofile"), Advice::Note(_)));
        assert!(matches!(on("gzip_types"), Advice::Note(_)));
        assert_eq!(on("ssl_session_cache"), Advice::Nothing);
        assert!(matches!(on("ssl_crl"), Advice::LeftOut(_)));
        assert!(matches!(on("fastcgi_hide_header"), Advice::LeftOut(_)));
        assert!(matches!(on("limit_req"), Advice::LeftOut(_)));
        assert_eq!(on("limit_req_zone"), Advice::Nothing);
        assert!(matches!(on("no_such_thing"), Advice::LeftOut(said) if said.contains("not known")));
    }
}
