//! What a text must be like, where a key takes more than any text. Each check stands
//! beside its key in [`keys`](super::keys), with the words that explain it.

use crate::blocklist::Pattern;
use crate::canonical::CanonicalForm;

/// A product token of RFC 9309, by which robots.txt rules are looked up; it is sent in a
/// header, too.
pub fn is_product_token(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphabetic() || matches!(c, '-' | '_');
    !text.is_empty() && text.chars().all(fits)
}

/// Nothing, or a web address that can be sent in a header as it stands: a parser of
/// addresses alone would pass over a line break.
pub fn is_bot_page(text: &str) -> bool {
    text.is_empty() || (text.bytes().all(|b| b.is_ascii_graphic()) && is_web_address(text))
}

/// An address that can be crawled.
pub fn is_web_address(text: &str) -> bool {
    CanonicalForm::new(&[]).parse(text).is_ok()
}

/// The address of a peer, or one to listen on.
pub fn is_multiaddress(text: &str) -> bool {
    // The overlay takes it as it stands, without the spaces that a person may paste.
    let address = peercrawl_overlay::addresses::parse(text);
    text.trim() == text && address.is_ok_and(|address| !address.is_empty())
}

/// An entry of a block list.
pub fn is_block_entry(text: &str) -> bool {
    Pattern::parse(text).is_ok()
}
