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
    let Some(header) = header else {
        return Ok(body);
    };
    let names = || header.split(',').map(str::trim).rev();
    if names().count() > MOST_LAYERS {
        return Err(DecodeError::Unknown(header.chars().take(100).collect()));
    }
    names().try_fold(body, |body, name| decode_one(body, name, most))
}

fn decode_one(body: Vec<u8>, name: &str, most: usize) -> Result<Vec<u8>, DecodeError> {
    let is = |other: &str| name.eq_ignore_ascii_case(other);
    if name.is_empty() || is("identity") || body.is_empty() {
        Ok(body)
    } else if is("gzip") || is("x-gzip") {
        read_all("gzip", MultiGzDecoder::new(&*body), most)
    } else if is("deflate") {
        // The standard says zlib; some servers send the bare stream.
        read_all("deflate", ZlibDecoder::new(&*body), most).or_else(|error| match error {
            DecodeError::Damaged(..) => read_all("deflate", DeflateDecoder::new(&*body), most),
            bomb => Err(bomb),
        })
    } else if is("br") {
        let decoder = brotli_decompressor::Decompressor::new(&*body, 4_096);
        read_all("brotli", decoder, most)
    } else {
        Err(DecodeError::Unknown(name.chars().take(100).collect()))
    }
}

fn read_all(name: &'static str, decoder: impl Read, most: usize) -> Result<Vec<u8>, DecodeError> {
    let mut decoded = Vec::new();
    let read = decoder.take(most as u64 + 1).read_to_end(&mut decoded);
    if decoded.len() > most {
        return Err(DecodeError::TooLarge(most));
    }
    match read {
        Ok(_) => Ok(decoded),
        Err(error) => Err(DecodeError::Damaged(name, error)),
    }
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
}
