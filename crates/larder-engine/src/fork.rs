//! Notices that this process is a copy that `fork` has made of another one.
//!
//! Only the thread that forks exists in the copy. A lock that another thread held stays locked there, a load that another
//! thread or task ran never ends, and a generator of random numbers goes on with the same numbers in both. So what must
//! not be used in a copy remembers the process that made it.

use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many forks separate this process from the first one that asked for [`Process::current`].
static FORKS: AtomicU64 = AtomicU64::new(0);

/// The process in which an object was made.
///
/// # Examples
/// ```
/// let maker = larder_engine::fork::Process::current();
/// assert!(!maker.has_forked(), "this is still the same process");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(u64);

impl Process {
    /// This process. From now on its forks are noticed: those by `fork`, not those by a bare system call, and not `exec`,
    /// after which nothing is inherited.
    ///
    /// # Panics
    /// If the system has no memory to register the notice.
    pub fn current() -> Self {
        static NOTICED: Once = Once::new();
        NOTICED.call_once(notice_forks);
        Process(FORKS.load(Ordering::Relaxed))
    }

    /// Whether the calling process is a forked copy of this one, and has inherited its objects.
    ///
    /// Cost: one load of a word that changes only at a fork.
    #[inline]
    pub fn has_forked(self) -> bool {
        FORKS.load(Ordering::Relaxed) != self.0
    }
}

#[cfg(unix)]
fn notice_forks() {
    use std::ffi::c_int;

    unsafe extern "C" {
        fn pthread_atfork(
            prepare: Option<extern "C" fn()>,
            parent: Option<extern "C" fn()>,
            child: Option<extern "C" fn()>,
        ) -> c_int;
    }

    extern "C" fn in_child() {
        FORKS.fetch_add(1, Ordering::Relaxed);
    }

    // SAFETY: the handler may run in any child, where little is allowed: it is one atomic addition, and lives as long as the
    // process.
    let status = unsafe { pthread_atfork(None, None, Some(in_child)) };
    assert_eq!(status, 0, "the system has no memory to notice forks");
}

/// There is no fork.
#[cfg(not(unix))]
fn notice_forks() {}
