//! How the robots rules of an origin are had (RFC 9309, section 2.3).

use std::sync::Arc;

use peercrawl_overlay::PeerId;
use url::Url;

use super::connection::Connection;
use super::decode::decode;
use super::fetch::{Answer, BodyLimit, FetchError, Fetcher, receipt};
use crate::blocklist::BlockList;
use crate::clock::Clock;
use crate::config::Settings;
use crate::counters::ErrorKind;
use crate::receipts::{Receipts, RobotsVerdict};
use crate::resolver::{self, NameService, names};
use crate::robots::{PARSED_LIMIT_BYTES, Robots};

/// Redirects that are followed for robots.txt, also to other hosts.
const MOST_REDIRECTS: usize = 5;

/// What came of asking.
pub enum RobotsOutcome {
    /// These are the rules. A server that has none (4xx) allows everything.
    Rules(Robots),
    /// The server is in trouble: until it answers, nothing is allowed.
    Busy {
        /// How it put that.
        status: u16,
        /// `Retry-After`, if it said so.
        retry_after: Option<String>,
    },
    /// There was no answer.
    Failed(FetchError),
}

/// Asks for robots.txt.
pub struct RobotsFetch<'a> {
    /// Sends the requests.
    pub fetcher: &'a Fetcher,
    /// Knows where redirects to other hosts lead.
    pub names: &'a Arc<dyn NameService>,
    /// The bounds, and the agent that rules are looked up by.
    pub settings: &'a Settings,
    /// Hosts that are not visited, whoever leads there.
    pub blocklist: &'a BlockList,
    /// Where each request is written down.
    pub receipts: &'a Receipts,
    /// The peer whose URL makes us ask.
    pub asked_by: Option<PeerId>,
    /// The time.
    pub clock: Clock,
}

impl RobotsFetch<'_> {
    /// Asks the origin (`scheme://host:port`) over its site's connection.
    pub fn run(&self, origin: &str, connection: &mut Connection) -> RobotsOutcome {
        let mut url = match Url::parse(origin).and_then(|base| base.join("/robots.txt")) {
            Ok(url) => url,
            // An origin comes out of a canonical URL; this cannot be reached.
            Err(_) => return RobotsOutcome::Rules(Robots::disallow_all()),
        };
        let mut elsewhere: Option<Connection> = None;
        for _ in 0..=MOST_REDIRECTS {
            let connection = elsewhere.as_mut().unwrap_or(connection);
            // One byte more than is parsed, so that the parser sees that it was cut.
            let limit = BodyLimit::Beginning(PARSED_LIMIT_BYTES + 1);
            let at_ms = self.clock.now_ms();
            let result = self.fetcher.get(connection, url.as_str(), limit);
            self.receipts.give(|| {
                let robots = RobotsVerdict::RulesFile;
                receipt(at_ms, url.as_str(), &result, robots, self.asked_by)
            });
            let answer = match result {
                Ok(answer) => answer,
                Err(error) => return RobotsOutcome::Failed(error),
            };
            match answer.status {
                200..=299 => return self.parse(answer),
                429 | 500..=599 => {
                    return RobotsOutcome::Busy {
                        status: answer.status,
                        retry_after: answer.retry_after,
                    };
                }
                300..=399 => {
                    let target = answer.location.and_then(|to| url.join(&to).ok());
                    let Some(target) = target.filter(|to| matches!(to.scheme(), "http" | "https"))
                    else {
                        break;
                    };
                    if target.origin() != url.origin() {
                        if self
                            .blocklist
                            .is_blocked(target.host_str().unwrap_or_default())
                        {
                            // Its rules are where we do not go: so nothing is allowed.
                            return RobotsOutcome::Rules(Robots::disallow_all());
                        }
                        match self.connect_to(&target) {
                            Ok(connection) => elsewhere = Some(connection),
                            Err(error) => return RobotsOutcome::Failed(error),
                        }
                    }
                    url = target;
                }
                _ => break,
            }
        }
        // No rules, or none that could be reached: the server has not spoken.
        RobotsOutcome::Rules(Robots::allow_all())
    }

    fn parse(&self, answer: Answer) -> RobotsOutcome {
        let header = answer.content_encoding.as_deref();
        match decode(answer.body, header, 4 * PARSED_LIMIT_BYTES) {
            Ok(text) => {
                let agent = &self.settings.politeness.agent;
                RobotsOutcome::Rules(Robots::parse(&text, agent))
            }
            Err(error) => {
                RobotsOutcome::Failed(FetchError::Failed(ErrorKind::Other, error.to_string()))
            }
        }
    }

    /// A connection to where a redirect leads; the guard looks at it like at any other.
    fn connect_to(&self, url: &Url) -> Result<Connection, FetchError> {
        let host = url.host_str().unwrap_or_default();
        let found = names::addresses_of(&**self.names, host)
            .map_err(|error| FetchError::Failed(ErrorKind::Dns, error.to_string()))?;
        let judged = resolver::judge(found, self.settings.network.allow_private, 0);
        Ok(self.fetcher.dialer.connection(judged.allowed))
    }
}
