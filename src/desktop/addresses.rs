//! What people type: web addresses and the addresses of peers, checked and explained.

use peercrawl_ui::model::{SeedCheck, SeedLine};

use crate::canonical::{CanonicalForm, CanonicalUrl};

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
    let url = form.parse(&with_scheme).map_err(|why| why.to_string())?;
    // A single word is a typing error far more often than a host.
    let is_name = url.host().contains('.') || url.host().starts_with('[');
    match is_name || text.contains("://") {
        true => Ok(url),
        false => Err("a web address has a dot in it, as in example.org".into()),
    }
}

/// Checks lines that were typed or pasted.
pub fn check_seeds(form: &CanonicalForm, text: &str, known: &[String]) -> SeedCheck {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut before: Vec<String> = Vec::new();
    let check = |line: &str| {
        let problem = match web_address(form, line) {
            Err(why) => Some(why),
            Ok(url) => {
                let url = url.to_string();
                let is_known = known.contains(&url);
                let is_twice = before.contains(&url);
                before.push(url);
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
        let text = " example.org \n\nhttp://b.example/x\nftp://c.example/\nword\nexample.org/\n";
        let check = check_seeds(&form, text, &["http://b.example/x".into()]);
        assert_eq!(check.text, text, "exactly as it was typed");
        let problems: Vec<_> = check
            .lines
            .iter()
            .map(|line| line.problem.is_some())
            .collect();
        assert_eq!(problems, [false, true, true, true, true]);
        assert_eq!(check.lines[0].text, "example.org");
        assert!(check.lines[1].problem.as_ref().unwrap().contains("already"));
        assert!(check.lines[2].problem.as_ref().unwrap().contains("http"));
        assert!(check.lines[4].problem.as_ref().unwrap().contains("twice"));
        let url = web_address(&form, "example.org").unwrap();
        assert_eq!(url.as_str(), "https://example.org/");
        assert!(web_address(&form, "http://localhost/").is_ok());
    }

    #[test]
    fn a_peers_address_is_checked() {
        assert!(check("/ip4/192.0.2.7/tcp/4001").is_ok());
        assert!(check("/dns4/example.org/tcp/4001").is_ok());
        assert!(check("example.org:80").unwrap_err().contains("/ip4/"));
        assert!(check("/ip4/300.0.0.1/tcp/1").is_err());
    }
}
