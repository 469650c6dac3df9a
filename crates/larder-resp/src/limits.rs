//! Limits on the lengths that a peer announces. They are checked before memory is allocated.

use crate::ProtocolError;

/// Upper bounds on one request or reply.
///
/// The defaults are those of Redis. An announced length alone allocates nothing: memory grows only with received
/// bytes. A high argument count is safe: six bytes on the wire cause at most eight bytes of memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Arguments of one request, elements of one reply. Default 1,048,576: bulk deletes and `MGET`s of real clients
    /// exceed 65,536.
    pub max_args: usize,
    /// Bytes of one argument or of one bulk reply. Default 512 MiB.
    pub max_bulk_bytes: usize,
    /// Bytes of one inline command. Default 64 KiB.
    pub max_inline_bytes: usize,
    /// Bytes of one whole request. Default 1 GiB, at most [`u32::MAX`].
    pub max_request_bytes: usize,
    /// Levels of nested aggregates in one reply. Default 32. Requests always have one level.
    pub max_depth: usize,
    /// Whether the peer has not authenticated yet. This changes only the error texts. Default `false`.
    pub unauthenticated: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_args: 1 << 20,
            max_bulk_bytes: 512 << 20,
            max_inline_bytes: 64 << 10,
            max_request_bytes: 1 << 30,
            max_depth: 32,
            unauthenticated: false,
        }
    }
}

impl Limits {
    /// The limits before `AUTH`: ten arguments of 16 KiB, enough for `HELLO 3 AUTH user password SETNAME n`.
    #[must_use]
    pub fn unauthenticated() -> Self {
        Limits {
            max_args: 10,
            max_bulk_bytes: 16 << 10,
            max_request_bytes: 256 << 10,
            unauthenticated: true,
            ..Limits::default()
        }
    }

    #[inline]
    pub(crate) fn check_args(&self, announced: i64) -> Result<usize, ProtocolError> {
        // Zero and negative counts are empty requests, as in Redis.
        let count = usize::try_from(announced.max(0)).map_err(|_| ProtocolError::InvalidMultibulkLength)?;
        match count <= self.max_args {
            true => Ok(count),
            false if self.unauthenticated && count <= i32::MAX as usize => {
                Err(ProtocolError::UnauthenticatedMultibulkLength)
            }
            false => Err(ProtocolError::InvalidMultibulkLength),
        }
    }

    #[inline]
    pub(crate) fn check_bulk(&self, announced: i64) -> Result<usize, ProtocolError> {
        let length = usize::try_from(announced).map_err(|_| ProtocolError::InvalidBulkLength)?;
        match length <= self.max_bulk_bytes {
            true => Ok(length),
            false if self.unauthenticated && length <= Limits::default().max_bulk_bytes => {
                Err(ProtocolError::UnauthenticatedBulkLength)
            }
            false => Err(ProtocolError::InvalidBulkLength),
        }
    }

    #[inline]
    pub(crate) fn check_request(&self, bytes: usize) -> Result<(), ProtocolError> {
        let limit = self.max_request_bytes.min(u32::MAX as usize);
        if bytes <= limit { Ok(()) } else { Err(ProtocolError::RequestTooBig) }
    }
}
