//! Just enough of HTTP/1.1 to read the requests of a crawler: GET and HEAD without a body.

/// The largest request head that is read; a longer one is refused.
pub(super) const MAX_HEAD_BYTES: usize = 16 * 1024;

/// A request head, borrowed from the connection's buffer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request<'a> {
    pub(super) head_only: bool,
    /// Path and query.
    pub(super) path: &'a [u8],
    /// The `Host` header.
    pub(super) authority: &'a str,
    /// The `User-Agent` header.
    pub(super) agent: &'a [u8],
    pub(super) keep_alive: bool,
    pub(super) gzip: bool,
    pub(super) deflate: bool,
    pub(super) brotli: bool,
}

/// What a connection's buffer starts with.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read<'a> {
    /// A whole head of this many bytes.
    Head(Request<'a>, usize),
    /// The beginning of one.
    Partial,
    /// Something else, or more than we care to read.
    Bad,
}

/// Reads the head that `buffer` starts with.
pub(super) fn read(buffer: &[u8]) -> Read<'_> {
    let Some(end) = memchr::memmem::find(buffer, b"\r\n\r\n") else {
        return if buffer.len() < MAX_HEAD_BYTES {
            Read::Partial
        } else {
            Read::Bad
        };
    };
    match parse(&buffer[..end]) {
        Some(request) => Read::Head(request, end + 4),
        None => Read::Bad,
    }
}

fn parse(head: &[u8]) -> Option<Request<'_>> {
    let mut lines = head
        .split(|&byte| byte == b'\n')
        .map(<[u8]>::trim_ascii_end);
    let mut first = lines.next()?.split(|&byte| byte == b' ');
    let (method, path, version) = (first.next()?, first.next()?, first.next()?);
    if first.next().is_some() || !path.starts_with(b"/") {
        return None;
    }
    let mut request = Request {
        head_only: match method {
            b"GET" => false,
            b"HEAD" => true,
            _ => return None,
        },
        path,
        authority: "",
        agent: b"",
        keep_alive: match version {
            b"HTTP/1.1" => true,
            b"HTTP/1.0" => false,
            _ => return None,
        },
        gzip: false,
        deflate: false,
        brotli: false,
    };
    for line in lines {
        let colon = memchr::memchr(b':', line)?;
        let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
        if name.eq_ignore_ascii_case(b"host") {
            request.authority = std::str::from_utf8(value).ok()?;
        } else if name.eq_ignore_ascii_case(b"user-agent") {
            request.agent = value;
        } else if name.eq_ignore_ascii_case(b"connection") {
            request.keep_alive = match value {
                value if value.eq_ignore_ascii_case(b"close") => false,
                value if value.eq_ignore_ascii_case(b"keep-alive") => true,
                _ => request.keep_alive,
            };
        } else if name.eq_ignore_ascii_case(b"accept-encoding") {
            for offer in value.split(|&byte| byte == b',') {
                let mut parts = offer.split(|&byte| byte == b';').map(<[u8]>::trim_ascii);
                let coding = parts.next()?;
                if parts.next() == Some(b"q=0") {
                    continue;
                }
                request.gzip |= coding.eq_ignore_ascii_case(b"gzip");
                request.deflate |= coding.eq_ignore_ascii_case(b"deflate");
                request.brotli |= coding.eq_ignore_ascii_case(b"br");
            }
        } else if name.eq_ignore_ascii_case(b"content-length")
            || name.eq_ignore_ascii_case(b"transfer-encoding")
        {
            return None;
        }
    }
    Some(request)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_one_request_of_several_and_leaves_the_rest() {
        let one = b"GET /a?b HTTP/1.1\r\nHost: h\r\nUser-Agent: x\r\nAccept-Encoding: gzip, br;q=0\r\n\r\n";
        let both = [one.as_slice(), b"HEAD / HTTP/1.0\r\nhost: x\r\n\r\n"].concat();
        let Read::Head(first, length) = read(&both) else {
            panic!("no request")
        };
        assert_eq!(
            (first.path, first.authority, length),
            (b"/a?b".as_slice(), "h", one.len())
        );
        assert_eq!(first.agent, b"x");
        assert!(first.gzip && !first.brotli && first.keep_alive && !first.head_only);
        let Read::Head(second, _) = read(&both[length..]) else {
            panic!("no request")
        };
        assert!(second.head_only && !second.keep_alive);
        assert_eq!(second.authority, "x");
    }

    #[test]
    fn waits_for_the_end_of_a_head_but_not_for_ever() {
        assert_eq!(read(b"GET / HTTP/1.1\r\nHost: h\r\n"), Read::Partial);
        assert_eq!(read(&vec![b'a'; MAX_HEAD_BYTES]), Read::Bad);
        for bad in [
            "POST / HTTP/1.1\r\n\r\n",
            "GET http://h/ HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nnonsense\r\n\r\n",
        ] {
            assert_eq!(read(bad.as_bytes()), Read::Bad, "{bad}");
        }
    }
}
