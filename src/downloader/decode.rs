//! Content encodings undone, within bounds.
//!
//! A body that would grow beyond the bound is a bomb: an error, not a crash. Nothing
//! is decoded further than the bound, so a bomb costs no more than an honest page.

use std::io::{self, Read};

use flate2::read::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// Why a body could not be decoded.
#[derive(Debug, thiserror::Error)]
pub enum DecodeError {
    /// It would be larger than the bound.
    #[error("larger than {0} bytes when decoded")]
    TooLarge(usize),
    /// It is not what its header says.
    #[error("not valid {0}: {1}")]
    Damaged(&'static str, io::Error),
    /// An encoding that was not asked for.
    #[error("unknown content encoding {0:?}")]
    Unknown(String),
}

/// Encodings on top of each other; more is nonsense.
const MOST_LAYERS: usize = 3;

/// The body without the encodings that its `Content-Encoding` header names.
pub fn decode(body: Vec<u8>, header: Option<&str>, most: usize) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = body;
    for name in layers(header)? {
        match decode_one(decoded, name, most) {
            (whole, None) => decoded = whole,
            (_, Some(error)) => return Err(error),
        }
    }
    Ok(decoded)
}

/// The same for a body of which the beginning is enough: what is longer than `most` bytes
/// is cut there, and of one that was cut off before, what can be decoded is kept.
pub fn decode_beginning(
    body: Vec<u8>,
    header: Option<&str>,
    most: usize,
) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = body;
    for name in layers(header)? {
        match decode_one(decoded, name, most) {
            (beginning, Some(error)) if beginning.is_empty() => return Err(error),
            (beginning, _) => decoded = beginning,
        }
    }
    Ok(decoded)
}

fn layers(header: Option<&str>) -> Result<impl Iterator<Item = &str>, DecodeError> {
    let header = header.unwrap_or_default();
    let names = || header.split(',').map(str::trim).rev();
    if names().count() > MOST_LAYERS {
        return Err(DecodeError::Unknown(header.chars().take(100).collect()));
    }
    Ok(names())
}

/// One layer undone as far as that goes, `most` bytes at most, and why not further.
fn decode_one(body: Vec<u8>, name: &str, most: usize) -> (Vec<u8>, Option<DecodeError>) {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if name.is_empty() || is("identity") || body.is_empty() {
        (body, None)
    } else if is("gzip") || is("x-gzip") {
        read_all("gzip", MultiGzDecoder::new(&*body), most)
    } else if is("deflate") {
        // The standard says zlib; some servers send the bare stream.
        match read_all("deflate", ZlibDecoder::new(&*body), most) {
            (decoded, Some(DecodeError::Damaged(..))) if decoded.is_empty() => {
                read_all("deflate", DeflateDecoder::new(&*body), most)
            }
            read => read,
        }
    } else if is("br") {
        let decoder = brotli_decompressor::Decompressor::new(&*body, 4_096);
        read_all("brotli", decoder, most)
    } else {
        let name = name.chars().take(100).collect();
        (Vec::new(), Some(DecodeError::Unknown(name)))
    }
}

fn read_all(name: &'static str, decoder: impl Read, most: usize) -> (Vec<u8>, Option<DecodeError>) {
    let mut decoded = Vec::new();
    let read = decoder.take(most as u64 + 1).read_to_end(&mut decoded);
    if decoded.len() > most {
        decoded.truncate(most);
        return (decoded, Some(DecodeError::TooLarge(most)));
    }
    let damage = read.err().map(|error| DecodeError::Damaged(name, error));
    (decoded, damage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use std::io::Write;

    const TEXT: &[u8] = b"<a href=/x>the same words again, the same words again</a>";

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn brotli(text: &[u8]) -> Vec<u8> {
        let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4_096, 3, 20);
        encoder.write_all(text).unwrap();
        encoder.into_inner()
    }

    #[test]
    fn every_encoding_gives_the_text_back() {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::fast());
        zlib.write_all(TEXT).unwrap();
        let mut bare = DeflateEncoder::new(Vec::new(), Compression::fast());
        bare.write_all(TEXT).unwrap();
        for (body, header) in [
            (TEXT.to_vec(), None),
            (TEXT.to_vec(), Some("identity")),
            (gzip(TEXT), Some("gzip")),
            (gzip(TEXT), Some("X-GZIP")),
            ([gzip(&TEXT[..9]), gzip(&TEXT[9..])].concat(), Some("gzip")),
            (zlib.finish().unwrap(), Some("deflate")),
            (bare.finish().unwrap(), Some("deflate")),
            (brotli(TEXT), Some("br")),
            (brotli(&gzip(TEXT)), Some("gzip, br")),
            (TEXT.to_vec(), Some("")),
        ] {
            assert_eq!(decode(body, header, 1_000).unwrap(), TEXT, "{header:?}");
        }
        assert_eq!(decode(vec![], Some("gzip"), 10).unwrap(), b"");
    }

    #[test]
    fn a_bomb_is_an_error() {
        let zeros = vec![0; 10 << 20];
        for (body, header) in [
            (gzip(&zeros), "gzip"),
            (brotli(&zeros), "br"),
            (gzip(&gzip(&zeros)), "gzip, gzip"),
        ] {
            let result = decode(body, Some(header), 100_000);
            assert!(matches!(result, Err(DecodeError::TooLarge(_))), "{header}");
        }
    }

    #[test]
    fn damage_and_strange_names_are_errors() {
        let mut cut = gzip(TEXT);
        cut.truncate(20);
        assert!(matches!(
            decode(cut, Some("gzip"), 1_000),
            Err(DecodeError::Damaged(..))
        ));
        let plain = || TEXT.to_vec();
        assert!(matches!(
            decode(plain(), Some("br"), 1_000),
            Err(DecodeError::Damaged(..))
        ));
        assert!(matches!(
            decode(plain(), Some("zpaq"), 1_000),
            Err(DecodeError::Unknown(_))
        ));
        assert!(matches!(
            decode(plain(), Some("gzip,gzip,gzip,gzip"), 1_000),
            Err(DecodeError::Unknown(_))
        ));
    }

    #[test]
    fn of_a_long_body_the_beginning_can_be_had() {
        let text = b"User-agent: *\nDisallow: /no\n".repeat(10_000);
        let mut encoder = GzEncoder::new(Vec::new(), Compression::none());
        encoder.write_all(&text).unwrap();
        let packed = encoder.finish().unwrap();
        let beginning = |packed: &[u8], most| decode_beginning(packed.to_vec(), Some("gzip"), most);
        assert_eq!(beginning(&packed, 1_000).unwrap(), text[..1_000]);
        let cut_off = beginning(&packed[..50_000], 1 << 20).unwrap();
        assert!(cut_off.len() > 10_000 && text.starts_with(&cut_off));
        assert!(beginning(b"no gzip at all", 1_000).is_err());
    }
}
