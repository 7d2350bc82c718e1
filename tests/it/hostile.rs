//! A small web whose servers can be told to misbehave, over real sockets.
//!
//! Each site has a loopback address of its own, so that the crawler takes it for a host
//! of its own, and answers connections as its closure says. Every thread has a name and
//! is joined when the web is dropped: whoever still talks then is cut off.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use socket2::{Domain, SockRef, Socket, Type};

/// See the module.
#[derive(Default)]
pub struct HostileWeb {
    sites: Vec<Listener>,
    /// Bound, so that nobody else gets their ports, but not listening.
    dead: Vec<Socket>,
}

struct Listener {
    address: SocketAddr,
    open: Arc<Open>,
    thread: JoinHandle<()>,
}

/// What a site has open.
#[derive(Default)]
struct Open {
    is_stopping: AtomicBool,
    connections: Mutex<Vec<(Weak<TcpStream>, JoinHandle<()>)>>,
}

/// A site that runs.
#[derive(Clone)]
pub struct Site {
    /// Where it listens.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Site {
    /// A URL on this site.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The paths that were asked for, in order, robots.txt included.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    /// How often this path was asked for.
    pub fn asked_for(&self, path: &str) -> usize {
        let requests = self.requests.lock().unwrap();
        requests.iter().filter(|asked| *asked == path).count()
    }
}

impl HostileWeb {
    /// The URL of a host where nobody listens.
    pub fn dead(&mut self) -> String {
        let address = SocketAddr::from((self.next_ip(), 0));
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        socket.bind(&address.into()).unwrap();
        let bound = socket.local_addr().unwrap().as_socket().unwrap();
        self.dead.push(socket);
        format!("http://{bound}/")
    }

    /// Connections that are open.
    pub fn open_connections(&self) -> usize {
        let open = |site: &Listener| {
            let connections = site.open.connections.lock().unwrap();
            let is_open = |(stream, _): &&(Weak<TcpStream>, _)| stream.strong_count() > 0;
            connections.iter().filter(is_open).count()
        };
        self.sites.iter().map(open).sum()
    }

    /// An address that no other site of this web has, apart from those of the built-in
    /// web, which other tests serve.
    fn next_ip(&self) -> Ipv4Addr {
        let number = 1 + self.sites.len() + self.dead.len();
        Ipv4Addr::new(127, 200, 0, u8::try_from(number).unwrap())
    }

    /// A site that is given each connection as it comes.
    pub fn raw(&mut self, talk: impl Fn(&TcpStream) + Send + Sync + 'static) -> Site {
        let listener = TcpListener::bind((self.next_ip(), 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let open = Arc::new(Open::default());
        let thread = {
            let open = open.clone();
            let talk = Arc::new(talk);
            named(format!("site-{}", address.ip()), move || {
                open.accept(&listener, &talk);
            })
        };
        self.sites.push(Listener {
            address,
            open,
            thread,
        });
        Site {
            address,
            requests: Arc::default(),
        }
    }

    /// A site that is given each request, as a path and where to write the answer to.
    /// An error ends the connection.
    pub fn http(
        &mut self,
        answer: impl Fn(&str, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Site {
        let requests = Arc::<Mutex<Vec<String>>>::default();
        let log = requests.clone();
        let site = self.raw(move |stream| {
            let mut reader = BufReader::new(stream);
            while let Some(path) = next_path(&mut reader) {
                log.lock().unwrap().push(path.clone());
                if answer(&path, stream).is_err() {
                    return;
                }
            }
        });
        Site { requests, ..site }
    }

    /// The same, for a site that has no robots.txt.
    pub fn pages(
        &mut self,
        answer: impl Fn(&str, &TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Site {
        self.http(move |path, stream| match path {
            "/robots.txt" => respond(stream, "404 Not Found", "", b""),
            _ => answer(path, stream),
        })
    }
}

impl Open {
    fn accept<T>(&self, listener: &TcpListener, talk: &Arc<T>)
    where
        T: Fn(&TcpStream) + Send + Sync + 'static,
    {
        for (number, stream) in listener.incoming().enumerate() {
            let stream = stream.unwrap();
            // Under the lock, so that `drop` either sees the connection or stops it here.
            let mut connections = self.connections.lock().unwrap();
            if self.is_stopping.load(SeqCst) {
                return;
            }
            let stream = Arc::new(stream);
            let (weak, talk) = (Arc::downgrade(&stream), talk.clone());
            let talk = move || talk(&stream);
            connections.push((weak, named(format!("connection-{number}"), talk)));
        }
    }
}

impl Drop for HostileWeb {
    fn drop(&mut self) {
        for site in self.sites.drain(..) {
            site.open.is_stopping.store(true, SeqCst);
            // Wakes the thread that accepts.
            drop(TcpStream::connect(site.address));
            let is_sound = site.thread.join().is_ok();
            let connections = std::mem::take(&mut *site.open.connections.lock().unwrap());
            for (stream, thread) in connections {
                // Without an upgrade, it has ended by itself.
                let _closed = stream.upgrade().map(|open| open.shutdown(Shutdown::Both));
                let is_sound = thread.join().is_ok();
                assert!(is_sound || thread::panicking(), "a connection panicked");
            }
            assert!(is_sound || thread::panicking(), "a site panicked");
        }
    }
}

fn named(name: String, work: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    thread::Builder::new().name(name).spawn(work).unwrap()
}

/// The path of the next request; none at the end of the connection.
pub fn next_path(reader: &mut impl BufRead) -> Option<String> {
    let mut first = String::new();
    reader.read_line(&mut first).ok()?;
    let path = first.split(' ').nth(1)?.to_owned();
    let mut line = String::new();
    while reader.read_line(&mut line).ok()? > 2 {
        line.clear();
    }
    Some(path)
}

/// Writes a whole answer; `headers` are lines that end in CR LF.
pub fn respond(mut stream: impl Write, status: &str, headers: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n{headers}\r\n");
    stream.write_all(&[head.as_bytes(), body].concat())
}

/// Writes an HTML page.
pub fn page(stream: impl Write, body: impl AsRef<[u8]>) -> io::Result<()> {
    let headers = "Content-Type: text/html\r\n";
    respond(stream, "200 OK", headers, body.as_ref())
}

/// Writes a redirect.
pub fn redirect(stream: impl Write, to: &str) -> io::Result<()> {
    respond(stream, "302 Found", &format!("Location: {to}\r\n"), b"")
}

/// Says nothing more until the other side goes.
pub fn stay_silent(mut stream: &TcpStream) -> io::Result<()> {
    io::copy(&mut stream, &mut io::sink())?;
    hang_up()
}

/// Says the same thing a hundred times a second, until the other side goes.
pub fn drip(mut stream: &TcpStream, drop: &[u8]) -> io::Result<()> {
    stream.set_read_timeout(Some(Duration::from_millis(10)))?;
    // A client that waits for an answer says nothing, so that each look takes 10 ms.
    while stream.peek(&mut [0]).is_err() {
        stream.write_all(drop)?;
    }
    hang_up()
}

/// Ends the connection from within an answer.
pub fn hang_up() -> io::Result<()> {
    Err(io::ErrorKind::ConnectionAborted.into())
}

/// Ends the connection with a reset instead of a proper end.
pub fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))?;
    hang_up()
}
