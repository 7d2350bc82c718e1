//! The text of an attribute value.

use encoding_rs::{Encoding, UTF_8};

/// Appends an attribute value, as it is written in a page of this charset, to `text`:
/// decoded, with its character references replaced by the standard's rules for
/// attributes (`&amp;` is an ampersand, `&copy=2` stays), which need no semicolon for
/// some names and never mistake a parameter of a query for one.
///
/// Most values hold neither a reference nor a foreign byte, and are copied as they are.
pub(super) fn append_text(value: &[u8], charset: &'static Encoding, text: &mut String) {
    if memchr::memchr2(b'&', 0, value).is_none()
        && (charset == UTF_8 || value.is_ascii())
        && let Ok(plain) = std::str::from_utf8(value)
    {
        text.push_str(plain);
        return;
    }
    let (decoded, _) = charset.decode_without_bom_handling(value);
    // A reference to character 0 gives U+FFFD too, so the order does not matter.
    let unescaped = htmlize::unescape_attribute(decoded);
    let start = text.len();
    text.push_str(&unescaped);
    if text[start..].contains('\0') {
        let replaced = text[start..].replace('\0', "\u{fffd}");
        text.truncate(start);
        text.push_str(&replaced);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use encoding_rs::{GBK, SHIFT_JIS, WINDOWS_1252};
    use html5ever::tendril::StrTendril;
    use html5ever::tokenizer::{
        BufferQueue, Token, TokenSink, TokenSinkResult, Tokenizer, TokenizerOpts,
    };
    use proptest::prelude::*;
    use proptest::test_runner::RngSeed;

    use super::*;

    fn text(value: &[u8], charset: &'static Encoding) -> String {
        let mut text = String::new();
        append_text(value, charset, &mut text);
        text
    }

    /// What html5ever reads out of attribute values in double quotes.
    fn as_html5ever_reads(values: &[String]) -> Vec<String> {
        #[derive(Default)]
        struct Values(RefCell<Vec<String>>);
        impl TokenSink for Values {
            type Handle = ();
            fn process_token(&self, token: Token, _line: u64) -> TokenSinkResult<()> {
                if let Token::TagToken(tag) = token {
                    let mut values = self.0.borrow_mut();
                    values.extend(
                        tag.attrs
                            .iter()
                            .map(|attribute| attribute.value.to_string()),
                    );
                }
                TokenSinkResult::Continue
            }
        }
        let input = BufferQueue::default();
        for value in values {
            input.push_back(StrTendril::from(format!("<a x=\"{value}\">")));
        }
        let tokenizer = Tokenizer::new(Values::default(), TokenizerOpts::default());
        let _ = tokenizer.feed(&input);
        tokenizer.end();
        tokenizer.sink.0.take()
    }

    #[test]
    fn references_are_replaced_by_the_rules_for_attributes() {
        for (value, expected) in [
            ("/a?b=1&amp;c=2", "/a?b=1&c=2"),
            ("/a?b=1&c=2", "/a?b=1&c=2"),
            ("/a?x&para=1", "/a?x&para=1"),
            ("/a?x&copy=2", "/a?x&copy=2"),
            ("/a?x&copy", "/a?x©"),
            ("/a?x&copy;=2", "/a?x©=2"),
            ("/a?x&copyright", "/a?x&copyright"),
            ("/a?x&copy&amp", "/a?x©&"),
            ("&notit; &notin; &not", "&notit; ∉ ¬"),
            ("&#x41;&#66;&#67 &#X44", "ABC D"),
            ("&#x80;&#150;", "€–"),
            (
                "&#xD800;&#x110000;&#0;&#99999999999;",
                "\u{fffd}\u{fffd}\u{fffd}\u{fffd}",
            ),
            (
                "&#; &#x; &#xg; & && &unknown;",
                "&#; &#x; &#xg; & && &unknown;",
            ),
            ("a\0b", "a\u{fffd}b"),
            ("&a\0;mp;", "&a\u{fffd};mp;"),
        ] {
            assert_eq!(text(value.as_bytes(), UTF_8), expected, "{value}");
        }
    }

    #[test]
    fn values_are_read_in_the_pages_charset() {
        assert_eq!(text(b"caf\xe9&amp;\x80", WINDOWS_1252), "café&€");
        assert_eq!(text(b"\x95\x5c", SHIFT_JIS), "表");
        assert_eq!(text(b"\xd6\xd0", GBK), "中");
        assert_eq!(text(b"a\xffb", UTF_8), "a\u{fffd}b");
    }

    #[test]
    fn all_named_references_are_those_of_html5ever() {
        let mut values = Vec::new();
        for name in htmlize::ENTITIES.keys() {
            let name = String::from_utf8(name.to_vec()).unwrap();
            for after in ["", "=", "a", "Z", "1", ";", " ", "é", "&", "/", "#"] {
                values.push(format!("{name}{after}"));
            }
        }
        assert_eq!(htmlize::ENTITIES.len(), 2231);
        let expected = as_html5ever_reads(&values);
        assert_eq!(expected.len(), values.len());
        for (value, expected) in values.iter().zip(expected) {
            assert_eq!(text(value.as_bytes(), UTF_8), expected, "{value}");
        }
    }

    #[test]
    fn all_numeric_references_are_those_of_html5ever() {
        let numbers = (0..0x300).chain(0xD7F0..0xE010).chain(0xFFF0..0x10010);
        let values: Vec<String> = numbers
            .chain(0x10_FFF0..0x11_0010)
            .chain((0..64).map(|bits| 1u64 << bits))
            .flat_map(|number| {
                [
                    format!("&#{number};"),
                    format!("&#x{number:x};"),
                    format!("&#X{number:X}"),
                    format!("&#{number}="),
                ]
            })
            .collect();
        for (value, expected) in values.iter().zip(as_html5ever_reads(&values)) {
            assert_eq!(text(value.as_bytes(), UTF_8), expected, "{value}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig {
            rng_seed: RngSeed::Fixed(1),
            failure_persistence: None,
            ..ProptestConfig::default()
        })]

        #[test]
        fn any_value_reads_as_in_html5ever(
            value in "(&|&#|&#x|amp|lt|not|notin|copy|AMP|;|=|[a-z0-9]|[ -~&&[^\"]]|é|\0){0,24}"
        ) {
            let expected = as_html5ever_reads(std::slice::from_ref(&value));
            prop_assert_eq!(text(value.as_bytes(), UTF_8), &expected[0][..]);
        }
    }
}
