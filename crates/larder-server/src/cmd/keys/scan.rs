//! `SCAN` and `KEYS`: iterate over the keyspace.

use larder_resp::Args;

use crate::cmd::options::integer;
use crate::cmd::visit::{Filter, Names, Purpose, Visit};
use crate::cmd::{CommandError, Context, Outcome};

/// Entries that `SCAN` visits without `COUNT`.
const DEFAULT_COUNT: usize = 10;

pub(crate) fn scan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = std::str::from_utf8(&args[1]).ok().and_then(|text| text.parse().ok());
    let cursor: u64 = cursor.ok_or(CommandError::Fixed("ERR invalid cursor"))?;
    let options = Options::parse(args.skip(2))?;
    start(cx, Purpose::Scan(options.names), cursor, options.count)
}

pub(crate) fn keys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    start(cx, Purpose::Keys(Names::of(Filter::pattern(&args[1])?)), 0, usize::MAX)
}

fn start(cx: &mut Context<'_>, purpose: Purpose, cursor: u64, count: usize) -> Outcome {
    cx.session.visit = Some(Visit::new(purpose, cursor, count));
    Ok(())
}

struct Options {
    count: usize,
    names: Names,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Options, CommandError> {
        let mut type_name = None;
        let mut options = Options { count: DEFAULT_COUNT, names: Names::default() };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                let count = integer(value)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.names = Names::of(Filter::pattern(value)?);
            } else if word.eq_ignore_ascii_case(b"TYPE") {
                type_name = Some(value);
            } else {
                return Err(CommandError::Syntax);
            }
        }
        if let Some(name) = type_name {
            options.names = options.names.of_type(name);
        }
        Ok(options)
    }
}
