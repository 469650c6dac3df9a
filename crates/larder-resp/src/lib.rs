//! RESP2 and RESP3, the two versions of the Redis serialization protocol: bytes to frames and back, without sockets.
//!
//! Three parts, each usable alone:
//!
//! - [`RequestParser`] reads what clients send: commands, whose arguments stay where they are in the caller's buffer;
//! - [`Encoder`] writes what servers answer, in the form the client's [`Protocol`] asks for;
//! - [`ReplyParser`] reads what servers answer into [`Frame`]s, for clients, listeners and tests.
//!
//! Incomplete input is a value ([`Progress::Incomplete`]), never an error, and every length is checked against
//! [`Limits`] before anything is allocated for it.
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

mod encode;
mod error;
mod frame;
mod inline;
mod limits;
mod number;
mod reply;
mod request;

pub use encode::{Encoder, Protocol};
pub use error::ProtocolError;
pub use frame::Frame;
pub use limits::Limits;
pub use number::{parse_float, parse_integer};
pub use reply::ReplyParser;
pub use request::{Args, Progress, RequestParser};
