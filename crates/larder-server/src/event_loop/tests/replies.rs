//! Replies that exceed their limit: a command that may repeat what it replies stops there.

use larder_resp::{Limits, RequestParser};

use super::*;
use crate::cmd::{self, Context};
use crate::config::ByteSize;
use crate::session::Session;
use crate::stats::Counts;

/// The limit of a reply.
const LIMIT: usize = 64 << 10;

fn state_with_limit() -> Arc<ServerState> {
    let config = Config { max_reply_bytes: ByteSize(LIMIT as u64), ..Config::default() };
    let store = Store::new(Some(8 << 20)).unwrap();
    Arc::new(ServerState::new(config, store, Arc::new(Stats::new(1)), 0))
}

/// Executes requests on one connection. Returns the length of the last reply, as the command has written it.
fn last_reply_bytes(state: &ServerState, requests: &[&str]) -> usize {
    let client = state.clients.register(0, String::new(), String::new());
    let (mut session, mut counts, mut out) = (Session::new(client, true), Counts::default(), Vec::new());
    for request in requests {
        out.clear();
        let (mut parser, request) = (RequestParser::new(), format!("{request}\r\n"));
        parser.parse(request.as_bytes(), &Limits::default()).unwrap();
        let mut context = Context::new(state, &mut session, &mut counts, &mut out);
        cmd::execute(&mut context, parser.args(request.as_bytes()));
    }
    // As a connection does when it ends: the list of clients and its clients own each other.
    state.clients.deregister(&session.client);
    out.len()
}

#[test]
fn random_members_stop_at_the_limit() {
    let state = state_with_limit();
    for version in [2, 3] {
        let hello = format!("HELLO {version}");
        for options in ["", " WITHSCORES"] {
            let request = format!("ZRANDMEMBER z -1000000{options}");
            let bytes = last_reply_bytes(&state, &[&hello, "ZADD z 0.1 a", &request]);
            assert!((LIMIT + 1..LIMIT + 100).contains(&bytes), "RESP{version}{options}: {bytes} bytes");
        }
    }
}
