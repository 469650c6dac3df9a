//! Replies that a socket has not accepted yet, with the large values that belong into them.

use std::io::{self, ErrorKind};

use super::listener::Socket;
use crate::values::large::LargeReplies;

/// Bytes that one turn sends before it yields to other connections. In tests it is less than a socket accepts.
const SENT_PER_TURN: usize = if cfg!(test) { 64 << 10 } else { 256 << 10 };

/// How far replies were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    All,
    /// As much as the turn may send.
    Budget,
    /// As much as the system accepts.
    Blocked,
}

/// Replies that are not sent yet.
#[derive(Default)]
pub(crate) struct Unsent {
    bytes: Vec<u8>,
    /// How many of the bytes are sent.
    sent: usize,
    /// The values that belong into the bytes.
    large: LargeReplies,
}

impl Unsent {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The number of bytes that are not sent, without large values.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// The memory that the replies hold, in bytes: the values they contain may be in no store any more.
    #[inline]
    pub(crate) fn held_bytes(&self) -> usize {
        self.bytes.capacity() + self.large.held_bytes() as usize
    }

    /// The memory of the replies without large values.
    #[cfg(test)]
    pub(crate) fn copied_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    /// Sends replies while nothing else is unsent: as many as the system accepts in this turn. Keeps the rest.
    #[inline]
    pub(crate) fn send_new(
        &mut self,
        socket: &mut Socket,
        output: &mut Vec<u8>,
        large: &mut LargeReplies,
    ) -> io::Result<Sent> {
        if !large.is_empty() {
            *self = Unsent { bytes: std::mem::take(output), sent: 0, large: std::mem::take(large) };
            return self.send(socket).map(|(sent, _)| sent);
        }
        let end = output.len().min(SENT_PER_TURN);
        let sent = send(socket, &output[..end])?;
        if sent == output.len() {
            return Ok(Sent::All);
        }
        *self = Unsent { bytes: std::mem::take(output), sent, large: LargeReplies::default() };
        Ok(if sent == end { Sent::Budget } else { Sent::Blocked })
    }

    /// Sends as much as the system accepts in this turn, and returns how many bytes that is.
    pub(crate) fn send(&mut self, socket: &mut Socket) -> io::Result<(Sent, usize)> {
        let mut unsent = std::mem::take(self);
        let mut budget = SENT_PER_TURN;
        while unsent.sent < unsent.bytes.len() {
            let until = unsent.large.next_position().unwrap_or(unsent.bytes.len());
            let is_large = unsent.sent == until;
            let next = if is_large { unsent.large.next_bytes() } else { &unsent.bytes[unsent.sent..until] };
            let next = &next[..next.len().min(budget)];
            let sent = send(socket, next)?;
            let is_blocked = sent < next.len();
            budget -= sent;
            match is_large {
                true => unsent.large.advance(sent),
                false => unsent.sent += sent,
            }
            if is_blocked || budget == 0 && unsent.sent < unsent.bytes.len() {
                *self = unsent;
                return Ok((if is_blocked { Sent::Blocked } else { Sent::Budget }, SENT_PER_TURN - budget));
            }
        }
        Ok((Sent::All, SENT_PER_TURN - budget))
    }
}

/// Writes as much of `bytes` as the system accepts; returns how much.
fn send(socket: &mut Socket, bytes: &[u8]) -> io::Result<usize> {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send(&bytes[sent..]) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(n) => sent += n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(sent)
}
