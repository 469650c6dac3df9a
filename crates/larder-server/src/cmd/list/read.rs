//! `LLEN`, `LINDEX`, `LRANGE`, `LPOS`: what a list has.

use larder_resp::{Args, parse_integer};

use super::{index_of, look_up};
use crate::cmd::options::{index_range, integer};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::list::List;

pub(crate) fn llen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let elements = look_up(cx, &args[1], List::len)?;
    cx.integer(elements.unwrap_or(0) as i64)
}

pub(crate) fn lindex(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let mut reply = cx.reply();
    let found = db.list(&args[1], |list| {
        let index = integer(&args[2])?;
        match index_of(index, list.len()) {
            Some(index) => reply.bulk(list.at(index)),
            None => reply.null(),
        }
        Ok::<(), CommandError>(())
    })?;
    cx.count_lookup(&args[1], found.is_some());
    match found {
        Some(result) => result,
        None => {
            cx.reply().null();
            Ok(())
        }
    }
}

pub(crate) fn lrange(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (start, end) = (integer(&args[2])?, integer(&args[3])?);
    let db = cx.db();
    let mut reply = cx.reply();
    let found = db.list(&args[1], |list| {
        let indices = index_range(start, end, list.len());
        reply.array(indices.len());
        list.visit(indices, false, |element| {
            reply.bulk(element);
            true
        });
    })?;
    if found.is_none() {
        reply.array(0);
    }
    cx.count_lookup(&args[1], found.is_some());
    Ok(())
}

/// The options of `LPOS`.
struct Search {
    /// The first match that counts, from one on; from the end if it is negative.
    rank: i64,
    /// The most matches; zero for all, `None` for one that is not in an array.
    count: Option<usize>,
    /// The most elements that are compared.
    most_compared: usize,
}

impl Search {
    fn parse(options: Args<'_>) -> Result<Search, CommandError> {
        let mut search = Search { rank: 1, count: None, most_compared: usize::MAX };
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let value = words.next().ok_or(CommandError::Syntax)?;
            let positive = |error| {
                let number = parse_integer(value).and_then(|number| usize::try_from(number).ok());
                number.ok_or(CommandError::Fixed(error))
            };
            if word.eq_ignore_ascii_case(b"RANK") {
                search.rank = integer(value)?;
                if search.rank == 0 {
                    return Err(CommandError::Fixed(
                        "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to \
                         start from the end of the list",
                    ));
                }
                if search.rank == i64::MIN {
                    return Err(CommandError::Fixed(
                        "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                    ));
                }
            } else if word.eq_ignore_ascii_case(b"COUNT") {
                search.count = Some(positive("ERR COUNT can't be negative")?);
            } else if word.eq_ignore_ascii_case(b"MAXLEN") {
                let most = positive("ERR MAXLEN can't be negative")?;
                search.most_compared = if most == 0 { usize::MAX } else { most };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(search)
    }

    fn find(&self, list: &List, element: &[u8]) -> Vec<usize> {
        let reversed = self.rank < 0;
        let compared = self.most_compared.min(list.len());
        let indices = if reversed { list.len() - compared..list.len() } else { 0..compared };
        let most = match self.count {
            None => 1,
            Some(0) => usize::MAX,
            Some(count) => count,
        };
        let (mut skipped, mut turn, mut found) = (self.rank.unsigned_abs() - 1, 0, Vec::new());
        list.visit(indices, reversed, |other| {
            if other == element {
                match skipped {
                    0 => found.push(if reversed { list.len() - 1 - turn } else { turn }),
                    _ => skipped -= 1,
                }
            }
            turn += 1;
            found.len() < most
        });
        found
    }
}

pub(crate) fn lpos(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let search = Search::parse(args.skip(3))?;
    let found = look_up(cx, &args[1], |list| search.find(list, &args[2]))?.unwrap_or_default();
    let mut reply = cx.reply();
    match (search.count, found.first()) {
        (Some(_), _) => {
            reply.array(found.len());
            found.iter().for_each(|index| reply.integer(*index as i64));
        }
        (None, Some(index)) => reply.integer(*index as i64),
        (None, None) => reply.null(),
    }
    Ok(())
}
