#!/usr/bin/env python3
"""verify.py [BASE_URL]: a user's and an editor's way through the WordPress of up.sh, over any front end.

BASE_URL defaults to http://127.0.0.1:8080. Reads $WP_STATE/credentials.
Standard library only. Bounded: about 200 requests, up to 70 s. Closes with 'N passed, N failed'; exit 1 on a failure.
-v prints each passed check too.
"""
import base64, html, http.client, json, os, re, ssl, sys, time, urllib.parse, zlib, struct, hashlib

args = [a for a in sys.argv[1:] if not a.startswith('-')]
VERBOSE = '-v' in sys.argv
BASE = (args[0] if args else 'http://127.0.0.1:8080').rstrip('/')
STATE = os.environ.get('WP_STATE', '/var/tmp/nostat-wordpress')
U = urllib.parse.urlsplit(BASE)
CRED = dict(l.strip().split('=', 1) for l in open(STATE + '/credentials') if '=' in l)
CRED = {k: v.strip('"') for k, v in CRED.items()}
RUN = '%x' % int(time.time() * 1000)
passed = failed = 0


class R:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def h(self, name):
        return self.headers.get(name)

    @property
    def text(self):
        return self.body.decode('utf-8', 'replace')


class Client:
    """One kept-alive connection and a cookie jar (name -> value; deleted when emptied)."""
    def __init__(self):
        self.c, self.jar = None, {}

    def req(self, method, path, body=None, headers=None, follow=0):
        if path.startswith(BASE):
            path = path[len(BASE):] or '/'
        hd = {'User-Agent': 'wpref-verify', 'Accept': '*/*'}
        if self.jar:
            hd['Cookie'] = '; '.join(f'{k}={v}' for k, v in self.jar.items())
        hd.update(headers or {})
        for attempt in (0, 1):
            if self.c is None:
                if U.scheme == 'https':
                    ctx = ssl.create_default_context(); ctx.check_hostname = False; ctx.verify_mode = ssl.CERT_NONE
                    self.c = http.client.HTTPSConnection(U.hostname, U.port or 443, timeout=60, context=ctx)
                else:
                    self.c = http.client.HTTPConnection(U.hostname, U.port or 80, timeout=60)
            try:
                self.c.request(method, path, body=body, headers=hd, encode_chunked='Transfer-Encoding' in hd)
                r = self.c.getresponse(); data = r.read(); break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
                self.c.close(); self.c = None            # a kept-alive connection that the server closed
                if attempt: raise
        for sc in r.headers.get_all('Set-Cookie') or []:
            k, v = sc.split(';', 1)[0].split('=', 1)
            if re.search(r'expires=Thu, 01[ -]Jan[ -]1970|Max-Age=0\b', sc, re.I) or v.strip() in ('', '+', '%20'):
                self.jar.pop(k, None)
            else:
                self.jar[k] = v
        if r.will_close:
            self.c.close(); self.c = None
        res = R(r.status, r.headers, data)
        if follow and r.status in (301, 302, 303, 307, 308):
            return self.req('GET', r.headers['Location'], headers=headers, follow=follow - 1)
        return res

    def get(self, path, follow=0, **h):
        return self.req('GET', path, headers={k.replace('_', '-'): v for k, v in h.items()}, follow=follow)

    def form(self, path, data, **h):
        hd = {'Content-Type': 'application/x-www-form-urlencoded'}
        hd.update({k.replace('_', '-'): v for k, v in h.items()})
        return self.req('POST', path, urllib.parse.urlencode(data).encode(), hd)


def check(name, ok, detail=''):
    global passed, failed
    if ok:
        passed += 1
        if VERBOSE: print('ok   ', name)
    else:
        failed += 1
        print('FAIL ', name, '-', str(detail)[:300])
    return ok


def group(fn):
    try:
        fn()
    except Exception as e:                               # one broken group must not hide the others
        check(fn.__name__, False, f'{type(e).__name__}: {e}')


def png(w, h, seed):
    raw = b''.join(b'\0' + bytes((x * seed + y * 7) & 255 for x in range(w * 3)) for y in range(h))
    ch = lambda t, d: struct.pack('>I', len(d)) + t + d + struct.pack('>I', zlib.crc32(t + d))
    return b'\x89PNG\r\n\x1a\n' + ch(b'IHDR', struct.pack('>IIBBBBB', w, h, 8, 2, 0, 0, 0)) + ch(b'IDAT', zlib.compress(raw, 6)) + ch(b'IEND', b'')


def multipart(fields, name, filename, ctype, data):
    b = '----wpref' + RUN
    out = b''.join(f'--{b}\r\nContent-Disposition: form-data; name="{k}"\r\n\r\n{v}\r\n'.encode() for k, v in fields.items())
    out += f'--{b}\r\nContent-Disposition: form-data; name="{name}"; filename="{filename}"\r\nContent-Type: {ctype}\r\n\r\n'.encode() + data + f'\r\n--{b}--\r\n'.encode()
    return out, {'Content-Type': f'multipart/form-data; boundary={b}'}


anon, admin = Client(), Client()


def front():
    r = anon.get('/')
    check('home page 200', r.status == 200 and 'Reference post 12' in r.text, (r.status, r.text[:100]))
    check('home page links to this host and port', f'{BASE}/2024/03/12/reference-post-12/' in r.text, re.findall(r'https?://[^/"\']+', r.text)[:3])
    r = anon.get('/2024/03/05/reference-post-5/')
    check('pretty permalink 200', r.status == 200 and 'Comment 2 on post 5' in r.text, r.status)
    check('thumbnails in srcset', r.text.count('-1024x683.jpg') >= 1 and 'srcset=' in r.text)
    r = anon.get('/about/team/'); check('child page 200', r.status == 200 and '<title>Team' in r.text, r.status)
    r = anon.get('/page/2/'); check('second page of the loop', r.status == 200 and 'Reference post 1' in r.text, r.status)
    r = anon.get('/category/news/'); check('category 200', r.status == 200 and 'Reference post 11' in r.text, r.status)
    r = anon.get('/?s=post+7'); check('search finds', r.status == 200 and 'Reference post 7' in r.text, r.status)
    r = anon.get('/?s=' + urllib.parse.quote('zürück & <b>+100%')); check('search: encoded query arrives whole', 'zürück &amp; &lt;b&gt;+100%' in r.text, re.findall(r'Results? for[^<]*<[^<]*', r.text)[:1])
    r = anon.get('/feed/'); check('feed', r.status == 200 and 'xml' in (r.h('Content-Type') or '') and '<rss' in r.text, (r.status, r.h('Content-Type')))
    lm, et = r.h('Last-Modified'), r.h('ETag')
    check('feed has validators', bool(lm and et), (lm, et))
    if et:
        r = anon.get('/feed/', If_None_Match=et, If_Modified_Since=lm)
        check('feed 304 from PHP', r.status == 304 and r.body == b'', r.status)
    r = anon.get('/robots.txt'); check('robots.txt by WordPress', r.status == 200 and 'Disallow: /wp-admin/' in r.text, r.status)
    r = anon.get('/wp-sitemap.xml'); check('sitemap', r.status == 200 and '<sitemapindex' in r.text, r.status)
    r = anon.get('/favicon.ico'); check('favicon redirects to the site icon', r.status == 302 and '/wp-content/uploads/' in (r.h('Location') or ''), (r.status, r.h('Location')))
    r = anon.get('/?p=1'); check('plain link 301 to the permalink on this port', r.status == 301 and (r.h('Location') or '').startswith(BASE + '/'), (r.status, r.h('Location')))
    r = anon.get('/2024/03/05/reference-post-5'); check('missing slash 301', r.status == 301 and r.h('Location') == BASE + '/2024/03/05/reference-post-5/', (r.status, r.h('Location')))
    r = anon.get('/no/such/page/'); check("404 page is WordPress's", r.status == 404 and 'error404' in r.text, (r.status, r.text[:80]))
    r = anon.get('/wp-content/no-such.css'); check('a missing asset is 404, by the server or by WordPress', r.status == 404, (r.status, r.text[:80]))
    r = anon.get('/no-such-page/at-all/'); check("404 of a missing page is WordPress's", r.status == 404 and 'error404' in r.text, (r.status, r.text[:80]))
    r = anon.req('HEAD', '/'); check('HEAD: 200 and no body', r.status == 200 and r.body == b'', (r.status, len(r.body)))
    r = anon.get('/index.php/2024/03/05/reference-post-5/', follow=2); check('PATH_INFO permalink: answered, no 5xx', r.status < 500, r.status)


def https_detection():
    r = anon.get('/', X_Forwarded_Proto='https')
    want = 'https://' + U.netloc
    check('X-Forwarded-Proto https: links become https', r.status == 200 and f'{want}/2024/03/12/' in r.text and f'http://{U.netloc}/2024' not in r.text, r.status)


def static():
    for path, ctype in (('/wp-includes/css/dist/block-library/style.min.css', 'text/css'), ('/wp-includes/js/jquery/jquery.min.js', 'javascript'),
                        ('/wp-content/uploads/2024/03/ref-image-01.jpg', 'image/jpeg'), ('/wp-content/uploads/2024/03/ref-image-01-300x200.jpg', 'image/jpeg'),
                        ('/wp-content/uploads/2024/03/ref-image-15.png', 'image/png'), ('/wp-content/uploads/2024/03/ref-image-18.webp', 'image/webp'),
                        ('/wp-includes/images/w-logo-blue-white-bg.png', 'image/png'), ('/wp-content/uploads/edge/empty.txt', 'text/plain')):
        n = path.rsplit('/', 1)[1]
        disk = open(STATE + '/site' + path, 'rb').read()
        r = anon.get(path + '?ver=6.1.9')
        check(f'{n}: 200 {ctype}, bytes as on disk', r.status == 200 and r.body == disk and ctype in (r.h('Content-Type') or ''), (r.status, r.h('Content-Type'), len(r.body), len(disk)))
        check(f'{n}: Content-Length, ETag, Last-Modified', r.h('Content-Length') == str(len(disk)) and r.h('ETag') and r.h('Last-Modified'), dict(r.headers))
        e, lm = r.h('ETag') or '', r.h('Last-Modified') or ''
        a, b = anon.get(path, If_None_Match=e), anon.get(path, If_Modified_Since=lm)
        check(f'{n}: 304 by ETag', a.status == 304 and a.body == b'' and a.h('ETag') == e, (a.status, a.h('ETag')))
        check(f'{n}: 304 by date', b.status == 304 and b.body == b'', b.status)
        a = anon.get(path, If_None_Match='"other"', If_Modified_Since=lm)
        check(f'{n}: another ETag wins over the date', a.status == 200, a.status)
        r = anon.req('HEAD', path)
        check(f'{n}: HEAD', r.status == 200 and r.body == b'' and r.h('Content-Length') == str(len(disk)), (r.status, r.h('Content-Length')))
    p = '/wp-content/uploads/edge/range.txt'
    r = anon.get(p, Range='bytes=10-19'); check('range 206', (r.status, r.body, r.h('Content-Range')) == (206, b'0123456789', 'bytes 10-19/1000'), (r.status, r.body[:20], r.h('Content-Range')))
    r = anon.get(p, Range='bytes=-5'); check('suffix range 206', (r.status, r.body) == (206, b'56789'), (r.status, r.body[:20]))
    r = anon.get(p, Range='bytes=2000-'); check('range 416', r.status == 416 and r.h('Content-Range') == 'bytes */1000', (r.status, r.h('Content-Range')))
    r = anon.get(p, Range='bytes=0-1', If_Range='"no"'); check('If-Range that does not match: 200', r.status == 200, r.status)
    for name in ('with space.txt', 'ünï.txt', '100%.txt', 'a+b.txt', 'a;b,c&d=e.txt', 'UPPER.CSS', 'noext', 'sub/deep.txt', 'big.bin'):
        disk = open(f'{STATE}/site/wp-content/uploads/edge/{name}', 'rb').read()
        r = anon.get('/wp-content/uploads/edge/' + urllib.parse.quote(name)); check(f'edge file {name!r}', r.status == 200 and r.body == disk, (r.status, len(r.body)))
    for path, bad in (('/wp-content/uploads/edge/.hidden.txt', b'hidden\n'), ('/wp-content/uploads/edge/link-outside.txt', open('/etc/hostname', 'rb').read()),
                      ('/wp-content/uploads/edge/evil.php', b'must not run'), ('/wp-content/uploads/edge/evil.php/x.jpg', b'must not run'), ('/wp-config.php', b'DB_PASSWORD'),
                      ('/wp-content/uploads/edge/one.txt/x.php', b'x'), ('/..%2f..%2f..%2fetc/passwd', b'root:'), ('/wp-content/../../etc/passwd', b'root:'), ('/wp-config.php%00.css', b'DB_PASSWORD')):
        r = anon.get(path); leak = r.body.strip() == bad.strip() if len(bad) < 80 and bad != b'root:' else bad in r.body
        check(f'not given away: {path}', r.status < 500 and not leak and (b'must not run' not in r.body) and b'<?php' not in r.body, (r.status, r.body[:60]))
    r = anon.req('POST', '/wp-includes/js/jquery/jquery.min.js', b'x=1'); check('POST to a static file: 405', r.status == 405, r.status)


def comment():
    r = anon.get('/2024/03/07/reference-post-7/')
    pid = re.search(r"name='comment_post_ID' value='(\d+)'", r.text).group(1)
    mark = f'A remark ünïcode {RUN}'
    r = anon.form('/wp-comments-post.php', {'comment': mark, 'author': 'Vera', 'email': 'vera@example.test', 'url': '', 'comment_post_ID': pid, 'comment_parent': 0, 'wp-comment-cookies-consent': 'yes', 'submit': 'Post'})
    loc = r.h('Location') or ''
    check('comment: 302 to the post on this host and port', r.status == 302 and loc.startswith(BASE + '/2024/03/07/reference-post-7/'), (r.status, loc, r.text[-200:]))
    sc = r.headers.get_all('Set-Cookie') or []
    check('comment: three cookies in three Set-Cookie lines', len(sc) == 3 and all(x.startswith('comment_author') for x in sc), sc)
    r = anon.get(loc.split('#')[0]); check('comment is shown', mark in r.text, r.status)
    r = anon.form('/wp-comments-post.php', {'comment': '', 'comment_post_ID': pid}); check('empty comment refused by WordPress', r.status in (200, 400, 409) and 'wp-die' in r.text, r.status)
    p = Client()
    r = p.get('/2024/02/01/secret-post/'); check('protected post asks for its password', 'post_password' in r.text, r.status)
    r = p.form('/wp-login.php?action=postpass', {'post_password': 'sesame', 'Submit': 'Enter'}, Referer=BASE + '/2024/02/01/secret-post/')
    r2 = p.get('/2024/02/01/secret-post/'); check('protected post opens by cookie', r.status == 302 and 'A static file that has been opened' in r2.text, (r.status, r2.status))


def login():
    r = anon.get('/wp-admin/'); loc = r.h('Location') or ''
    check('wp-admin/ sends a stranger to the login page here', r.status == 302 and loc.startswith(BASE + '/wp-login.php?redirect_to=') and urllib.parse.quote(BASE + '/wp-admin/', safe='') in loc, (r.status, loc))
    r = anon.get('/wp-admin'); check('/wp-admin without slash: 301 to the slash, or to WordPress, same port', r.status in (301, 302, 308) and urllib.parse.urlsplit(r.h('Location') or '').netloc in ('', U.netloc), (r.status, r.h('Location')))
    r = admin.get('/wp-login.php'); check('login page 200, test cookie', r.status == 200 and 'wordpress_test_cookie' in admin.jar and 'no-cache' in (r.h('Cache-Control') or ''), (r.status, admin.jar, r.h('Cache-Control')))
    r = admin.form('/wp-login.php', {'log': 'admin', 'pwd': 'wrong', 'testcookie': 1}); check('wrong password refused', r.status == 200 and 'login_error' in r.text, r.status)
    r = admin.form('/wp-login.php', {'log': CRED['WP_ADMIN_USER'], 'pwd': CRED['WP_ADMIN_PASS'], 'wp-submit': 'Log In', 'redirect_to': BASE + '/wp-admin/', 'testcookie': 1})
    check('login: 302 to wp-admin/', r.status == 302 and r.h('Location') == BASE + '/wp-admin/', (r.status, r.h('Location')))
    check('login: all cookies arrived', any(k.startswith('wordpress_logged_in_') for k in admin.jar) and len(r.headers.get_all('Set-Cookie') or []) >= 3, r.headers.get_all('Set-Cookie'))
    r = admin.get('/wp-admin/'); check('dashboard 200', r.status == 200 and 'id="wpadminbar"' in r.text, (r.status, r.h('Location')))
    for path in ('edit.php', 'upload.php', 'post-new.php', 'themes.php', 'plugins.php', 'users.php', 'options-general.php', 'options-permalink.php', 'edit-comments.php'):
        r = admin.get('/wp-admin/' + path); check(f'wp-admin/{path} 200', r.status == 200 and 'id="wpadminbar"' in r.text, (r.status, r.h('Location')))
    t = admin.get('/wp-admin/options-permalink.php').text
    check("permalink settings offer no /index.php/ prefix (WordPress reads SERVER_SOFTWARE: 'nginx' or 'Apache')", 'sample-post' in t and '/index.php/2' not in t, re.findall(r'https?://[^<"]*sample-post', t)[:1])
    t = admin.get('/wp-admin/').text
    for kind in ('styles', 'scripts'):
        m = re.search(rf'{BASE}(/wp-admin/load-{kind}\.php\?[^"\']+)', t) or re.search(rf'(/wp-admin/load-{kind}\.php\?[^"\']+)', t)
        r = admin.get(html.unescape(m.group(1))) if m else None
        check(f'load-{kind}.php (brackets in the query) 200', bool(r) and r.status == 200 and len(r.body) > 10000, r and (r.status, len(r.body)))
    r = admin.form('/wp-admin/admin-ajax.php', {'action': 'heartbeat', '_nonce': (re.search(r'heartbeatSettings = \{"nonce":"(\w+)"', t) or [0, ''])[1], 'screen_id': 'dashboard', 'has_focus': 'true'}, X_Requested_With='XMLHttpRequest')
    check('admin-ajax heartbeat', r.status == 200 and 'server_time' in r.text, (r.status, r.text[:80]))


def upload():
    t = admin.get('/wp-admin/media-new.php').text
    nonce = re.search(r'"_wpnonce":"(\w+)"', t) or re.search(r'name="_wpnonce" value="(\w+)"', t)
    img = png(900, 600, 3)
    b, h = multipart({'name': f'v-{RUN}.png', 'action': 'upload-attachment', '_wpnonce': nonce.group(1)}, 'async-upload', f'v-{RUN}.png', 'image/png', img)
    r = admin.req('POST', '/wp-admin/async-upload.php', b, h)
    j = json.loads(r.body)
    if not check('async-upload of a PNG', r.status == 200 and j.get('success'), (r.status, r.text[:200])): return
    url = j['data']['url']
    r = anon.get(url); check('the upload is served at once, whole', r.status == 200 and r.body == img, (r.status, len(r.body)))
    th = j['data']['sizes']['thumbnail']['url']
    r = anon.get(th); check('its thumbnail is served', r.status == 200 and r.body[:4] == b'\x89PNG', r.status)
    # a 404 first, then the file appears: a negative cache must not hide it for long
    r = admin.form('/wp-admin/admin-ajax.php', {'action': 'delete-post', 'id': j['data']['id'], '_ajax_nonce': j['data']['nonces']['delete'], '_wpnonce': j['data']['nonces']['delete']})
    check('delete through admin-ajax', r.status == 200 and r.text == '1', (r.status, r.text[:80]))
    gone = None
    t0 = time.time()
    while time.time() - t0 < 70:
        gone = anon.get(url).status
        if gone == 404: break
        time.sleep(1)
    check('the deleted file is gone (404) within 70 s', gone == 404, gone)
    if VERBOSE: print(f'      (gone after {time.time() - t0:.0f} s)')


def rest():
    r = anon.get('/wp-json/'); j = json.loads(r.body)
    check('/wp-json/ 200, this URL', r.status == 200 and j['url'] == BASE and j['name'] == 'Reference Site', (r.status, j.get('url')))
    r = anon.get('/wp-json/wp/v2/posts?per_page=3&_fields=id,slug'); check('posts, X-WP-Total', r.status == 200 and len(json.loads(r.body)) == 3 and int(r.h('X-WP-Total') or 0) >= 13, (r.status, r.h('X-WP-Total')))
    r = anon.get('/?rest_route=/wp/v2/types'); check('rest_route in the query', r.status == 200 and 'post' in json.loads(r.body), r.status)
    r = anon.req('OPTIONS', '/wp-json/wp/v2/posts'); check('OPTIONS describes', r.status == 200 and 'GET' in (r.h('Allow') or '') and b'"schema"' in r.body, (r.status, r.h('Allow')))
    r = anon.req('POST', '/wp-json/wp/v2/posts', b'{}', {'Content-Type': 'application/json'}); check('create without login: 401', r.status == 401, r.status)
    au = {'Authorization': 'Basic ' + base64.b64encode(f"{CRED['WP_ADMIN_USER']}:{CRED['WP_APP_PASSWORD']}".encode()).decode()}
    c = Client()
    r = c.req('GET', '/wp-json/wp/v2/users/me?context=edit', headers=au)
    if not check('application password (Authorization reaches PHP)', r.status == 200 and json.loads(r.body)['slug'] == 'admin', (r.status, r.text[:120])): return
    js = dict(au, **{'Content-Type': 'application/json'})
    r = c.req('POST', '/wp-json/wp/v2/posts', json.dumps({'title': 'Über ' + RUN, 'content': 'x' * 200000, 'status': 'publish'}).encode(), js); j = json.loads(r.body)
    check('POST a post of 200 kB: 201 with Location', r.status == 201 and (r.h('Location') or '').startswith(BASE), (r.status, r.text[:100]))
    pid = j['id']
    r = c.req('PUT', f'/wp-json/wp/v2/posts/{pid}', json.dumps({'title': 'Changed'}).encode(), js); check('PUT', r.status == 200 and json.loads(r.body)['title']['raw'] == 'Changed', r.status)
    r = c.req('PATCH', f'/wp-json/wp/v2/posts/{pid}', json.dumps({'title': 'Patched'}).encode(), js); check('PATCH', r.status == 200, r.status)
    r = anon.get(j['link']); check('the new post is at its permalink', r.status == 200 and 'x' * 1000 in r.text, r.status)
    r = c.req('DELETE', f'/wp-json/wp/v2/posts/{pid}?force=true', headers=au); check('DELETE', r.status == 200 and json.loads(r.body)['deleted'], r.status)
    r = c.req('POST', f'/wp-json/wp/v2/posts/{pid}', json.dumps({'title': 'x'}).encode(), dict(js, **{'X-HTTP-Method-Override': 'GET'})); check('X-HTTP-Method-Override', r.status == 404, r.status)
    for x in json.loads(c.req('GET', '/wp-json/wp/v2/comments?_fields=id&search=' + RUN, headers=au).body):   # what comment() left
        r = c.req('DELETE', f"/wp-json/wp/v2/comments/{x['id']}?force=true", headers=au); check('DELETE the comment', r.status == 200, r.status)
    img = png(640, 480, 5)
    r = c.req('POST', '/wp-json/wp/v2/media', img, dict(au, **{'Content-Type': 'image/png', 'Content-Disposition': f'attachment; filename="r-{RUN}.png"'})); j = json.loads(r.body)
    check('REST media upload: 201', r.status == 201, (r.status, r.text[:120]))
    if r.status == 201:
        r = anon.get(j['source_url']); check('REST upload is served', r.status == 200 and r.body == img, r.status)
        c.req('DELETE', f"/wp-json/wp/v2/media/{j['id']}?force=true", headers=au)
    x = "<?xml version='1.0'?><methodCall><methodName>demo.sayHello</methodName></methodCall>"
    r = anon.req('POST', '/xmlrpc.php', x.encode(), {'Content-Type': 'text/xml'}); check('xmlrpc', r.status == 200 and 'Hello!' in r.text, r.status)


def site_health():
    """WordPress core's own checks of its web server, run inside the site (they call back over HTTP)."""
    nonce = {'X-WP-Nonce': admin.get('/wp-admin/admin-ajax.php?action=rest-nonce').text}
    for t in ('loopback-requests', 'authorization-header'):      # the latter wants exactly user:pwd, beside the cookies
        r = admin.req('GET', f'/wp-json/wp-site-health/v1/tests/{t}', headers=dict(nonce, Authorization='Basic ' + base64.b64encode(b'user:pwd').decode()))
        check(f'site health: {t}', r.status == 200 and json.loads(r.body)['status'] == 'good', (r.status, r.text[:400]))


def fastcgi():
    c = Client()
    j = lambda r: json.loads(r.body)
    s = j(c.get('/wpref/env.php?a=1&b[]=x%20y&b[]=%C3%BC', X_Custom_Name='v', X_Forwarded_For='9.9.9.9', Proxy='http://evil/'))['server']
    check('QUERY_STRING and REQUEST_URI raw', s['QUERY_STRING'] == 'a=1&b[]=x%20y&b[]=%C3%BC' and s['REQUEST_URI'] == '/wpref/env.php?' + s['QUERY_STRING'], (s['QUERY_STRING'], s['REQUEST_URI']))
    check('HTTP_HOST with port', s['HTTP_HOST'] == U.netloc, s['HTTP_HOST'])
    check('headers become HTTP_*', s.get('HTTP_X_CUSTOM_NAME') == 'v', None)
    check('no HTTP_PROXY (httpoxy)', not s.get('HTTP_PROXY'), s.get('HTTP_PROXY'))
    for k in ('REQUEST_METHOD', 'SCRIPT_NAME', 'SCRIPT_FILENAME', 'DOCUMENT_ROOT', 'SERVER_PROTOCOL', 'SERVER_NAME', 'SERVER_PORT', 'SERVER_ADDR', 'REMOTE_ADDR', 'REMOTE_PORT', 'GATEWAY_INTERFACE', 'SERVER_SOFTWARE', 'REQUEST_SCHEME'):
        check(f'param {k}', bool(s.get(k)), s.get(k))
    check('SCRIPT_FILENAME below DOCUMENT_ROOT', s['SCRIPT_FILENAME'] == s['DOCUMENT_ROOT'] + '/wpref/env.php', (s['SCRIPT_FILENAME'], s['DOCUMENT_ROOT']))
    check('REMOTE_ADDR is the peer', s['REMOTE_ADDR'] in ('127.0.0.1', '::1'), s['REMOTE_ADDR'])
    body = os.urandom(3_000_000)
    g = j(c.req('POST', '/wpref/env.php', body, {'Content-Type': 'application/octet-stream'}))
    check('3 MB body whole', g['body_len'] == len(body) and g['body_sha1'] == hashlib.sha1(body).hexdigest(), g['body_len'])
    g = j(c.req('POST', '/wpref/env.php', iter([body[:70000], body[70000:100000]]), {'Content-Type': 'application/octet-stream', 'Transfer-Encoding': 'chunked'}))
    check('chunked request body, CONTENT_LENGTH given', g['body_len'] == 100000 and g['server'].get('CONTENT_LENGTH') == '100000', (g['body_len'], g['server'].get('CONTENT_LENGTH')))
    b, h = multipart({'f1': 'ü', 'f2': 'b'}, 'up', 'a.bin', 'application/x-y', body[:50000])
    g = j(c.req('POST', '/wpref/env.php', b, h)); check('multipart fields and file', g['post'] == {'f1': 'ü', 'f2': 'b'} and g['files']['up']['size'] == 50000, (g['post'], g['files']))
    r = c.req('POST', '/wpref/echo.php', body[:200000], {'Content-Type': 'application/x-echo'}); check('echo 200 kB, its type', r.body == body[:200000] and r.h('Content-Type').startswith('application/x-echo'), (len(r.body), r.h('Content-Type')))
    r = c.get('/wpref/gen.php?n=5000000'); check('5 MB response whole', r.status == 200 and len(r.body) == 5000000, len(r.body))
    r = c.get('/wpref/gen.php?n=100000&len=1'); check('Content-Length from PHP kept', r.h('Content-Length') == '100000' and len(r.body) == 100000, r.h('Content-Length'))
    r = c.get('/wpref/gen.php?n=5&status=418&h[X-A]=1&h[Set-Cookie][]=a%3D1&h[Set-Cookie][]=b%3D2'); check('status and repeated headers', r.status == 418 and r.h('X-A') == '1' and len(r.headers.get_all('Set-Cookie')) == 2, (r.status, dict(r.headers)))
    check('no Status header to the client', r.h('Status') is None, r.h('Status'))
    r = c.get('/wpref/gen.php?n=0&status=204'); check('204 without body', r.status == 204 and r.body == b'', r.status)
    r = c.get('/wpref/gen.php?n=10&h[Location]=/x'); check('Location makes a 302', r.status == 302 and r.h('Location') in ('/x', BASE + '/x'), (r.status, r.h('Location')))
    r = c.get('/wpref/gen.php?n=10&err=' + 'e' * 3000); check('FastCGI stderr does not break the answer', r.status == 200 and len(r.body) == 10, (r.status, len(r.body)))
    t0 = time.time()
    r = c.get('/wpref/gen.php?n=400&chunk=100&ms=100'); check('slow stream whole', len(r.body) == 400 and 0.3 < time.time() - t0 < 5, (len(r.body), time.time() - t0))


try:                                                     # is it our site at all? else leave that server alone
    r = anon.get('/wp-json/')
    if r.status != 200 or b'"name":"Reference Site"' not in r.body:
        raise ValueError(f'GET /wp-json/ answers {r.status} {r.body[:80]!r}')
except Exception as e:
    print(f'FAIL  no reference WordPress at {BASE}: {type(e).__name__}: {e}\n0 passed, 1 failed')
    sys.exit(2)
for g in (front, https_detection, static, fastcgi, comment, login, upload, rest, site_health):
    group(g)
print(f'{passed} passed, {failed} failed')
sys.exit(1 if failed else 0)
