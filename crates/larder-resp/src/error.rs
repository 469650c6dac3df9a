//! What can be wrong with bytes on the wire; the texts are those of Redis, so that a server can send them as they are.

use thiserror::Error;

/// Bytes that are not RESP, or that announce more than [`Limits`](crate::Limits) allow.
///
/// The display text is what Redis puts behind `-ERR `. After such an error the position in the stream is unknown:
/// the connection can only be closed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The `*` line of a request has no number, or one above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// A request with too many arguments came before authentication.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// The `$` line of an argument has no number, a negative one, or one above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument too large for a client that has not authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An argument of a request does not start with `$`.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedBulk(u8),
    /// The bytes after a bulk or a line are not CR LF.
    #[error("Protocol error: expected CRLF")]
    ExpectedCrlf,
    /// An inline command without a line end within the limit.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline command with an open quote, or text right behind a closing one.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// All arguments of one request together exceed the limit.
    #[error("Protocol error: too big request")]
    RequestTooBig,
    /// A reply that starts with a byte no reply type has.
    #[error("Protocol error: unknown reply type '{}'", .0.escape_ascii())]
    UnknownReplyType(u8),
    /// A reply whose content does not fit its type.
    #[error("Protocol error: invalid {0} reply")]
    InvalidReply(&'static str),
    /// Aggregates nested deeper than the limit.
    #[error("Protocol error: reply nested deeper than {0}")]
    TooDeep(usize),
}
