//! Sockets and threads: new connections are accepted and divided among the threads, each of which reads requests, lets
//! [`crate::cmd`] execute them, and writes the replies.
//!
//! Each step of a request has one verb:
//!
//! ```text
//! accept ─► begin_turn ─► run_turn ────► process ─► run_requests ─► cmd::dispatch ─► call
//!           one read      run_short_turn  limits,    parse, one      find, check,     the function
//!                         then write      counts     by one          answer           of the command
//! ```

pub(crate) mod accept;
pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod event_loop;
pub(crate) mod listener;
pub(crate) mod load;
pub(crate) mod lookahead;
pub(crate) mod peers;
#[cfg(feature = "tls")]
pub(crate) mod tls_socket;
pub(crate) mod unsent;
pub(crate) mod worker;
