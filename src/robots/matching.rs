//! Which rule decides about a path: the longest that matches, and among equals
//! the one that allows (RFC 9309 §2.2.2).

use memchr::{memchr, memmem, memrchr};
use serde::{Deserialize, Serialize};

use super::normal_form::Spellings;

/// The rules of one group, in the order of the file.
///
/// One string holds them all, a line each: `+` (allow) or `-` (disallow), then
/// the pattern in normal form, which cannot contain a line end. Tens of
/// thousands of sites are in memory at once, and a string for each rule would
/// cost several times as much as the rules.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct RuleSet(Box<str>);

impl RuleSet {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes of all of them.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Takes rules that are already written as the lines described above.
    pub(super) fn from_lines(lines: String) -> Self {
        Self(lines.into_boxed_str())
    }

    /// Whether the rules let `path_and_query` be fetched.
    pub(super) fn allow(&self, path_and_query: &str) -> bool {
        let spellings = Spellings::of(path_and_query);
        let path = spellings.as_written.as_bytes();
        if path == b"/robots.txt" {
            return true;
        }
        let other = spellings.query_decoded.as_deref().map(str::as_bytes);
        let mut longest = 0;
        let mut verdict = true;
        let mut rest = self.0.as_bytes();
        while let Some(end) = memchr(b'\n', rest) {
            let (line, after) = rest.split_at(end);
            rest = &after[1..];
            let Some((&sign, pattern)) = line.split_first() else {
                continue;
            };
            let allows = sign == b'+';
            // What cannot change the verdict need not be matched.
            if pattern.len() < longest || pattern.len() == longest && (verdict || !allows) {
                continue;
            }
            if matches(pattern, path) || other.is_some_and(|path| matches(pattern, path)) {
                longest = pattern.len();
                verdict = allows;
            }
        }
        verdict
    }
}

/// Whether a pattern matches the start of a path, or all of it if it ends in `$`.
///
/// Each literal between two wildcards is looked for where the one before ended.
/// Taking the leftmost place leaves the most room for the rest, so nothing is
/// tried twice: the cost is linear in the two lengths, whatever the pattern.
fn matches(pattern: &[u8], path: &[u8]) -> bool {
    let (pattern, anchored) = match pattern.strip_suffix(b"$") {
        Some(rest) => (rest, true),
        None => (pattern, false),
    };
    let Some(first) = memchr(b'*', pattern) else {
        return if anchored {
            path == pattern
        } else {
            path.starts_with(pattern)
        };
    };
    let Some(mut rest) = path.strip_prefix(&pattern[..first]) else {
        return false;
    };
    // An anchored pattern's last literal must stand at the end, and only there.
    let last = memrchr(b'*', pattern).unwrap_or(first);
    let (middle, tail) = if anchored {
        (&pattern[first..last], &pattern[last + 1..])
    } else {
        (&pattern[first..], &[][..])
    };
    for literal in middle.split(|&byte| byte == b'*') {
        if literal.len() > rest.len() {
            return false;
        }
        match memmem::find(rest, literal) {
            Some(at) => rest = &rest[at + literal.len()..],
            None => return false,
        }
    }
    rest.ends_with(tail)
}

#[cfg(test)]
mod tests {
    use super::matches;

    /// The textbook definition, exponential and obviously right.
    fn matches_slowly(pattern: &[u8], path: &[u8]) -> bool {
        match pattern {
            [] => true,
            [b'$'] => path.is_empty(),
            [b'*', rest @ ..] => (0..=path.len()).any(|n| matches_slowly(rest, &path[n..])),
            [byte, rest @ ..] => path.first() == Some(byte) && matches_slowly(rest, &path[1..]),
        }
    }

    #[test]
    fn agrees_with_the_definition_on_all_short_patterns() {
        let all = |alphabet: &[u8], longest: u32| -> Vec<Vec<u8>> {
            let mut words = vec![vec![]];
            let mut from = 0;
            for _ in 0..longest {
                let until = words.len();
                for n in from..until {
                    for &byte in alphabet {
                        words.push([&words[n][..], &[byte]].concat());
                    }
                }
                from = until;
            }
            words
        };
        let paths = all(b"ab", 6);
        for mut pattern in all(b"ab*", 5) {
            for anchored in [false, true] {
                if anchored {
                    pattern.push(b'$');
                }
                for path in &paths {
                    assert_eq!(
                        matches(&pattern, path),
                        matches_slowly(&pattern, path),
                        "{} against {}",
                        pattern.escape_ascii(),
                        path.escape_ascii()
                    );
                }
            }
        }
    }
}
