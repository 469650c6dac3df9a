//! What a test does with a network has the effect on which it depends.

use larder_testkit::{Network, NetworkPart, until};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// Longer than a connection takes.
const LIMIT: Duration = Duration::from_millis(300);

fn reaches(from: &NetworkPart, listener: &TcpListener) -> bool {
    let address = listener.local_addr().expect("it is bound");
    from.run(|| TcpStream::connect_timeout(&address, LIMIT)).is_ok()
}

#[test]
fn parts_that_are_cut_off_reach_themselves_only() {
    if std::env::var_os("LARDER_SOAK").is_none() {
        return println!("only with LARDER_SOAK, as the tests that need it");
    }
    let Some(network) = Network::start() else { return };
    let parts = [network.near(), network.far()];
    let listeners = parts.map(|part| part.run(|| TcpListener::bind((part.host(), 0))).expect("a port"));
    let reached = || parts.map(|part| listeners.each_ref().map(|listener| reaches(part, listener)));
    // A device needs a moment after it is up.
    until("they reach each other", || (reached() == [[true; 2]; 2]).then_some(()));
    network.cut();
    assert_eq!(reached(), [[true, false], [false, true]]);
    network.heal();
    until("they reach each other again", || (reached() == [[true; 2]; 2]).then_some(()));
    let outside = listeners.each_ref().map(|listener| {
        TcpStream::connect_timeout(&listener.local_addr().expect("it is bound"), LIMIT).is_ok()
    });
    assert_eq!(outside, [false; 2], "nobody else does");
}
