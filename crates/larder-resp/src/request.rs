//! Commands as clients send them: an incremental parser whose results point into the caller's buffer.

use std::ops::Index;

use memchr::memchr;

use crate::{Limits, ProtocolError, inline, parse_integer};

/// Whether a whole frame was there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress<T = ()> {
    /// A frame ended after `consumed` bytes of the buffer.
    Complete {
        /// Bytes of the buffer that belong to the frame; the next one starts behind them.
        consumed: usize,
        /// What was read; `()` where the result is asked for by another call.
        frame: T,
    },
    /// More bytes are needed.
    Incomplete {
        /// At least so many more; 1 when unknown.
        missing: usize,
    },
}

/// An incremental parser of requests: arrays of bulk strings, or inline commands.
///
/// The caller keeps the bytes. While a request is incomplete it must call again with a buffer that starts at the same
/// byte and has grown; what was looked at once is not looked at again, however slowly the bytes arrive.
///
/// Cost: no allocation per request once the parser is warm; eight bytes per argument are kept for the next one.
#[derive(Debug, Default)]
pub struct RequestParser {
    spans: Vec<Span>,
    /// Arguments that the request in progress announced; 0 between requests.
    expected: usize,
    /// Where the next argument starts, or how far the search for the end of an inline command has come.
    position: usize,
    inline: bool,
    inline_text: Vec<u8>,
}

/// Part of a buffer, in half the bytes of a `Range<usize>`: requests are shorter than 4 GiB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    start: u32,
    end: u32,
}

impl Span {
    pub(crate) fn new(start: usize, end: usize) -> Self {
        debug_assert!(end <= u32::MAX as usize, "requests are limited to u32::MAX bytes");
        Span { start: start as u32, end: end as u32 }
    }

    pub(crate) fn of(self, text: &[u8]) -> &[u8] {
        &text[self.start as usize..self.end as usize]
    }
}

/// Spans kept for reuse between requests; a larger allocation is given back.
const KEPT_SPANS: usize = 1024;

impl RequestParser {
    /// A parser between two requests; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        RequestParser::default()
    }

    /// Forgets a request that is incomplete: the next bytes are the start of another. Keeps its memory.
    pub fn restart(&mut self) {
        self.expected = 0;
        self.position = 0;
    }

    /// Reads the request at the start of `buffer`. An empty one (`*0`, an empty line) is complete and has no
    /// arguments: skip it.
    ///
    /// # Errors
    ///
    /// [`ProtocolError`] as soon as the bytes cannot become a request within `limits`. The parser is then of no
    /// further use.
    pub fn parse(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        if self.expected == 0 {
            match buffer.first() {
                None => return Ok(Progress::Incomplete { missing: 1 }),
                Some(b'*') => {}
                Some(_) => return self.parse_inline(buffer, limits),
            }
            self.start();
            let Some((count, next)) = length_line(buffer, 0, ProtocolError::InvalidMultibulkLength)? else {
                return Ok(Progress::Incomplete { missing: 1 });
            };
            self.expected = limits.check_args(count)?;
            self.position = next;
        }
        while self.spans.len() < self.expected {
            if let Some(missing) = self.parse_argument(buffer, limits)? {
                return Ok(Progress::Incomplete { missing });
            }
        }
        self.expected = 0;
        Ok(Progress::Complete { consumed: std::mem::take(&mut self.position), frame: () })
    }

    /// The arguments of the request that [`parse`](Self::parse) has just completed in `buffer`, the command's name
    /// first.
    #[must_use]
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        Args { text: if self.inline { &self.inline_text } else { buffer }, spans: &self.spans }
    }

    /// Whether the last complete request was a line of text rather than an array.
    #[must_use]
    pub fn is_inline(&self) -> bool {
        self.inline
    }

    fn start(&mut self) {
        self.spans.clear();
        self.spans.shrink_to(KEPT_SPANS);
        self.inline = false;
    }

    /// Reads one `$` argument; `Some` is the number of bytes that are missing at least.
    #[inline]
    fn parse_argument(&mut self, buffer: &[u8], limits: &Limits) -> Result<Option<usize>, ProtocolError> {
        match buffer.get(self.position) {
            None => return Ok(Some(1)),
            Some(b'$') => {}
            Some(other) => return Err(ProtocolError::ExpectedBulk(*other)),
        }
        let Some((length, start)) = length_line(buffer, self.position, ProtocolError::InvalidBulkLength)?
        else {
            return Ok(Some(1));
        };
        let end = start + limits.check_bulk(length)?;
        limits.check_request(end)?;
        let Some(terminator) = buffer.get(end..end + 2) else {
            return Ok(Some(end + 2 - buffer.len()));
        };
        if terminator != b"\r\n" {
            return Err(ProtocolError::ExpectedCrlf);
        }
        self.spans.push(Span::new(start, end));
        self.position = end + 2;
        Ok(None)
    }

    fn parse_inline(&mut self, buffer: &[u8], limits: &Limits) -> Result<Progress, ProtocolError> {
        let seen = std::mem::take(&mut self.position);
        let Some(end) = memchr(b'\n', &buffer[seen..]).map(|at| seen + at) else {
            if buffer.len() > limits.max_inline_bytes {
                return Err(ProtocolError::InlineTooBig);
            }
            self.position = buffer.len();
            return Ok(Progress::Incomplete { missing: 1 });
        };
        if end > limits.max_inline_bytes {
            return Err(ProtocolError::InlineTooBig);
        }
        self.start();
        self.inline = true;
        let line = buffer[..end].strip_suffix(b"\r").unwrap_or(&buffer[..end]);
        inline::split(line, &mut self.inline_text, &mut self.spans)?;
        Ok(Progress::Complete { consumed: end + 1, frame: () })
    }
}

/// The longest number is `-9223372036854775808`.
const MAX_NUMBER_BYTES: usize = 20;

/// Reads the number behind the type byte at `position` up to CR LF, and where the next line starts.
#[inline]
pub(crate) fn length_line(
    buffer: &[u8],
    position: usize,
    invalid: ProtocolError,
) -> Result<Option<(i64, usize)>, ProtocolError> {
    let line = &buffer[position + 1..];
    let window = &line[..line.len().min(MAX_NUMBER_BYTES + 1)];
    let Some(length) = window.iter().position(|byte| *byte == b'\r') else {
        return if window.len() > MAX_NUMBER_BYTES { Err(invalid) } else { Ok(None) };
    };
    let Some(newline) = line.get(length + 1) else { return Ok(None) };
    if *newline != b'\n' {
        return Err(ProtocolError::ExpectedCrlf);
    }
    match parse_integer(&line[..length]) {
        Some(number) => Ok(Some((number, position + length + 3))),
        None => Err(invalid),
    }
}

/// The arguments of one request, borrowed from the buffer it was read from.
#[derive(Debug, Clone, Copy)]
pub struct Args<'a> {
    text: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// How many there are, the command's name included; 0 for an empty request.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether the request was empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// One argument, or `None` behind the last.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| span.of(self.text))
    }

    /// The arguments from `index` on; none if there are not so many.
    #[must_use]
    pub fn skip(&self, index: usize) -> Args<'a> {
        Args { text: self.text, spans: self.spans.get(index..).unwrap_or_default() }
    }

    /// All of them in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &'a [u8]> + use<'a> {
        let text = self.text;
        self.spans.iter().map(move |span| span.of(text))
    }
}

impl Index<usize> for Args<'_> {
    type Output = [u8];

    /// # Panics
    ///
    /// Behind the last argument.
    fn index(&self, index: usize) -> &[u8] {
        self.spans[index].of(self.text)
    }
}

#[cfg(test)]
mod tests;
