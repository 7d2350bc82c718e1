//! The name services there are: the system's own, and a fixed table.

use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, ToSocketAddrs};

/// Who knows where names lead.
pub trait NameService: Send + Sync {
    /// The addresses of a host name, best first. May block.
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's name service.
pub struct SystemNames;

impl NameService for SystemNames {
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let found = (host, 0).to_socket_addrs()?;
        Ok(found.map(|address| address.ip()).collect())
    }
}

/// A fixed table, for a web on this machine.
pub struct FixedNames(pub HashMap<String, IpAddr>);

impl NameService for FixedNames {
    fn look_up(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let address = self.0.get(host).copied();
        address
            .map(|address| vec![address])
            .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "not in the table of names"))
    }
}

/// The addresses of a host as a URL writes it: a name, an IPv4 address, or an IPv6
/// address in brackets.
pub fn addresses_of(names: &dyn NameService, host: &str) -> io::Result<Vec<IpAddr>> {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    if let Ok(address) = bare.parse() {
        return Ok(vec![address]);
    }
    let found = names.look_up(host)?;
    if found.is_empty() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "no addresses"));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_stand_for_themselves() {
        let names = FixedNames([("a.test".to_owned(), [127, 0, 0, 1].into())].into());
        let look_up = |host| addresses_of(&names, host).ok();
        assert_eq!(look_up("10.1.2.3"), Some(vec![[10, 1, 2, 3].into()]));
        assert_eq!(look_up("[::1]"), Some(vec!["::1".parse().unwrap()]));
        assert_eq!(look_up("a.test"), Some(vec![[127, 0, 0, 1].into()]));
        assert_eq!(look_up("b.test"), None);
    }
}
