//! From our peer ids to libp2p's and back: both are the same Ed25519 key.

use libp2p::identity::{Keypair, PublicKey, ed25519};

use crate::PeerId;

/// The key of a public-key protobuf (type Ed25519, 32 bytes) inside an identity multihash.
const MULTIHASH_PREFIX: [u8; 6] = [0x00, 0x24, 0x08, 0x01, 0x12, 0x20];

/// The key pair that a secret stands for. Any 32 bytes are an Ed25519 secret.
pub fn keypair(mut secret: [u8; 32]) -> Option<Keypair> {
    Keypair::ed25519_from_bytes(&mut secret).ok()
}

/// Our name for the owner of a key pair.
pub fn peer_of(keypair: &Keypair) -> Option<PeerId> {
    let key = keypair.public().try_into_ed25519().ok()?;
    Some(PeerId(key.to_bytes()))
}

/// libp2p's name for a peer; `None` if the bytes are no point on the curve.
pub fn to_libp2p(peer: PeerId) -> Option<libp2p::PeerId> {
    let key = ed25519::PublicKey::try_from_bytes(&peer.0).ok()?;
    Some(PublicKey::from(key).to_peer_id())
}

/// Our name for a libp2p peer; `None` if its key is of another kind.
pub fn from_libp2p(peer: &libp2p::PeerId) -> Option<PeerId> {
    let bytes = peer.to_bytes();
    let key = bytes.strip_prefix(&MULTIHASH_PREFIX)?;
    key.try_into().ok().map(PeerId)
}

/// Whether `signature` over `message` is the peer's.
pub fn verifies(peer: PeerId, message: &[u8], signature: &[u8]) -> bool {
    ed25519::PublicKey::try_from_bytes(&peer.0).is_ok_and(|key| key.verify(message, signature))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_names_stand_for_one_key() {
        for secret in [[0; 32], [7; 32], [255; 32]] {
            let keypair = keypair(secret).unwrap();
            let peer = peer_of(&keypair).unwrap();
            let theirs = to_libp2p(peer).unwrap();
            assert_eq!(theirs, keypair.public().to_peer_id());
            assert_eq!(from_libp2p(&theirs), Some(peer));
        }
    }

    #[test]
    fn another_kind_of_peer_id_has_no_name_here() {
        assert_eq!(from_libp2p(&libp2p::PeerId::random()), None);
    }
}
