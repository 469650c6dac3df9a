//! What bindings of larder to other languages share. A binding translates calls and objects of its language, and nothing else.

mod codec;
mod completions;
mod process;
pub mod profile;
mod signature;
mod value;
mod wait;

pub use codec::{HostCodec, Objects, PrivateFormat};
pub use completions::{CallId, Completions, Outcome};
#[cfg(unix)]
pub use completions::{NoticeSender, NoticeSocket, notice_socket};
pub use process::PerProcess;
pub use signature::{KeyError, MIN_KEY_BYTES, SignedView, Signer};
pub use value::HostValue;
pub use wait::{WAIT_SLICE, WaitError, wait};
