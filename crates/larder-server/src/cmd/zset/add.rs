//! `ZADD` with all its options, and `ZINCRBY`.

use larder_resp::Args;

use super::score;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::Database;
use crate::observers::Origin;
use crate::spec::CommandSpec;
use crate::values::sorted_set::SortedSet;

/// The row of `ZINCRBY` in the table of commands. Observers are told of `ZADD … INCR` in its name.
pub(crate) static ZINCRBY: CommandSpec =
    CommandSpec::new("zincrby", 4, "1.2.0", "Adds to the score of a member; a missing one counts as 0.")
        .writes_zset()
        .fast()
        .one_key()
        .event("zincr");

#[derive(Clone, Copy, Default)]
struct Options {
    /// Only new members.
    missing: bool,
    /// Only existing members.
    present: bool,
    /// Existing members only get a greater score.
    greater: bool,
    /// Existing members only get a lower score.
    less: bool,
    /// Whether the reply counts members whose score has changed, too.
    counts_changed: bool,
    /// Whether the score is added to that of the member.
    adds: bool,
}

/// What has happened to a member.
enum Change {
    /// It stays as it is, because of an option.
    None,
    Added(f64),
    Updated(f64),
    /// It has this score already.
    Same(f64),
}

impl Options {
    /// Parses the options, and returns the pairs of scores and members behind them.
    fn parse(args: Args<'_>) -> Result<(Options, Args<'_>), CommandError> {
        let mut options = Options::default();
        let mut at = 2;
        while let Some(word) = args.get(at) {
            match word.to_ascii_uppercase().as_slice() {
                b"NX" => options.missing = true,
                b"XX" => options.present = true,
                b"GT" => options.greater = true,
                b"LT" => options.less = true,
                b"CH" => options.counts_changed = true,
                b"INCR" => options.adds = true,
                _ => break,
            }
            at += 1;
        }
        let pairs = args.skip(at);
        if pairs.is_empty() || !pairs.len().is_multiple_of(2) {
            return Err(CommandError::Syntax);
        }
        let Options { missing, present, greater, less, adds, .. } = options;
        let error = if missing && present {
            "ERR XX and NX options at the same time are not compatible"
        } else if missing && (greater || less) || greater && less {
            "ERR GT, LT, and/or NX options at the same time are not compatible"
        } else if adds && pairs.len() > 2 {
            "ERR INCR option supports a single increment-element pair"
        } else {
            return Ok((options, pairs));
        };
        Err(CommandError::Fixed(error))
    }

    /// A negative zero is stored as zero; the reply keeps the sign.
    fn apply(self, set: &mut SortedSet, name: &[u8], score: f64) -> Result<Change, CommandError> {
        let Some(before) = set.score(name) else {
            if self.present {
                return Ok(Change::None);
            }
            set.insert(name, score + 0.0);
            return Ok(Change::Added(score));
        };
        if self.missing {
            return Ok(Change::None);
        }
        let score = if self.adds { before + score } else { score };
        if score.is_nan() {
            return Err(CommandError::Fixed("ERR resulting score is not a number (NaN)"));
        }
        if self.less && score >= before || self.greater && score <= before {
            return Ok(Change::None);
        }
        if score == before {
            return Ok(Change::Same(score));
        }
        set.insert(name, score + 0.0);
        Ok(Change::Updated(score))
    }
}

pub(crate) fn zadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (options, pairs) = Options::parse(args)?;
    let mut db = cx.db();
    if options.adds {
        // `ZADD … INCR` sends the event of `ZINCRBY`.
        db = db.used_by(Origin { command: Some(&ZINCRBY), ..cx.origin() });
    }
    add(cx, db, &args[1], options, pairs)
}

pub(crate) fn zincrby(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    add(cx, db, &args[1], Options { adds: true, ..Options::default() }, args.skip(2))
}

fn add(cx: &mut Context<'_>, db: Database<'_>, key: &[u8], options: Options, pairs: Args<'_>) -> Outcome {
    // All scores are checked before the first member is added.
    let scores = pairs.iter().step_by(2).map(|text| score(text).ok_or(CommandError::NotFloat));
    let scores = scores.collect::<Result<Vec<f64>, CommandError>>()?;
    let names = pairs.iter().skip(1).step_by(2);
    let (mut added, mut updated, mut result) = (0, 0, None);
    let outcome = db.edit_sorted_set(key, !options.present, |set| {
        for (name, score) in names.zip(scores) {
            result = match options.apply(set, name, score)? {
                Change::None => None,
                Change::Added(score) => {
                    added += 1;
                    Some(score)
                }
                Change::Updated(score) => {
                    updated += 1;
                    Some(score)
                }
                Change::Same(score) => Some(score),
            };
        }
        Ok::<(), CommandError>(())
    })?;
    outcome.unwrap_or(Ok(()))?;
    if !options.adds {
        return cx.integer(if options.counts_changed { added + updated } else { added });
    }
    let mut reply = cx.reply();
    match result {
        Some(score) => reply.double(score),
        None => reply.null(),
    }
    Ok(())
}
