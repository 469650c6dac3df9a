//! What a server knows of the Redis that it copies, while it does.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

/// The address of the Redis that is copied, as `INFO` and `ROLE` tell it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopySource {
    /// Its host, or the path of its Unix socket.
    pub host: String,
    /// Its port; 0 of a Unix socket.
    pub port: u16,
}

/// How far a copy is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CopyState {
    /// There is no connection to the Redis.
    Connecting,
    /// The keys that were there at the beginning are being copied, and those that change meanwhile.
    Copying,
    /// All keys are copied; those that change are copied again.
    InStep,
}

impl CopyState {
    /// The name in `ROLE`: that of the link of a replica.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CopyState::Connecting => "connect",
            CopyState::Copying => "sync",
            CopyState::InStep => "connected",
        }
    }
}

/// The copy of a server. Whether there is one, the keyspace knows: commands that write ask it.
#[derive(Default)]
pub(crate) struct Copying {
    source: OnceLock<CopySource>,
    /// A [`CopyState`].
    state: AtomicU8,
    /// Whether a client has ended it.
    shall_end: AtomicBool,
}

impl Copying {
    /// Begins it. A server copies one Redis at most.
    pub(crate) fn begin(&self, source: CopySource) {
        _ = self.source.set(source);
    }

    /// The Redis that is copied, or was.
    pub(crate) fn source(&self) -> Option<&CopySource> {
        self.source.get()
    }

    pub(crate) fn state(&self) -> CopyState {
        match self.state.load(Ordering::Acquire) {
            0 => CopyState::Connecting,
            1 => CopyState::Copying,
            _ => CopyState::InStep,
        }
    }

    pub(crate) fn set_state(&self, state: CopyState) {
        self.state.store(state as u8, Ordering::Release);
    }

    pub(crate) fn shall_end(&self) -> bool {
        self.shall_end.load(Ordering::Acquire)
    }

    /// Lets it end as soon as all that has changed is copied.
    pub(crate) fn let_end(&self) {
        self.shall_end.store(true, Ordering::Release);
    }
}
