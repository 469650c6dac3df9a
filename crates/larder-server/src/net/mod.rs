//! Sockets and threads: new connections are accepted and divided among the threads, each of which reads requests, lets
//! [`crate::cmd`] execute them, and writes the replies.

pub(crate) mod accept;
pub(crate) mod batch;
pub(crate) mod connection;
pub(crate) mod event_loop;
pub(crate) mod listener;
pub(crate) mod load;
pub(crate) mod lookahead;
pub(crate) mod peers;
pub(crate) mod unsent;
pub(crate) mod worker;
