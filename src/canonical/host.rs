//! Which host names can exist. The `url` crate has already lower-cased them,
//! encoded them for the DNS, and brought addresses to their usual spelling.

/// A name in the DNS has at most this many octets, and a label 63.
const NAME_LIMIT_BYTES: usize = 253;
const LABEL_LIMIT_BYTES: usize = 63;

/// `example.com.` and `example.com` are one host.
pub(super) fn without_final_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

/// Whether a host, spelled as in a URL, is an address or a name that the DNS
/// could know. The URL standard lets more through (`http://$host/`), and links
/// out of unfilled templates are common enough to spare the resolver.
pub(super) fn is_valid(host: &str) -> bool {
    if host.starts_with('[') {
        return is_ipv6(host);
    }
    if host.is_empty() || host.len() > NAME_LIMIT_BYTES {
        return false;
    }
    let mut label_bytes = 0;
    for byte in host.bytes() {
        match byte {
            b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' => label_bytes += 1,
            b'.' if label_bytes > 0 => label_bytes = 0,
            _ => return false,
        }
        if label_bytes > LABEL_LIMIT_BYTES {
            return false;
        }
    }
    label_bytes > 0
}

fn is_ipv6(host: &str) -> bool {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok())
}
