//! Children that `fork` makes of the process of a test.

use crate::wait::PATIENCE;
use std::ffi::c_void;
use std::io::{BufRead, BufReader, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::{null, null_mut};

/// One end of a connection between a parent and its child, over which each sends the other lines.
#[derive(Debug)]
pub struct Line {
    reader: BufReader<UnixStream>,
}

impl Line {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("it is not zero");
        Line { reader: BufReader::new(stream) }
    }

    /// Sends one line.
    ///
    /// # Panics
    /// If the other process has ended.
    pub fn send(&mut self, text: &str) {
        writeln!(self.reader.get_mut(), "{text}").expect("the other process listens");
    }

    /// Waits for the next line.
    ///
    /// # Panics
    /// If there is none within [`PATIENCE`], or the other process has ended.
    pub fn receive(&mut self) -> String {
        let mut line = String::new();
        let read = self.reader.read_line(&mut line);
        assert!(read.is_ok_and(|bytes| bytes > 0), "the other process sends no line within {PATIENCE:?}");
        line.trim_end().to_owned()
    }
}

/// A child process, which is killed when this is dropped.
#[derive(Debug)]
pub struct Child {
    pid: libc::pid_t,
    /// The connection to it.
    pub line: Line,
}

/// Forks. The child runs `work` on a new thread, sends the text that it returns, or the message of its panic, and ends without
/// running anything else of this process.
///
/// # Panics
/// If the system refuses to fork.
pub fn fork(work: impl FnOnce(&mut Line) -> String + Send) -> Child {
    let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
    // SAFETY: the child has one thread. It starts another one and waits for it, uses no lock that a test may have held but
    // those that the C library resets in a child, and leaves by `_exit`.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "cannot fork: {}", std::io::Error::last_os_error());
    if pid > 0 {
        drop(theirs);
        return Child { pid, line: Line::new(ours) };
    }
    // Nothing of the parent's frames may run in the child, not even if this panics.
    let _ = catch_unwind(AssertUnwindSafe(|| {
        drop(ours);
        let mut line = Line::new(theirs);
        let mut said = String::from("no thread was started");
        on_new_thread(Box::new(|| {
            let worked = catch_unwind(AssertUnwindSafe(|| work(&mut line)));
            said = worked.unwrap_or_else(|panic| format!("panicked: {}", message(&*panic)));
        }));
        line.send(&said.replace('\n', " "));
    }));
    // SAFETY: it ends the process, and nothing else.
    unsafe { libc::_exit(0) }
}

/// Runs `work` on a new thread and waits for its end. It must not panic. The thread is one of the system and not of the standard
/// library: its threads take a lock when they start and end, which a thread of the parent may have had when it forked.
fn on_new_thread<'a>(work: Box<dyn FnOnce() + Send + 'a>) {
    extern "C" fn run(work: *mut c_void) -> *mut c_void {
        // SAFETY: it is the pointer below, which is used once.
        let work = unsafe { Box::from_raw(work.cast::<Box<dyn FnOnce() + Send>>()) };
        work();
        null_mut()
    }
    let work: *mut Box<dyn FnOnce() + Send + 'a> = Box::into_raw(Box::new(work));
    let mut thread = MaybeUninit::uninit();
    // SAFETY: what `work` borrows lives until the thread has ended, for which this waits.
    unsafe {
        if libc::pthread_create(thread.as_mut_ptr(), null(), run, work.cast()) == 0 {
            libc::pthread_join(thread.assume_init(), null_mut());
        }
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("not with a text")
}

impl Drop for Child {
    fn drop(&mut self) {
        let mut status = 0;
        // SAFETY: the child was made by `fork` and not waited for, so its number is no other process's.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, &raw mut status, 0);
        }
    }
}
