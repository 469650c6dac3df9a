//! The next requests of a pipeline: they are parsed some at a time, and the memory of their keys is prefetched for all of them
//! before the first runs.

use larder_resp::{Limits, Progress, RequestParser};

use crate::db::{Database, PrefetchBatch};

/// Requests that are parsed at a time: as many as keys are prefetched at a time.
const REQUESTS: usize = 16;
/// Bytes of the pipeline that are parsed ahead: enough for some short requests, few enough that a long one, which is parsed
/// alone, does not cost twice.
const MAX_BYTES: usize = 16 << 10;

/// The requests of one thread that were parsed and have not run.
#[derive(Default)]
pub(crate) struct Lookahead {
    parsers: [RequestParser; REQUESTS],
    /// The lengths of the requests in bytes.
    lengths: [usize; REQUESTS],
    /// Those from here to `end` have not been taken.
    next: usize,
    end: usize,
}

impl Lookahead {
    /// Forgets the requests that were not taken.
    pub(crate) fn clear(&mut self) {
        (self.next, self.end) = (0, 0);
    }

    /// The next request of `input`, with its length in bytes. Its arguments are ranges of `input`, which begins with what the
    /// request before has left. `None` if it is invalid, long or incomplete: the parser of the connection judges those.
    #[inline]
    pub(crate) fn take<'d>(
        &mut self,
        input: &[u8],
        limits: &Limits,
        db: impl FnOnce() -> Database<'d>,
    ) -> Option<(&RequestParser, usize)> {
        if self.next == self.end {
            self.fill(input, limits, db());
        }
        let at = self.next;
        (at < self.end).then(|| {
            self.next += 1;
            (&self.parsers[at], self.lengths[at])
        })
    }

    /// Parses the next requests, and prefetches for them.
    fn fill(&mut self, input: &[u8], limits: &Limits, db: Database<'_>) {
        let input = &input[..input.len().min(MAX_BYTES)];
        let (mut batch, mut parsed) = (PrefetchBatch::new(), 0);
        self.clear();
        for (parser, length) in self.parsers.iter_mut().zip(&mut self.lengths) {
            let rest = &input[parsed..];
            let Ok(Progress::Complete { consumed, .. }) = parser.parse(rest, limits) else {
                parser.restart();
                break;
            };
            // If a command has keys, the first argument is a key.
            if let Some(key) = parser.args(rest).get(1) {
                db.add_to_batch(&mut batch, key);
            }
            *length = consumed;
            parsed += consumed;
            self.end += 1;
        }
        db.prefetch(&batch);
        self.prefetch_members(input, db);
    }

    /// Prefetches for commands on one key, as programs send them that fill a hash or a set, or read it.
    fn prefetch_members(&self, input: &[u8], db: Database<'_>) {
        let mut rest = input;
        let requests = self.parsers[..self.end].iter().zip(&self.lengths).map(|(parser, length)| {
            let args = parser.args(rest);
            rest = &rest[*length..];
            args.get(1).zip(args.get(2))
        });
        let mut requests = requests.map_while(|request| request);
        let Some((key, first)) = requests.next() else { return };
        let mut members =
            requests.take_while(|(other, _)| *other == key).map(|(_, member)| member).peekable();
        if members.peek().is_some() {
            db.prefetch_members(key, std::iter::once(first).chain(members));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Store;
    use crate::observers::FieldEvents;
    use crate::values::hash::Field;

    /// The lengths of the requests that are taken until there is none.
    fn taken(lookahead: &mut Lookahead, input: &[u8]) -> Vec<usize> {
        taken_with(lookahead, &Store::new(Some(1 << 20)).expect("a valid limit"), input)
    }

    fn taken_with(lookahead: &mut Lookahead, store: &Store, mut input: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        while let Some((_, length)) = lookahead.take(input, &Limits::default(), || store.database(0)) {
            input = &input[length..];
            lengths.push(length);
        }
        lengths
    }

    #[test]
    fn requests_are_taken_until_one_is_invalid_or_incomplete_or_long() {
        const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        let long = [b"*2\r\n$4\r\nECHO\r\n$20000\r\n", &[b'x'; 20_000][..], b"\r\n"].concat();
        let mut lookahead = Lookahead::default();
        for (rest, what) in [
            (&b"*2\r\n$3\r\nGET\r\n$5\r\nke"[..], "an incomplete request"),
            (b"*2\r\n!3\r\n", "an invalid request"),
            (b"", "the end of the input"),
            (&long, "a long request"),
        ] {
            let input = [PING, GET, GET, rest].concat();
            // Twice: what was not taken must leave no state in a parser.
            for _ in 0..2 {
                assert_eq!(taken(&mut lookahead, &input), [PING.len(), GET.len(), GET.len()], "{what}");
            }
        }
        assert_eq!(taken(&mut lookahead, &GET.repeat(40)), [GET.len(); 40]);
    }

    #[test]
    fn requests_for_members_of_one_value_are_taken_as_all_others() {
        let store = Store::new(Some(16 << 20)).expect("a valid limit");
        let db = store.database(0);
        for number in 0..20_000 {
            let name = format!("field {number}");
            let field = Field { name: name.as_bytes(), value: b"v", deadline: None };
            let stored = db.edit_hash(b"large", true, |hash| (FieldEvents::OWN, hash.put(field, 0)));
            assert!(stored.is_ok_and(|is_new| is_new == Some(true)));
        }
        let requests: &[&[&str]] = &[
            &["HGET", "large", "field 1"],
            &["HGET", "large", "missing"],
            &["HSET", "large", "field 2", "other"],
            &["HLEN", "large"],
            &["HGET", "large", "field 3"],
            &["HGET", "missing", "field 1"],
        ];
        for skipped in 0..requests.len() {
            let (mut input, mut lengths) = (Vec::new(), Vec::new());
            for request in &requests[skipped..] {
                let words = request.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
                let request = format!("*{}\r\n", request.len()) + &words.collect::<String>();
                input.extend_from_slice(request.as_bytes());
                lengths.push(request.len());
            }
            assert_eq!(taken_with(&mut Lookahead::default(), &store, &input), lengths);
        }
    }

    #[test]
    fn requests_that_were_not_taken_are_forgotten() {
        let store = Store::new(Some(1 << 20)).expect("a valid limit");
        let mut lookahead = Lookahead::default();
        let (one, other) = (b"+PING\r\n".repeat(3), b"*1\r\n$4\r\nECHO\r\n");
        assert!(lookahead.take(&one, &Limits::default(), || store.database(0)).is_some());
        lookahead.clear();
        let (parser, length) =
            lookahead.take(other, &Limits::default(), || store.database(0)).expect("it is complete");
        assert_eq!((&parser.args(other)[0], length), (&b"ECHO"[..], other.len()));
    }
}
