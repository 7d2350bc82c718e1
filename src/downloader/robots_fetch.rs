//! How the robots rules of an origin are had (RFC 9309, section 2.3).
//!
//! One request at a time: where robots.txt leads elsewhere, the way is kept with the site,
//! and the next step is the site's next turn. A step to another host takes that host's turn
//! as well, so its address is left alone before and after it as for a page, and goes only
//! where a page could be fetched from.

use std::sync::Arc;

use peercrawl_overlay::PeerId;
use url::Url;

use super::connection::Connection;
use super::decode::decode_beginning;
use super::fetch::{Answer, BodyLimit, FetchError, Fetcher, receipt};
use crate::blocklist::BlockList;
use crate::clock::{Clock, Millis};
use crate::config::Settings;
use crate::counters::{Counters, ErrorKind};
use crate::crawl_jobs::{Addresses, CrawlJobs, Group};
use crate::distribution::Key;
use crate::limits::Stopwatch;
use crate::politeness::{Courtesy, Outage};
use crate::receipts::{Receipts, RobotsVerdict};
use crate::reputation::{self, ReputationGuard};
use crate::resolver::{self, NameService, names};
use crate::robots::{PARSED_LIMIT_BYTES, Robots};

/// Redirects that are followed for robots.txt, also to other hosts.
const MOST_REDIRECTS: u32 = 5;
/// How often the turn of another host is waited for.
const MOST_WAITS: u32 = 100;

/// Where the rules of an origin are to be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RobotsWay {
    origin: Box<str>,
    url: Url,
    redirects: u32,
    waits: u32,
}

impl RobotsWay {
    /// The way begins at the origin (`scheme://host:port`) itself.
    fn to(origin: &str) -> Option<Self> {
        let url = Url::parse(origin).and_then(|base| base.join("/robots.txt"));
        Some(Self {
            origin: origin.into(),
            url: url.ok()?,
            redirects: 0,
            waits: 0,
        })
    }
}

/// What a turn came to.
pub enum Step {
    /// The way ends here.
    End(RobotsOutcome),
    /// It leads on, to where this says.
    Further(RobotsWay),
    /// It was not the turn of the host where it leads, and will not be before this time.
    Wait(RobotsWay, Millis),
}

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

impl RobotsOutcome {
    /// Its rules are where we do not go: so nothing is allowed.
    fn out_of_reach() -> Self {
        Self::Rules(Robots::disallow_all())
    }
}

/// Asks for robots.txt on behalf of a leased site.
pub struct RobotsFetch<'a> {
    /// Sends the requests.
    pub fetcher: &'a Fetcher,
    /// Whose turn it is.
    pub jobs: &'a CrawlJobs,
    /// Knows where redirects to other hosts lead.
    pub names: &'a Arc<dyn NameService>,
    /// The bounds, and the agent that rules are looked up by.
    pub settings: &'a Settings,
    /// Hosts that are not visited, whoever leads there.
    pub blocklist: &'a BlockList,
    /// What sites think of us.
    pub reputation: &'a ReputationGuard,
    /// Whether it is our line that fails.
    pub outage: &'a Outage,
    /// What has been done.
    pub counters: &'a Counters,
    /// Where each request is written down.
    pub receipts: &'a Receipts,
    /// Where the site's own name leads.
    pub addresses: Addresses,
    /// The group that is leased with the site.
    pub group: Group,
    /// The peer whose URL makes us ask.
    pub asked_by: Option<PeerId>,
    /// The time.
    pub clock: Clock,
}

impl RobotsFetch<'_> {
    /// Does the next step of the way, or the first, over the site's connection if it leads
    /// to the site's origin.
    pub fn step(&self, origin: &str, way: Option<RobotsWay>, connection: &mut Connection) -> Step {
        let way = way.filter(|way| *way.origin == *origin);
        let Some(way) = way.or_else(|| RobotsWay::to(origin)) else {
            // An origin comes out of a canonical URL; this cannot be reached.
            return Step::End(RobotsOutcome::out_of_reach());
        };
        if way.redirects == 0 {
            let result = self.ask(&way.url, connection);
            return self.interpret(way, result);
        }
        self.step_elsewhere(way)
    }

    /// A step to another origin, which may be of the same host.
    fn step_elsewhere(&self, mut way: RobotsWay) -> Step {
        let host = way.url.host_str().unwrap_or_default();
        if self.blocklist.is_blocked(host) {
            return Step::End(RobotsOutcome::out_of_reach());
        }
        let is_same_host =
            Url::parse(&way.origin).is_ok_and(|origin| origin.host_str() == Some(host));
        let addresses = if is_same_host {
            self.addresses.clone()
        } else {
            match names::addresses_of(&**self.names, host) {
                Ok(found) => resolver::judge(found, self.settings.network.allow_private, 0),
                Err(error) => {
                    let failed = FetchError::Failed(ErrorKind::Dns, error.to_string());
                    return Step::End(RobotsOutcome::Failed(failed));
                }
            }
        };
        if addresses.allowed.is_empty() {
            self.counters.blocked_address.add(1);
            return Step::End(RobotsOutcome::out_of_reach());
        }
        let port = way.url.port_or_known_default().unwrap_or(0);
        if addresses.is_public && !self.settings.network.ports.contains(&port) {
            self.counters.blocked_port.add(1);
            return Step::End(RobotsOutcome::out_of_reach());
        }
        let group = self.jobs.group(Key::of_host(host).0, Some(&addresses));
        let is_leased = is_same_host || group == self.group;
        if !is_leased && let Err(at_ms) = self.jobs.visit(group) {
            way.waits += 1;
            if way.waits < MOST_WAITS {
                return Step::Wait(way, at_ms);
            }
            let why = format!("{host} is too busy to be asked for the rules of others");
            let failed = FetchError::Failed(ErrorKind::Other, why);
            return Step::End(RobotsOutcome::Failed(failed));
        }
        let begun = Stopwatch::start();
        let mut connection = self.fetcher.dialer.connection(addresses.allowed);
        let result = self.ask(&way.url, &mut connection);
        if !is_leased {
            let courtesy = Courtesy {
                settings: &self.settings.politeness,
                is_public: addresses.is_public,
            };
            let delay_ms = courtesy.delay_ms(begun.elapsed(), None);
            self.jobs.end_visit(group, self.clock.now_ms() + delay_ms);
        }
        if let Err(FetchError::AddressRefused(why)) = result {
            tracing::warn!("{}: {why}", way.url);
            self.counters.blocked_address.add(1);
            return Step::End(RobotsOutcome::out_of_reach());
        }
        self.interpret(way, result)
    }

    fn ask(&self, url: &Url, connection: &mut Connection) -> Result<Answer, FetchError> {
        // One byte more than is parsed, so that the parser sees that it was cut.
        let limit = BodyLimit::Beginning(PARSED_LIMIT_BYTES + 1);
        let at_ms = self.clock.now_ms();
        let result = self.fetcher.get(connection, url.as_str(), limit);
        self.receipts.give(|| {
            let robots = RobotsVerdict::RulesFile;
            let what = (connection.heard, result.as_ref().err());
            receipt(at_ms, url.as_str(), what, robots, self.asked_by)
        });
        if let Ok(answer) = &result {
            self.outage.answered();
            let host = url.host_str().unwrap_or_default();
            let is_refusal = reputation::is_refusal(answer.status, &answer.body);
            self.reputation
                .answered(Key::of_host(host).0, host, is_refusal);
        }
        result
    }

    fn interpret(&self, way: RobotsWay, result: Result<Answer, FetchError>) -> Step {
        let answer = match result {
            Ok(answer) => answer,
            Err(error) => return Step::End(RobotsOutcome::Failed(error)),
        };
        match answer.status {
            200..=299 => return Step::End(self.parse(answer)),
            429 | 500..=599 => {
                return Step::End(RobotsOutcome::Busy {
                    status: answer.status,
                    retry_after: answer.retry_after,
                });
            }
            300..=399 if way.redirects < MOST_REDIRECTS => {
                let target = answer.location.and_then(|to| way.url.join(&to).ok());
                if let Some(url) = target.filter(|to| matches!(to.scheme(), "http" | "https")) {
                    return Step::Further(RobotsWay {
                        url,
                        redirects: way.redirects + 1,
                        ..way
                    });
                }
            }
            _ => {}
        }
        // No rules, or none that could be reached: the server has not spoken.
        Step::End(RobotsOutcome::Rules(Robots::allow_all()))
    }

    fn parse(&self, answer: Answer) -> RobotsOutcome {
        let header = answer.content_encoding.as_deref();
        match decode_beginning(answer.body, header, PARSED_LIMIT_BYTES + 1) {
            Ok(text) => {
                let agent = &self.settings.politeness.agent;
                RobotsOutcome::Rules(Robots::parse(&text, agent))
            }
            Err(error) => {
                RobotsOutcome::Failed(FetchError::Failed(ErrorKind::Other, error.to_string()))
            }
        }
    }
}
