from h import *
import shutil,random
shutil.rmtree('/tmp/attack/t21',ignore_errors=True)
o=Origin(); n=N(site(o,'{store: disk, valid: 1h}'),'page_store: {memory: 8MiB, disk: 64MiB, dir: /tmp/attack/t21/pages}',name='t21')
bad=0; bad2=0
for k in range(14):
    V=b'r%d'%k; o.h=lambda m,t,hd,c:o.ok(V)
    n.raw(b'PURGE /.* HTTP/1.1\r\nHost: h\r\n\r\n')
    for i in range(40): n.get('/p%d'%i)
    time.sleep(random.random()*1.4)
    # two concurrent purges; kill as soon as one has answered
    a,b=n.conn(),n.conn(); rq=b'PURGE /.* HTTP/1.1\r\nHost: h\r\n\r\n'
    a.sendall(rq); b.sendall(rq)
    import select; select.select([a,b],[],[]); 
    n.kill(9); V2=b'new'; o.h=lambda m,t,hd,c:o.ok(V2); n.start()
    x=[n.get('/p%d'%i).body for i in range(40)]; bad+=sum(y!=b'new' for y in x)
print('pages back after purge+kill -9:',bad)
# reload with queued writes -> InUse -> purge -> restart
o.h=lambda m,t,hd,c:o.ok(b'old'); DS=n.site; MS=site(o,'{store: memory, valid: 1h}')
n.raw(b'PURGE /.* HTTP/1.1\r\nHost: h\r\n\r\n')
for i in range(40): n.get('/p%d'%i)
time.sleep(1.5)
for i in range(40,80): n.get('/p%d'%i)
n.write(MS); subprocess.run(['/tmp/nostat-pc2','reload','--socket',n.sock],capture_output=True); n.write(DS); subprocess.run(['/tmp/nostat-pc2','reload','--socket',n.sock],capture_output=True)
print(n.log().count('another process')); o.h=lambda m,t,hd,c:o.ok(b'new'); print(n.raw(b'PURGE /.* HTTP/1.1\r\nHost: h\r\n\r\n')); n.kill(15); n.start(); print('old pages after purge+restart:',sum(n.get('/p%d'%i).body==b'old' for i in range(80)))
