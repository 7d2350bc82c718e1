//! Where a peer can be called: told by its user while it runs, and the same after a restart.

use std::{env, fs, process};

use peercrawl_overlay::Overlay;
use peercrawl_overlay::network::{Kind, Options, start};

use crate::fleet::{eventually, options};

/// Somebody whose address was typed in meanwhile is called, and nothing is started anew.
#[test]
fn a_peer_seeks_where_its_user_says() {
    for kind in [Kind::Flat, Kind::Supernode] {
        let one = start(kind, options(1, &[])).unwrap();
        let other = start(kind, options(2, &[])).unwrap();
        assert!(!other.seek_at(&["nonsense".into()]));
        assert!(other.seek_at(&one.listening()));
        eventually("both see both", || {
            one.members().len() == 2 && other.members().len() == 2
        });
        // What it tells others is where it listens.
        let says = other.callable();
        assert!(
            !says.is_empty() && says.iter().all(|at| other.listening().contains(at)),
            "{says:?}, not {:?}",
            other.listening()
        );
    }
}

/// A join file that was given away leads nowhere if the port is another one each time.
#[test]
fn a_peer_that_comes_back_is_where_it_was() {
    let path = env::temp_dir().join(format!("peercrawl-ports-{}", process::id()));
    let kept = || Options {
        ports: Some(path.clone()),
        listen: vec![
            "/ip4/127.0.0.1/tcp/0".into(),
            "/ip4/127.0.0.1/udp/0/quic-v1".into(),
        ],
        ..options(1, &[])
    };
    let first = start(Kind::Flat, kept()).unwrap();
    let mut before = first.listening();
    drop(first);
    let second = start(Kind::Flat, kept()).unwrap();
    let mut after = second.listening();
    before.sort();
    after.sort();
    assert_eq!(before, after);
    // Somebody else has the ports: better others than none.
    let other = start(Kind::Flat, kept()).unwrap();
    assert!(other.listening().iter().all(|at| !after.contains(at)));
    fs::remove_file(path).unwrap();
}
