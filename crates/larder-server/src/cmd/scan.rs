//! `SCAN` and `KEYS`: iterate over the keyspace.

use larder_resp::{Args, Encoder};

use super::options::integer;
use super::{CommandError, Context, Outcome};
use crate::glob;

/// Entries that `SCAN` visits without `COUNT`.
const DEFAULT_COUNT: usize = 10;
/// Entries that `KEYS` visits at a time.
const KEYS_BATCH: usize = 1024;

pub(super) fn scan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = std::str::from_utf8(&args[1]).ok().and_then(|text| text.parse().ok());
    let cursor: u64 = cursor.ok_or(CommandError::Fixed("ERR invalid cursor"))?;
    let options = Options::parse(args.skip(2))?;
    let mut found = KeyList::default();
    let next = cx.db().scan(cursor, options.count, |key| {
        if options.matches_type && options.pattern.is_none_or(|pattern| glob::matches(pattern, key)) {
            found.push(key);
        }
    });
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    found.reply(&mut reply);
    Ok(())
}

pub(super) fn keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let pattern = &args[1];
    let mut found = KeyList::default();
    let mut cursor = 0;
    loop {
        cursor = cx.db().scan(cursor, KEYS_BATCH, |key| {
            if glob::matches(pattern, key) {
                found.push(key);
            }
        });
        if cursor == 0 {
            break;
        }
    }
    found.reply(&mut cx.reply());
    Ok(())
}

struct Options<'a> {
    count: usize,
    pattern: Option<&'a [u8]>,
    /// Whether the type is `string`, the only type of this server.
    matches_type: bool,
}

impl<'a> Options<'a> {
    fn parse(args: Args<'a>) -> Result<Options<'a>, CommandError> {
        let mut options = Options { count: DEFAULT_COUNT, pattern: None, matches_type: true };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                let count = integer(value)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = Some(value).filter(|pattern| *pattern != b"*");
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                options.matches_type = value.eq_ignore_ascii_case(b"string");
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}

/// The matching keys, concatenated. They are collected because the reply starts with their number.
#[derive(Default)]
struct KeyList {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl KeyList {
    fn push(&mut self, key: &[u8]) {
        self.bytes.extend_from_slice(key);
        self.ends.push(self.bytes.len());
    }

    fn reply(&self, reply: &mut Encoder<'_>) {
        reply.array(self.ends.len());
        let mut start = 0;
        for end in &self.ends {
            reply.bulk(&self.bytes[start..*end]);
            start = *end;
        }
    }
}
