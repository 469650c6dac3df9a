//! Looking ahead in a pipeline: the memory that its keys will need is on the way while earlier commands are executed.

use larder_resp::{Limits, Progress, RequestParser};

use crate::db::{Ahead, Database};

/// How far is looked at a time: enough for the keys of some short requests, little enough to be read twice.
const MOST_BYTES: usize = 16 << 10;

/// One thread's lookout.
#[derive(Default)]
pub(crate) struct Lookout {
    parser: RequestParser,
}

impl Lookout {
    /// Asks for what the next requests of `input` will need; returns how many bytes they take. What is wrong with a
    /// request, whoever executes it will find.
    pub(crate) fn look(&mut self, input: &[u8], limits: &Limits, db: Database<'_>) -> usize {
        let input = &input[..input.len().min(MOST_BYTES)];
        let (mut ahead, mut seen) = (Ahead::new(), 0);
        self.parser.restart();
        while !ahead.is_full() {
            let rest = &input[seen..];
            let Ok(Progress::Complete { consumed, .. }) = self.parser.parse(rest, limits) else { break };
            // Where a command has keys, its first argument is one.
            if let Some(key) = self.parser.args(rest).get(1) {
                db.add_ahead(&mut ahead, key);
            }
            seen += consumed;
        }
        db.fetch(&ahead);
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Store;

    fn look(lookout: &mut Lookout, input: &[u8]) -> usize {
        let store = Store::new(Some(1 << 20)).expect("a valid limit");
        lookout.look(input, &Limits::default(), store.database(0))
    }

    #[test]
    fn it_stops_at_sixteen_keys_and_at_what_it_cannot_read() {
        const GET: &[u8] = b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n";
        const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";
        let mut lookout = Lookout::default();
        for (rest, what) in [
            (&b"*2\r\n$3\r\nGET\r\n$5\r\nke"[..], "an incomplete request"),
            (&b"*2\r\n!3\r\n"[..], "no request"),
            (&[][..], "nothing"),
        ] {
            let input = [PING, GET, GET, rest].concat();
            // Twice: what could not be read leaves no trace.
            for _ in 0..2 {
                assert_eq!(look(&mut lookout, &input), PING.len() + 2 * GET.len(), "{what}");
            }
        }
        assert_eq!(look(&mut lookout, &GET.repeat(40)), 16 * GET.len());
        let large = [b"*2\r\n$4\r\nECHO\r\n$20000\r\n", &[b'x'; 20_000][..], b"\r\n"].concat();
        assert_eq!(look(&mut lookout, &large), 0, "it does not read twice what takes long to read");
    }
}
