//! The end of a soak by a signal: Ctrl-C, SIGTERM, or the end of its terminal. The soak then stops its processes, and keeps what
//! it has measured.

use std::ptr::without_provenance;
use std::sync::atomic::{AtomicBool, Ordering};

/// By their numbers on Linux.
const SIGHUP: i32 = 1;
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
/// What stands for a signal that is ignored, in the place of a handler.
const SIG_IGN: usize = 1;

static REQUESTED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    /// Of the C library, which the standard library links: sets a handler, and returns the former one.
    fn signal(number: i32, handler: *const ()) -> *const ();
}

/// The handler. It may only do what is safe at any moment.
extern "C" fn request(_: i32) {
    REQUESTED.store(true, Ordering::SeqCst);
}

/// From now on a signal does not end the process: [`is_requested`] tells of it. The end of the terminal stays ignored, as under
/// `nohup`.
pub(super) fn listen() {
    let handler = request as extern "C" fn(i32) as *const ();
    for number in [SIGHUP, SIGINT, SIGTERM] {
        // SAFETY: the handler is a function of the right type, which stores to an atomic and does nothing else.
        let former = unsafe { signal(number, handler) };
        if number == SIGHUP && former.addr() == SIG_IGN {
            // SAFETY: it is the handler that was there before.
            unsafe { signal(number, without_provenance(SIG_IGN)) };
        }
    }
}

/// Whether a signal has requested the end.
pub(super) fn is_requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}
