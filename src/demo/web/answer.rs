//! The answer to a request: status, headers, and the body as it goes over the wire.

use std::io::Write;
use std::time::{Duration, SystemTime};

use super::draw::{Dice, Purpose, draw};
use super::log::{Counters, Fault};
use super::page::{Encoding, Framing, Kind, Manner};
use super::paths::{Target, What};
use super::plan::{Plan, host_number};
use super::render::Desk;
use super::request::Request;
use super::robots::RobotsFile;

/// What a host does for the first time or not: bits for [`Counters::first_time`].
const REFUSED: u8 = 0;
const RESET: u8 = 1;

/// How an answer is to be sent; its bytes are in [`Answerer::head`] and [`Answerer::body`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// The host whose answer it is; none for a stray request.
    pub(super) host: Option<u32>,
    /// The page that is complete once all bytes are sent.
    pub(super) page: Option<u32>,
    pub(super) delivery: Delivery,
    /// The connection ends with it.
    pub(super) close: bool,
}

/// How fast an answer is sent, and how much of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    Whole,
    /// In a few pieces, over this time.
    Dribble {
        total_ms: u64,
    },
    /// Half of it, and then a reset.
    Cut,
}

/// Composes answers into buffers that are used again for each.
#[derive(Default)]
pub(super) struct Answerer {
    pub(super) head: Vec<u8>,
    pub(super) body: Vec<u8>,
    spare: Vec<u8>,
    desk: Desk,
}

impl Answerer {
    /// Composes the answer to `request`. `likely` is the host whose listener took it in.
    pub(super) fn compose(
        &mut self,
        plan: &Plan,
        counters: &Counters,
        request: &Request<'_>,
        likely: u32,
        now: SystemTime,
    ) -> Answer {
        self.head.clear();
        self.body.clear();
        let Some(host) = find_host(plan, request.authority, likely) else {
            counters.stray(request.authority, request.path);
            counters.line(request.authority, request.path, 404);
            self.say(404, "No such host.");
            return self.finish(request, None);
        };
        counters.begin(host);
        let authority = &*plan.hosts[host as usize].authority;
        let found = plan.find(host, request.path, &mut self.spare);
        let fault = match found {
            Some(What::Forbidden(_)) => Some(Fault::Forbidden),
            Some(What::Phantom) => Some(Fault::Phantom),
            Some(What::CalendarOn(_) | What::LongOn(_)) => Some(Fault::Trap),
            None => Some(Fault::Unknown),
            _ => None,
        };
        if let Some(fault) = fault {
            counters.fault(fault, authority, request.path);
        }
        let mut delivery = Delivery::Whole;
        let status = match found {
            Some(What::Page(number)) => match self.page(plan, counters, request, host, number, now)
            {
                Ok(answer) => {
                    counters.line(authority, request.path, 200);
                    return answer;
                }
                Err(status) => status,
            },
            Some(What::Robots | What::MovedRobots) => self.robots(plan, counters, host, found),
            Some(What::Missing(_)) | None => self.say(404, "Not here."),
            Some(What::Gone) => self.say(410, "Not here any more."),
            Some(What::Failing) => self.say(500, "It will not get better."),
            Some(What::Cut) => {
                delivery = Delivery::Cut;
                self.say(200, &"This will not end well. ".repeat(100))
            }
            // Phantoms, forbidden pages and traps are there, so that a crawler that comes in
            // goes on coming in.
            Some(What::CalendarOn(_)) => self.say(
                200,
                &format!(
                    "<a href=\"{}/next\">on</a>",
                    String::from_utf8_lossy(request.path)
                ),
            ),
            Some(What::LongOn(depth)) => {
                self.spare.clear();
                plan.push_path(
                    Target {
                        host,
                        what: What::LongOn(depth + 1),
                    },
                    &mut self.spare,
                );
                let link = format!(
                    "<a href=\"{}\">on</a>",
                    String::from_utf8_lossy(&self.spare)
                );
                self.say(200, &link)
            }
            Some(What::Forbidden(_) | What::Phantom) => {
                self.say(200, "You should not have come here.")
            }
            Some(what) => self.redirect(plan, Target { host, what }),
        };
        counters.line(authority, request.path, status);
        let answer = self.finish(request, Some(host));
        Answer {
            delivery,
            close: answer.close || delivery == Delivery::Cut,
            ..answer
        }
    }

    /// Composes a page, or says with which status it is refused for now.
    fn page(
        &mut self,
        plan: &Plan,
        counters: &Counters,
        request: &Request<'_>,
        host: u32,
        number: u32,
        now: SystemTime,
    ) -> Result<Answer, u16> {
        let mut delivery = Delivery::Whole;
        match plan.manner(host, number) {
            Manner::Prompt => {}
            Manner::Slow { total_ms } => delivery = Delivery::Dribble { total_ms },
            Manner::ResetFirst if counters.first_time(host, RESET) => delivery = Delivery::Cut,
            Manner::RefusedFirst { status, as_date } if counters.first_time(host, REFUSED) => {
                self.say(status, "Come back later.");
                let wait = match as_date {
                    // A date has whole seconds: two from now are more than one.
                    true => httpdate::fmt_http_date(now + Duration::from_secs(2)),
                    false => "1".to_owned(),
                };
                self.header("Retry-After", &wait);
                return Err(status);
            }
            Manner::ResetFirst | Manner::RefusedFirst { .. } => {}
        }
        plan.body(host, number, &mut self.desk, &mut self.body);
        let (encoding, framing) = plan.wire(host, number);
        self.status(200, framing == Framing::Http10);
        let kind = plan.kind(host, number);
        if let Some(content_type) = content_type(kind) {
            self.header("Content-Type", content_type);
        }
        if kind == Kind::NoFollowHeader {
            self.header("X-Robots-Tag", "nofollow");
        }
        self.encode(encoding, request);
        let page = (delivery != Delivery::Cut && !request.head_only).then(|| plan.id(host, number));
        let answer = match framing {
            Framing::Length => self.finish(request, Some(host)),
            Framing::Close | Framing::Http10 => {
                self.header("Connection", "close");
                self.end_head(request);
                Answer {
                    close: true,
                    ..self.whole(request, Some(host))
                }
            }
            Framing::Chunked => {
                self.header("Transfer-Encoding", "chunked");
                self.chunk(Dice::new(plan.spec.seed, Purpose::Wire, host, number));
                self.end_connection(request);
                self.end_head(request);
                self.whole(request, Some(host))
            }
        };
        Ok(Answer {
            page,
            delivery,
            close: answer.close || delivery == Delivery::Cut,
            ..answer
        })
    }

    fn robots(&mut self, plan: &Plan, counters: &Counters, host: u32, found: Option<What>) -> u16 {
        let file = plan.hosts[host as usize].robots;
        if found == Some(What::Robots) {
            counters.robots_asked(host);
            match file {
                RobotsFile::Missing => return self.say(404, "No rules."),
                RobotsFile::Moved => {
                    return self.redirect(
                        plan,
                        Target {
                            host,
                            what: What::Robots,
                        },
                    );
                }
                _ => {}
            }
        }
        self.status(200, false);
        self.header("Content-Type", "text/plain; charset=utf-8");
        self.body.extend_from_slice(file.text().as_bytes());
        200
    }

    fn redirect(&mut self, plan: &Plan, from: Target) -> u16 {
        let Some(to) = plan.redirect(from) else {
            return self.say(404, "Not here.");
        };
        self.spare.clear();
        plan.push_path(from, &mut self.spare);
        let drawn = self.spare.iter().fold(
            draw(plan.spec.seed, Purpose::Redirect, from.host, 0),
            |sum, &byte| sum.wrapping_mul(31).wrapping_add(byte.into()),
        );
        let status = [301, 302, 303, 307, 308][(drawn % 5) as usize];
        self.say(status, "It has moved.");
        self.head.extend_from_slice(b"Location: ");
        match (to.what, (drawn >> 8) % 4) {
            // From `/go/12/3` to `/go/12/2`.
            (What::Hop { left, .. }, 0 | 1) => {
                self.head.extend_from_slice(left.to_string().as_bytes())
            }
            (_, 0) if to.host == from.host => {
                self.head.extend_from_slice(b"/nowhere/..");
                plan.push_path(to, &mut self.head);
            }
            (_, 1) if to.host == from.host => plan.push_path(to, &mut self.head),
            (_, 2) => {
                plan.push_url(to, &mut self.head);
                self.head.extend_from_slice(b"#top");
            }
            _ => plan.push_url(to, &mut self.head),
        }
        self.head.extend_from_slice(b"\r\n");
        status
    }

    /// A short HTML answer of `status`, whose link is not to be followed unless it is 200.
    fn say(&mut self, status: u16, text: &str) -> u16 {
        self.status(status, false);
        self.header("Content-Type", "text/html; charset=utf-8");
        self.body.extend_from_slice(
            format!("<html><body><p>{text}</p><a href=\"/phantom/status-{status}\">on</a></body></html>\n").as_bytes(),
        );
        status
    }

    fn status(&mut self, status: u16, old: bool) {
        let reason = match status {
            200 => "OK",
            301 => "Moved Permanently",
            302 => "Found",
            303 => "See Other",
            307 => "Temporary Redirect",
            308 => "Permanent Redirect",
            404 => "Not Found",
            410 => "Gone",
            429 => "Too Many Requests",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        };
        self.head
            .extend_from_slice(if old { b"HTTP/1.0 " } else { b"HTTP/1.1 " });
        super::paths::push_number(&mut self.head, status.into());
        self.head.push(b' ');
        self.head.extend_from_slice(reason.as_bytes());
        self.head.extend_from_slice(b"\r\n");
    }

    fn header(&mut self, name: &str, value: &str) {
        for part in [name, ": ", value, "\r\n"] {
            self.head.extend_from_slice(part.as_bytes());
        }
    }

    /// Ends a head whose body has a known length.
    fn finish(&mut self, request: &Request<'_>, host: Option<u32>) -> Answer {
        self.head.extend_from_slice(b"Content-Length: ");
        super::paths::push_number(&mut self.head, self.body.len() as u32);
        self.head.extend_from_slice(b"\r\n");
        self.end_connection(request);
        self.end_head(request);
        self.whole(request, host)
    }

    fn end_connection(&mut self, request: &Request<'_>) {
        if !request.keep_alive {
            self.header("Connection", "close");
        }
    }

    fn end_head(&mut self, request: &Request<'_>) {
        self.head.extend_from_slice(b"\r\n");
        if request.head_only {
            self.body.clear();
        }
    }

    fn whole(&self, request: &Request<'_>, host: Option<u32>) -> Answer {
        Answer {
            host,
            page: None,
            delivery: Delivery::Whole,
            close: !request.keep_alive,
        }
    }

    /// Compresses the body if the client takes it.
    fn encode(&mut self, encoding: Encoding, request: &Request<'_>) {
        let fast = flate2::Compression::fast();
        self.spare.clear();
        // Writing to memory does not fail.
        let (name, written) = match encoding {
            Encoding::Gzip if request.gzip => {
                let mut encoder = flate2::write::GzEncoder::new(&mut self.spare, fast);
                (
                    "gzip",
                    encoder
                        .write_all(&self.body)
                        .and_then(|()| encoder.finish().map(drop)),
                )
            }
            Encoding::Deflate if request.deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(&mut self.spare, fast);
                (
                    "deflate",
                    encoder
                        .write_all(&self.body)
                        .and_then(|()| encoder.finish().map(drop)),
                )
            }
            Encoding::Brotli if request.brotli => {
                let settings = brotli::enc::BrotliEncoderParams {
                    quality: 1,
                    lgwin: 16,
                    ..Default::default()
                };
                (
                    "br",
                    brotli::BrotliCompress(&mut self.body.as_slice(), &mut self.spare, &settings)
                        .map(drop),
                )
            }
            _ => return,
        };
        if written.is_ok() {
            std::mem::swap(&mut self.body, &mut self.spare);
            self.header("Content-Encoding", name);
        }
    }

    /// Cuts the body into chunks of odd sizes, some with an extension, with a trailer in the end.
    fn chunk(&mut self, mut dice: Dice) {
        self.spare.clear();
        let mut rest = self.body.as_slice();
        while !rest.is_empty() {
            let (chunk, others) = rest.split_at((1 + dice.below(5_000) as usize).min(rest.len()));
            let size = match dice.below(4) {
                0 => format!("{:X}", chunk.len()),
                // `ureq` takes no size line of more than 20 bytes.
                1 => format!("{:x};n=\"v; w\"", chunk.len()),
                2 => format!("00{:x}", chunk.len()),
                _ => format!("{:x}", chunk.len()),
            };
            self.spare.extend_from_slice(size.as_bytes());
            self.spare.extend_from_slice(b"\r\n");
            self.spare.extend_from_slice(chunk);
            self.spare.extend_from_slice(b"\r\n");
            rest = others;
        }
        self.spare.extend_from_slice(b"0\r\n");
        self.spare.extend_from_slice(if dice.one_in(2) {
            b"X-Trailer: end\r\n\r\n"
        } else {
            b"\r\n"
        });
        std::mem::swap(&mut self.body, &mut self.spare);
    }
}

fn find_host(plan: &Plan, authority: &str, likely: u32) -> Option<u32> {
    if *plan.hosts[likely as usize].authority == *authority {
        return Some(likely);
    }
    let name = authority.split(':').next()?.to_ascii_lowercase();
    host_number(plan.spec.naming, &name).filter(|&host| (host as usize) < plan.hosts.len())
}

fn content_type(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::NoType => return None,
        Kind::Text => "text/plain; charset=utf-8",
        Kind::Pdf => "application/pdf",
        Kind::Png => "image/png",
        Kind::Latin1Header => "text/html; charset=iso-8859-1",
        Kind::Windows1251 => "Text/HTML; Charset=\"Windows-1251\"",
        Kind::Utf8Bom | Kind::Utf16Le => "text/html",
        _ => "text/html; charset=utf-8",
    })
}
