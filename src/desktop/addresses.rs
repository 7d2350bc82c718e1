//! What people type: web addresses and the addresses of peers, checked and explained.

use std::collections::HashSet;
use std::net::IpAddr;

use peercrawl_ui::model::{SeedCheck, SeedLine};

use crate::blocklist::BlockList;
use crate::canonical::{CanonicalForm, CanonicalUrl, Refusal};
use crate::crawl::CrawlDefinition;
use crate::message::can_travel;
use crate::{config, guard};

/// Lines that are checked at most; what comes behind them is not added.
const MOST_LINES: usize = 10_000;

/// Checks the address of a peer.
pub fn check(address: &str) -> Result<(), String> {
    if !address.starts_with('/') {
        return Err("a peer's address begins with /ip4/, /ip6/ or /dns4/".into());
    }
    peercrawl_overlay::addresses::parse(address).map(|_| ())
}

/// A web address as a person types it: the scheme may be left out.
pub fn web_address(form: &CanonicalForm, text: &str) -> Result<CanonicalUrl, String> {
    let text = text.trim();
    let with_scheme = match text.contains("://") {
        true => text.to_owned(),
        false => format!("https://{text}"),
    };
    let url = form.parse(&with_scheme).map_err(words)?;
    // A single word is a typing error far more often than a host.
    let is_name = url.host().contains('.') || url.host().starts_with('[');
    match is_name || text.contains("://") {
        true => Ok(url),
        false => Err("a web address has a dot in it, as in example.org".into()),
    }
}

/// A web address as a person types it, and what else it may mean: without a scheme the page
/// may have come from either.
pub fn either_address(
    form: &CanonicalForm,
    text: &str,
) -> Result<(CanonicalUrl, Option<CanonicalUrl>), String> {
    let url = web_address(form, text)?;
    let text = text.trim();
    let other = match text.contains("://") {
        true => None,
        false => form.parse(&format!("http://{text}")).ok(),
    };
    Ok((url, other))
}

/// What is wrong with an address, for whoever has typed it.
fn words(why: Refusal) -> String {
    match why {
        Refusal::Scheme => "only addresses with http:// or https:// can be visited".to_owned(),
        Refusal::TooLong => "it is too long for a web address".to_owned(),
        Refusal::Host | Refusal::NotAUrl(_) => {
            "this is no web address; one looks like https://example.org/".to_owned()
        }
    }
}

/// A web address as a person types it, if a crawl can begin there: what the block list, the
/// address guard or the list of ports would refuse later is refused now.
pub fn seed_address(
    form: &CanonicalForm,
    network: &config::Network,
    blocked: &BlockList,
    text: &str,
) -> Result<CanonicalUrl, String> {
    let url = web_address(form, text)?;
    if blocked.is_blocked(url.host()) {
        return Err("you blocked this site".to_owned());
    }
    if network.allow_private {
        return Ok(url);
    }
    let host = url.host().trim_matches(['[', ']']);
    let is_inside = match host.parse::<IpAddr>() {
        Ok(address) => !guard::is_public(address),
        Err(_) => INSIDE.iter().any(|name| {
            host.strip_suffix(name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
        }),
    };
    if is_inside {
        return Err(format!(
            "{host} is in a private network, which PeerCrawl never visits"
        ));
    }
    if !network.ports.contains(&url.port()) {
        let ports: Vec<String> = network.ports.iter().map(u16::to_string).collect();
        return Err(format!(
            "port {} is not visited, only {}",
            url.port(),
            ports.join(", ")
        ));
    }
    Ok(url)
}

/// Marks the lines that are too many for this crawl: other peers could not be told of it.
pub fn mark_surplus(form: &CanonicalForm, check: &mut SeedCheck, mut crawl: CrawlDefinition) {
    let known = crawl.seeds.len();
    let good = |line: &&mut SeedLine| line.problem.is_none();
    let good: Vec<&mut SeedLine> = check.lines.iter_mut().filter(good).collect();
    let urls = good.iter().map(|line| web_address(form, &line.text));
    crawl
        .seeds
        .extend(urls.flatten().map(|url| url.to_string()));
    if can_travel(&crawl) {
        return;
    }
    // So many fit, and one more does not.
    let (mut fit, mut many) = (0, good.len());
    while many - fit > 1 {
        let middle = fit + (many - fit) / 2;
        let mut some = crawl.clone();
        some.seeds.truncate(known + middle);
        match can_travel(&some) {
            true => fit = middle,
            false => many = middle,
        }
    }
    for line in good.into_iter().skip(fit) {
        line.problem = Some("there are too many web sites to tell other peers of".to_owned());
    }
}

/// Names, and what ends in them, that lead into private networks.
const INSIDE: [&str; 4] = ["localhost", "local", "internal", "home.arpa"];

/// Checks lines that were typed or pasted.
pub fn check_seeds(
    form: &CanonicalForm,
    network: &config::Network,
    blocked: &BlockList,
    text: &str,
    known: &[String],
) -> SeedCheck {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let known: HashSet<&str> = known.iter().map(String::as_str).collect();
    let mut before = HashSet::new();
    let check = |line: &str| {
        let problem = match seed_address(form, network, blocked, line) {
            Err(why) => Some(why),
            Ok(url) => {
                let url = url.to_string();
                let is_known = known.contains(url.as_str());
                let is_twice = !before.insert(url);
                match (is_known, is_twice) {
                    (true, _) => Some("it is one of the web sites already".to_owned()),
                    (_, true) => Some("it is in this list twice".to_owned()),
                    _ => None,
                }
            }
        };
        SeedLine {
            text: line.to_owned(),
            problem,
        }
    };
    SeedCheck {
        text: text.to_owned(),
        lines: lines.take(MOST_LINES).map(check).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_checked_line_by_line_and_explained() {
        let form = CanonicalForm::new(&[]);
        let network = config::Settings::default().network;
        let text = " example.org \n\nhttp://b.example/x\nftp://c.example/\nword\nexample.org/\n\
                    shop.bad.example\n";
        let blocked = BlockList::of(&["bad.example".into(), "/".into()]);
        let known = ["http://b.example/x".into()];
        let check = check_seeds(&form, &network, &blocked, text, &known);
        assert_eq!(check.text, text, "exactly as it was typed");
        let problems: Vec<_> = check
            .lines
            .iter()
            .map(|line| line.problem.is_some())
            .collect();
        assert_eq!(problems, [false, true, true, true, true, true]);
        assert_eq!(check.lines[0].text, "example.org");
        assert!(check.lines[1].problem.as_ref().unwrap().contains("already"));
        assert!(check.lines[2].problem.as_ref().unwrap().contains("http"));
        assert!(check.lines[4].problem.as_ref().unwrap().contains("twice"));
        let blocked = check.lines[5].problem.as_deref();
        assert_eq!(blocked, Some("you blocked this site"));
        let url = web_address(&form, "example.org").unwrap();
        assert_eq!(url.as_str(), "https://example.org/");
        assert!(web_address(&form, "http://localhost/").is_ok());
        let either = |text| {
            let (url, other) = either_address(&form, text).unwrap();
            (url.to_string(), other.map(|url| url.to_string()))
        };
        let http = "http://example.org/a".to_owned();
        let https = "https://example.org/a".to_owned();
        assert_eq!(either(" example.org/a"), (https, Some(http.clone())));
        assert_eq!(either(&http), (http.clone(), None));
        assert!(either_address(&form, "word").is_err());
    }

    #[test]
    fn what_would_never_be_visited_is_refused_when_it_is_typed() {
        let form = CanonicalForm::new(&[]);
        let mut network = config::Settings::default().network;
        let why = |network: &config::Network, text: &str| {
            let refused = seed_address(&form, network, &BlockList::of(&[]), text).err();
            refused.unwrap_or_default()
        };
        for text in [
            "http://192.168.1.1/",
            "http://[fe80::1]/",
            "127.0.0.1",
            "http://localhost/",
            "printer.local",
        ] {
            assert!(why(&network, text).contains("private network"), "{text}");
        }
        assert!(why(&network, "http://example.org:22/").contains("port 22"));
        assert_eq!(why(&network, "notlocal.example:8080"), "");
        assert!(why(&network, "http://").contains("no web address"));
        network.allow_private = true;
        assert_eq!(why(&network, "http://192.168.1.1:22/"), "");
    }

    #[test]
    fn a_peers_address_is_checked() {
        assert!(check("/ip4/192.0.2.7/tcp/4001").is_ok());
        assert!(check("/dns4/example.org/tcp/4001").is_ok());
        assert!(check("example.org:80").unwrap_err().contains("/ip4/"));
        assert!(check("/ip4/300.0.0.1/tcp/1").is_err());
    }
}
