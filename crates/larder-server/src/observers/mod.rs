//! Those who are told of changes in the keyspace: connections that watch or track keys, or wait for their members, and
//! subscribers of notifications; and the channels through which connections send messages to each other.
//!
//! They belong to the keyspace and not to a server, because several servers may use one keyspace. A write asks only
//! whether there is an observer at all.

mod all;
mod channels;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod deferred;
mod notify;
mod tracking;
mod waiting;
mod waiting_table;
mod watch;
mod watch_table;

pub(crate) use all::Observers;
pub(crate) use channels::{Kind, Subscriptions};
pub(crate) use deferred::{Deferred, Notice};
pub(crate) use notify::{Event, FieldEvents, Origin, parse_classes};
pub(crate) use tracking::{Tracker, TrackerOptions};
pub(crate) use waiting::WaitingPlace;
pub(crate) use waiting_table::{
    Outcome, Pop, Popped, Read, ReadyKey, Wait, Waiter, has_ready, make_ready, take_ready,
};
pub(crate) use watch::Watches;
