//! Protocol errors. The texts are those of Redis, so that a server can send them unchanged.

use thiserror::Error;

/// The bytes are not RESP, or they announce more than [`Limits`](crate::Limits) allow.
///
/// The display text is what Redis sends after `-ERR `. After such an error framing is lost: close the connection.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The `*` line of a request has no number, or one above the limit.
    #[error("Protocol error: invalid multibulk length")]
    InvalidMultibulkLength,
    /// A request has too many arguments for a client that has not authenticated.
    #[error("Protocol error: unauthenticated multibulk length")]
    UnauthenticatedMultibulkLength,
    /// The `$` line of an argument has no number, a negative one, or one above the limit.
    #[error("Protocol error: invalid bulk length")]
    InvalidBulkLength,
    /// An argument is too large for a client that has not authenticated.
    #[error("Protocol error: unauthenticated bulk length")]
    UnauthenticatedBulkLength,
    /// An argument of a request does not start with `$`.
    #[error("Protocol error: expected '$', got '{}'", .0.escape_ascii())]
    ExpectedBulk(u8),
    /// The bytes after a bulk or a line are not CR LF.
    #[error("Protocol error: expected CRLF")]
    ExpectedCrlf,
    /// An inline command has no line end within the limit.
    #[error("Protocol error: too big inline request")]
    InlineTooBig,
    /// An inline command has an open quote, or text directly after a closing quote.
    #[error("Protocol error: unbalanced quotes in request")]
    UnbalancedQuotes,
    /// All arguments of one request together exceed the limit.
    #[error("Protocol error: too big request")]
    RequestTooBig,
    /// The first byte of a reply is not a known type.
    #[error("Protocol error: unknown reply type '{}'", .0.escape_ascii())]
    UnknownReplyType(u8),
    /// The content of a reply does not match its type.
    #[error("Protocol error: invalid {0} reply")]
    InvalidReply(&'static str),
    /// Aggregates are nested deeper than the limit.
    #[error("Protocol error: reply nested deeper than {0}")]
    TooDeep(usize),
}
