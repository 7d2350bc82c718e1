//! What a `<meta http-equiv=refresh>` says.

/// The URL of a `<meta http-equiv=refresh>`, out of its content.
///
/// None if the content is no refresh at all, and an empty inner value if it reloads
/// the page itself, which is no link. These are the standard's shared declarative
/// refresh steps.
pub(super) fn refresh(content: &str) -> Option<Option<&str>> {
    let after_spaces = content.trim_ascii_start();
    let after_digits = after_spaces.trim_start_matches(|c: char| c.is_ascii_digit());
    if after_digits.len() == after_spaces.len() && !after_spaces.starts_with('.') {
        return None;
    }
    let after_time = after_digits.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    if !after_time.is_empty() && !after_time.starts_with([';', ',', ' ', '\t', '\n', '\r', '\x0c'])
    {
        return None;
    }
    let rest = after_time.trim_ascii_start();
    let rest = rest.strip_prefix([';', ',']).unwrap_or(rest);
    let rest = rest.trim_ascii_start();
    if rest.is_empty() {
        return Some(None);
    }
    let Some(after_u) = rest.strip_prefix(['u', 'U']) else {
        return Some(Some(unquoted(rest)));
    };
    let value = after_u
        .strip_prefix(['r', 'R'])
        .and_then(|rest| rest.strip_prefix(['l', 'L']))
        .and_then(|rest| rest.trim_ascii_start().strip_prefix('='))
        .map(|rest| unquoted(rest.trim_ascii_start()));
    Some(Some(value.unwrap_or(rest)))
}

/// Without the quote that it begins with, and up to the next such quote.
fn unquoted(value: &str) -> &str {
    match value.chars().next() {
        Some(quote @ ('"' | '\'')) => {
            let value = &value[1..];
            value.split_once(quote).map_or(value, |(inner, _)| inner)
        }
        _ => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refresh_is_read_as_the_standard_reads_it() {
        for (content, expected) in [
            ("5; url=/x", Some(Some("/x"))),
            ("0;URL='/x'", Some(Some("/x"))),
            ("0;url=\"/x\" y", Some(Some("/x"))),
            ("0;url='/x", Some(Some("/x"))),
            ("0;/x", Some(Some("/x"))),
            ("0 /x", Some(Some("/x"))),
            ("0,'/x'y", Some(Some("/x"))),
            (" 1.5.2 ; Url = /x ", Some(Some("/x "))),
            (".5;url=/x", Some(Some("/x"))),
            ("0;upper", Some(Some("upper"))),
            ("0;url", Some(Some("url"))),
            ("0;url/x", Some(Some("url/x"))),
            ("0;url='u\"v'", Some(Some("u\"v"))),
            ("5", Some(None)),
            ("5;", Some(None)),
            ("", None),
            ("url=/x", None),
            (";url=/x", None),
            ("5x;url=/x", None),
            ("-1;url=/x", None),
        ] {
            assert_eq!(refresh(content), expected, "{content}");
        }
    }
}
