//! Contexts of commands that are called by tests, without a socket.

use std::sync::Arc;

use larder_resp::{Args, Limits, RequestParser};

use super::Context;
use super::session::Session;
use crate::config::Config;
use crate::db::Store;
use crate::state::ServerState;
use crate::stats::{Counts, Stats};

pub(super) fn state() -> ServerState {
    let store = Store::new(Some(8 << 20)).unwrap();
    ServerState::new(Config::default(), store, Arc::new(Stats::new(1, super::commands())))
}

/// Calls `f` with an inline request of a new connection.
pub(super) fn with_request<R>(
    state: &ServerState,
    request: &str,
    f: impl FnOnce(&mut Context<'_>, Args<'_>) -> R,
) -> R {
    with_context(state, |cx| with_args(request, |args| f(cx, args)))
}

/// Executes inline requests on one connection. Returns the length of the last reply, as the command has written it.
pub(crate) fn last_reply_bytes(state: &ServerState, requests: &[&str]) -> usize {
    with_context(state, |cx| {
        for request in requests {
            cx.out.clear();
            with_args(request, |args| super::dispatch(cx, args));
        }
        cx.out.len()
    })
}

/// Calls `f` with the context of a new connection.
fn with_context<R>(state: &ServerState, f: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let user = Arc::clone(state.users.default_user());
    let client = state.clients.register(0, String::new(), String::new(), user);
    let mut session = Session::new(client, true, &state.users);
    let (mut counts, mut out) = (Counts::default(), Vec::new());
    let result = f(&mut Context::new(state, &mut session, &mut counts, &mut out));
    // As a connection does when it ends: the list of clients and its clients own each other.
    state.clients.deregister(&session.client);
    result
}

fn with_args<R>(request: &str, f: impl FnOnce(Args<'_>) -> R) -> R {
    let (mut parser, request) = (RequestParser::new(), format!("{request}\r\n"));
    parser.parse(request.as_bytes(), &Limits::default()).unwrap();
    f(parser.args(request.as_bytes()))
}
