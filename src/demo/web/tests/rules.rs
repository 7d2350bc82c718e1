//! A plain reading of RFC 9309, for the small crawler of these tests.

use super::super::robots::{FORBIDDEN_URLS, RobotsFile};

/// The rules that bind one agent.
pub(super) struct Rules(Vec<(bool, String)>);

impl Rules {
    /// Those that `text` has for `agent`, or else for all.
    pub(super) fn read(text: &str, agent: &str) -> Self {
        let (mut ours, mut others) = (Vec::new(), Vec::new());
        let (mut for_us, mut for_all, mut named, mut after_rule) = (false, false, false, true);
        for line in text.trim_start_matches('\u{feff}').lines() {
            let line = line.split('#').next().unwrap_or_default();
            let Some((key, value)) = line.split_once(':') else {
                continue;
            };
            let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
            match key.as_str() {
                "user-agent" => {
                    if after_rule {
                        (for_us, for_all, after_rule) = (false, false, false);
                    }
                    for_us |= value.eq_ignore_ascii_case(agent);
                    for_all |= value == "*";
                    named |= for_us;
                }
                "allow" | "disallow" => {
                    after_rule = true;
                    let rule = (key == "allow", value.to_owned());
                    if for_us {
                        ours.push(rule);
                    } else if for_all {
                        others.push(rule);
                    }
                }
                _ => {}
            }
        }
        Rules(if named { ours } else { others })
    }

    /// The longest rule that matches decides, and an allowing one if two are equal.
    pub(super) fn allow(&self, path: &str) -> bool {
        let matching = self
            .0
            .iter()
            .filter(|(_, rule)| !rule.is_empty() && matches(rule, path));
        matching
            .max_by_key(|(allow, rule)| (rule.len(), *allow))
            .is_none_or(|&(allow, _)| allow)
    }
}

fn matches(rule: &str, path: &str) -> bool {
    let (rule, whole) = rule
        .strip_suffix('$')
        .map_or((rule, false), |rule| (rule, true));
    match rule.split_once('*') {
        None => {
            if whole {
                rule == path
            } else {
                path.starts_with(rule)
            }
        }
        Some((before, after)) => path.strip_prefix(before).is_some_and(|rest| {
            let after = format!("{after}{}", if whole { "$" } else { "" });
            (0..=rest.len()).any(|at| rest.is_char_boundary(at) && matches(&after, &rest[at..]))
        }),
    }
}

#[test]
fn every_robots_file_says_the_same_to_us() {
    for file in [
        RobotsFile::Simple,
        RobotsFile::Groups,
        RobotsFile::Wildcards,
        RobotsFile::Untidy,
        RobotsFile::Moved,
    ] {
        let rules = Rules::read(file.text(), "peercrawl");
        for which in 0..FORBIDDEN_URLS {
            assert!(!rules.allow(file.forbidden_path(which)), "{file:?} {which}");
        }
        for path in [
            "/",
            "/d1/p1.html",
            "/x/secret/7.html",
            "/private/open/9.html",
            "/moved/inside",
        ] {
            assert!(rules.allow(path), "{file:?} {path}");
        }
        assert!(rules.allow(&format!("{}12.html", file.open_folder())));
    }
    // Elsewhere a stranger is shut out, so that taking the wrong group shows.
    assert!(!Rules::read(RobotsFile::Groups.text(), "stranger").allow("/"));
    assert!(!Rules::read(RobotsFile::Untidy.text(), "otherbot").allow("/"));
}
