//! Prefetches the memory of the next keys of a pipeline while earlier commands run.

use larder_resp::{Limits, Progress, RequestParser};

use crate::db::{Database, PrefetchBatch};

/// Bytes of the pipeline that are parsed ahead: enough for some short requests, few enough to parse them twice.
const MAX_PREFETCHED_BYTES: usize = 16 << 10;

/// The prefetcher of one thread.
#[derive(Default)]
pub(crate) struct PipelinePrefetcher {
    parser: RequestParser,
}

impl PipelinePrefetcher {
    /// Prefetches for the next requests of `input` and returns their length in bytes. Stops at an invalid request,
    /// which the execution reports.
    pub(crate) fn prefetch(&mut self, input: &[u8], limits: &Limits, db: Database<'_>) -> usize {
        let input = &input[..input.len().min(MAX_PREFETCHED_BYTES)];
        let (mut batch, mut parsed) = (PrefetchBatch::new(), 0);
        self.parser.restart();
        while !batch.is_full() {
            let rest = &input[parsed..];
            let Ok(Progress::Complete { consumed, .. }) = self.parser.parse(rest, limits) else { break };
            // If a command has keys, the first argument is a key.
            if let Some(key) = self.parser.args(rest).get(1) {
                db.add_to_batch(&mut batch, key);
            }
            parsed += consumed;
        }
        db.prefetch(&batch);
        parsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Store;

    fn prefetched_bytes(prefetcher: &mut PipelinePrefetcher, input: &[u8]) -> usize {
        let store = Store::new(Some(1 << 20)).expect("a valid limit");
        prefetcher.prefetch(input, &Limits::default(), store.database(0))
    }

    #[test]
    fn prefetch_stops_at_sixteen_keys_and_at_invalid_input() {
        const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        let mut prefetcher = PipelinePrefetcher::default();
        for (rest, what) in [
            (&b"*2\r\n$3\r\nGET\r\n$5\r\nke"[..], "an incomplete request"),
            (&b"*2\r\n!3\r\n"[..], "an invalid request"),
            (&[][..], "the end of the input"),
        ] {
            let input = [PING, GET, GET, rest].concat();
            // Twice: invalid input must leave no state in the parser.
            for _ in 0..2 {
                assert_eq!(prefetched_bytes(&mut prefetcher, &input), PING.len() + 2 * GET.len(), "{what}");
            }
        }
        assert_eq!(prefetched_bytes(&mut prefetcher, &GET.repeat(40)), 16 * GET.len());
        let large = [b"*2\r\n$4\r\nECHO\r\n$20000\r\n", &[b'x'; 20_000][..], b"\r\n"].concat();
        assert_eq!(prefetched_bytes(&mut prefetcher, &large), 0, "long requests are not parsed twice");
    }
}
