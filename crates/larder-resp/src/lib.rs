//! RESP2 and RESP3, the two versions of the Redis serialization protocol: bytes to frames and back, without sockets.
//!
//! Three parts, each usable alone:
//!
//! - [`RequestParser`] parses the commands of clients; the arguments are slices of the caller's buffer;
//! - [`Encoder`] writes the replies of servers, in the client's [`Protocol`] version;
//! - [`ReplyParser`] parses the replies of servers into [`Frame`]s, for clients, listeners and tests.
//!
//! Incomplete input is a value ([`Progress::Incomplete`]), not an error. Every length is checked against [`Limits`]
//! before memory is allocated for it.
//!
//! ```
//! use larder_resp::{Encoder, Limits, Progress, Protocol, RequestParser};
//!
//! let mut parser = RequestParser::new();
//! let input = b"*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\nPING\r\n";
//! let Progress::Complete { consumed, .. } = parser.parse(input, &Limits::default())? else { unreachable!() };
//! let args = parser.args(input);
//! assert_eq!(args.get(0), Some(&b"ECHO"[..]));
//!
//! let mut out = Vec::new();
//! Encoder::new(&mut out, Protocol::Resp2).bulk(&args[1]);
//! assert_eq!(out, b"$2\r\nhi\r\n");
//! assert_eq!(&input[consumed..], b"PING\r\n");
//! # Ok::<(), larder_resp::ProtocolError>(())
//! ```

mod args_buffer;
mod encode;
mod error;
mod frame;
mod inline;
mod limits;
mod number;
mod reply;
mod request;

pub use args_buffer::ArgsBuffer;
pub use encode::{Encoder, Protocol, format_float};
pub use error::ProtocolError;
pub use frame::Frame;
pub use limits::Limits;
pub use number::{parse_float, parse_integer};
pub use reply::ReplyParser;
pub use request::{Args, Progress, RequestParser};
