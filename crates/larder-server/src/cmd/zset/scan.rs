//! `ZSCAN`: iterates over the members of a sorted set in batches.

use larder_glob::Pattern;
use larder_resp::Args;

use super::read::look_up;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};

/// Members that are visited without `COUNT`.
const DEFAULT_COUNT: usize = 10;

pub(crate) fn zscan(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let cursor = std::str::from_utf8(&args[2]).ok().and_then(|text| text.parse().ok());
    let cursor: u64 = cursor.ok_or(CommandError::Fixed("ERR invalid cursor"))?;
    let options = Options::parse(args.skip(3));
    let mut members: Vec<(Vec<u8>, f64)> = Vec::new();
    let next = look_up(cx, &args[1], |set| {
        let Options { count, pattern } = options?;
        // A small set is returned whole.
        let count = if set.is_packed() { set.len() } else { count };
        Ok::<_, CommandError>(set.scan(cursor, count, |name, score| {
            if pattern.as_ref().is_none_or(|pattern| pattern.matches(name)) {
                members.push((name.to_vec(), score));
            }
        }))
    })?;
    let next = next.transpose()?.unwrap_or(0);
    let mut reply = cx.reply();
    reply.array(2);
    reply.bulk(next.to_string().as_bytes());
    reply.array(2 * members.len());
    for (name, score) in members {
        reply.bulk(&name);
        reply.bulk_double(score);
    }
    Ok(())
}

struct Options {
    count: usize,
    pattern: Option<Pattern>,
}

impl Options {
    fn parse(args: Args<'_>) -> Result<Self, CommandError> {
        let mut options = Options { count: DEFAULT_COUNT, pattern: None };
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            if word.eq_ignore_ascii_case(b"COUNT") {
                let count = integer(value)?;
                options.count = usize::try_from(count).ok().filter(|n| *n > 0).ok_or(CommandError::Syntax)?;
            } else if word.eq_ignore_ascii_case(b"MATCH") {
                options.pattern = if value == b"*" { None } else { Some(Pattern::new(value)?) };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }
}
