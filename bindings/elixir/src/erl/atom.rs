//! The atoms that this library makes and knows, which are made when it is loaded.

use super::Env;
use super::ffi::{self, RawTerm};
use std::sync::atomic::{AtomicUsize, Ordering};

/// An atom. It is the same in all environments.
pub(crate) struct Atom {
    name: &'static str,
    /// Zero, which is no term, until it is made.
    raw: AtomicUsize,
}

impl Atom {
    const fn new(name: &'static str) -> Self {
        Atom { name, raw: AtomicUsize::new(0) }
    }

    pub(super) fn raw(&self) -> RawTerm {
        self.raw.load(Ordering::Relaxed)
    }
}

macro_rules! atoms {
    ($($constant:ident: $name:literal,)*) => {
        $(pub(crate) static $constant: Atom = Atom::new($name);)*

        /// Makes all of them. The emulator calls no other function before this has ended.
        pub(super) fn make(env: Env<'_>) {
            for atom in [$(&$constant),*] {
                // SAFETY: the name has that length.
                let raw = unsafe { ffi::enif_make_atom_len(env.raw, atom.name.as_ptr(), atom.name.len()) };
                atom.raw.store(raw, Ordering::Relaxed);
            }
        }
    };
}

atoms! {
    NIL: "nil",
    TRUE: "true",
    FALSE: "false",
    OK: "ok",
    MISS: "miss",
    QUEUED: "queued",
    PENDING: "pending",
    ERROR: "error",
    CLOSED: "closed",
    LEAD: "lead",
    DECIDE: "decide",
    RECURSIVE: "recursive",
    FAILED: "failed",
    NO_NUMBER: "no_number",
    BYTES: "bytes",
    EXTERNAL: "external",
    MESSAGE_PACK: "messagepack",
    ETF: "etf",
    NAN: "nan",
    INFINITY: "infinity",
    NEG_INFINITY: "neg_infinity",
    INFO: "info",
    WARNING: "warning",
    STRUCT: "__struct__",
    EXCEPTION: "__exception__",
    MESSAGE: "message",
    CAUSE: "cause",
    DATE_TIME: "Elixir.DateTime",
    CALENDAR: "calendar",
    ISO: "Elixir.Calendar.ISO",
    YEAR: "year",
    MONTH: "month",
    DAY: "day",
    HOUR: "hour",
    MINUTE: "minute",
    SECOND: "second",
    MICROSECOND: "microsecond",
    STD_OFFSET: "std_offset",
    UTC_OFFSET: "utc_offset",
    TIME_ZONE: "time_zone",
    ZONE_ABBR: "zone_abbr",
    MODE: "mode",
    MEMORY_TRUSTED: "memory_trusted",
    PROOF_AGE: "proof_age",
    DISCONNECTED: "disconnected",
    PENDING_INVALIDATIONS: "pending_invalidations",
    PROBLEM: "problem",
    MEMORY: "memory",
    REDIS: "redis",
}
