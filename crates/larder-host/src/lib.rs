//! What bindings of larder to other languages share. A binding translates calls and objects of its language, and nothing else.

mod completions;
mod process;
pub mod profile;
mod wait;

pub use completions::{CallId, Completions, Outcome};
#[cfg(unix)]
pub use completions::{NoticeSender, NoticeSocket, notice_socket};
pub use process::PerProcess;
pub use wait::{WAIT_SLICE, WaitError, wait};
