//! What executes the commands of the script that runs on this thread.

use std::borrow::Cow;
use std::cell::Cell;
use std::ptr::NonNull;

use larder_resp::{Args, Protocol};

use super::cache::{Digest, format_digest};
use super::lua::Stack;

/// The server, as a script sees it.
pub(crate) trait Host {
    /// Executes a command and calls `read` with its reply, in the version that the script has chosen.
    fn call(&mut self, args: Args<'_>, read: &mut dyn FnMut(&[u8])) -> Result<(), CallError>;
    /// Chooses the version of replies to the script.
    fn set_protocol(&mut self, protocol: Protocol);
    /// Whether the user may execute a command; `None` if there is none of this name.
    fn may_call(&self, args: Args<'_>) -> Option<bool>;
    /// Whether the script has to end now.
    fn must_end(&mut self) -> bool;
    /// Writes the result of the script, which is on the top of the stack.
    fn write_result(&mut self, stack: &mut Stack<'_>);
    /// The script fails with an error that is counted.
    fn fail_with_counted_error(&mut self);
}

/// Why a command was not executed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CallError {
    /// With this error, which is counted, and which the script may catch.
    Refused(Cow<'static, str>),
    /// The script has to end.
    MustEnd,
}

/// The script that runs on this thread.
#[derive(Clone, Copy)]
struct Running {
    host: NonNull<dyn Host>,
    digest: Digest,
}

thread_local! {
    static RUNNING: Cell<Option<Running>> = const { Cell::new(None) };
}

/// Calls `f` while a script runs.
pub(super) fn with_running<R>(host: &mut dyn Host, digest: Digest, f: impl FnOnce() -> R) -> R {
    /// Ends the run even after a panic.
    struct End;
    impl Drop for End {
        fn drop(&mut self) {
            RUNNING.set(None);
        }
    }
    let host = NonNull::from(host);
    // SAFETY: only the lifetime changes. The pointer is used only below `f`, and the host outlives it.
    let host = unsafe { std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(host) };
    RUNNING.set(Some(Running { host, digest }));
    let _end = End;
    f()
}

/// Calls `f` with the host of the script that runs; returns `None` if none does.
pub(super) fn with_host<R>(f: impl FnOnce(&mut dyn Host) -> R) -> Option<R> {
    // While the host is used, nobody else gets it.
    let running = RUNNING.take()?;
    // SAFETY: the host is valid until `with_running` ends, which has borrowed it exclusively.
    let result = f(unsafe { &mut *running.host.as_ptr() });
    RUNNING.set(Some(running));
    Some(result)
}

/// The SHA-1 of the script that runs, in hexadecimal digits.
pub(super) fn running_digest() -> String {
    RUNNING.get().map_or_else(String::new, |running| format_digest(&running.digest))
}

/// Whether the script that runs has to end.
pub(super) fn must_end() -> bool {
    with_host(|host| host.must_end()).unwrap_or(false)
}
