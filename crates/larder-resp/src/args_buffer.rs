//! Requests that are kept for later.

use std::sync::Arc;

use crate::request::{Args, Span};

/// The arguments of several requests, in three allocations.
///
/// ```
/// use larder_resp::{ArgsBuffer, Limits, RequestParser};
///
/// let (mut parser, mut kept) = (RequestParser::new(), ArgsBuffer::new());
/// for input in [&b"GET one\r\n"[..], b"SET two 2\r\n"] {
///     parser.parse(input, &Limits::default())?;
///     assert!(kept.push(parser.args(input)));
/// }
/// assert_eq!((kept.len(), &kept.get(1)[2]), (2, &b"2"[..]));
/// # Ok::<(), larder_resp::ProtocolError>(())
/// ```
#[derive(Debug, Default)]
pub struct ArgsBuffer {
    text: Vec<u8>,
    spans: Vec<Span>,
    /// The end of each request in `spans`.
    ends: Vec<u32>,
    /// The arguments that are shared and not copied.
    long: Vec<Arc<[u8]>>,
}

impl ArgsBuffer {
    /// An empty buffer; allocates nothing.
    #[must_use]
    pub fn new() -> Self {
        ArgsBuffer::default()
    }

    /// Copies a request, except the arguments that were [supplied](crate::RequestParser::supply), which it shares. Returns
    /// false, and changes nothing, if what is copied would exceed 4 GiB.
    #[must_use]
    pub fn push(&mut self, args: Args<'_>) -> bool {
        let is_copied = |index: &usize| args.shared(*index).is_none();
        let bytes: usize = (0..args.len()).filter(is_copied).map(|index| args[index].len()).sum();
        if self.text.len() + bytes > u32::MAX as usize || self.spans.len() + args.len() > u32::MAX as usize {
            return false;
        }
        for (index, arg) in args.iter().enumerate() {
            match args.shared(index) {
                None => _ = self.push_arg(|text| text.extend_from_slice(arg)),
                Some(value) => {
                    self.spans.push(Span::long(self.long.len()));
                    self.long.push(Arc::clone(value));
                }
            }
        }
        self.end_request();
        true
    }

    /// Appends an argument to a request that [`end_request`](Self::end_request) completes. `write` appends its bytes.
    /// Returns false, and drops the argument, if all together would exceed 4 GiB.
    pub fn push_arg(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> bool {
        let start = self.text.len();
        write(&mut self.text);
        let fits = self.text.len() <= u32::MAX as usize && self.spans.len() < u32::MAX as usize;
        match fits {
            true => self.spans.push(Span::new(start, self.text.len())),
            false => self.text.truncate(start),
        }
        fits
    }

    /// Ends the request whose arguments were appended one by one.
    pub fn end_request(&mut self) {
        self.ends.push(self.spans.len() as u32);
    }

    /// Removes all requests. The memory is retained for the next ones, up to `max_bytes` of text.
    pub fn clear(&mut self, max_bytes: usize) {
        self.text.clear();
        self.text.shrink_to(max_bytes);
        self.spans.clear();
        self.spans.shrink_to(max_bytes / size_of::<Span>());
        self.ends.clear();
        self.long.clear();
    }

    /// Takes out the arguments that it shares. The requests that have them are gone then.
    pub fn take_long_arguments(&mut self) -> Vec<Arc<[u8]>> {
        let long = std::mem::take(&mut self.long);
        self.clear(0);
        long
    }

    /// The number of requests.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no request.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The request at `index`.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn get(&self, index: usize) -> Args<'_> {
        let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
        Args::new(&self.text, &self.spans[start as usize..self.ends[index] as usize], &self.long)
    }

    /// The memory that it holds, in bytes.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        self.text.capacity()
            + self.spans.capacity() * size_of::<Span>()
            + self.ends.capacity() * size_of::<u32>()
            + self.long.iter().map(|value| value.len()).sum::<usize>()
    }
}
