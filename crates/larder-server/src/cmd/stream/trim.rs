//! `XTRIM` and `XDEL`: entries that leave.

use larder_resp::Args;

use super::id::id;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome};
use crate::spec::{Access, CommandSpec};
use crate::values::stream::{Keep, Trim};

/// The row of `XTRIM` in the table of commands. Observers are told in this name of entries that `XADD` removes.
pub(crate) static XTRIM: CommandSpec =
    CommandSpec::new("xtrim", -4, "5.0.0", "Removes the first entries, up to a length or an id.")
        .updates_stream()
        .one_key()
        .access(Access::REDUCED);

/// The most entries that an inexact trim removes if nothing else is said.
const DEFAULT_LIMIT: usize = 10_000;

/// The options that say which entries leave.
#[derive(Default)]
pub(super) struct TrimOptions {
    keep: Option<Keep>,
    is_inexact: bool,
    limit: Option<usize>,
}

impl TrimOptions {
    /// Reads the first option and what belongs to it. Returns how many words they are: none, if it is another option.
    pub(super) fn read(&mut self, words: Args<'_>) -> Result<usize, CommandError> {
        let Some(next) = words.get(1) else { return Ok(0) };
        let is = |name: &[u8]| words[0].eq_ignore_ascii_case(name);
        if is(b"LIMIT") {
            self.limit = Some(not_negative(next, "ERR The LIMIT argument must be >= 0.")?);
            return Ok(2);
        }
        let is_by_length = is(b"MAXLEN");
        if !is_by_length && !is(b"MINID") {
            return Ok(0);
        }
        if self.keep.is_some() {
            return Err(CommandError::Fixed(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let has_sign = words.len() > 2 && (next == b"~" || next == b"=");
        self.is_inexact = has_sign && next == b"~";
        let bound = &words[if has_sign { 2 } else { 1 }];
        self.keep = Some(match is_by_length {
            true => Keep::Last(not_negative(bound, "ERR The MAXLEN argument must be >= 0.")?),
            false => Keep::From(id(bound, 0)?),
        });
        Ok(if has_sign { 3 } else { 2 })
    }

    /// Checks the options together. `None` if they say nothing.
    pub(super) fn finish(self, is_required: bool) -> Result<Option<Trim>, CommandError> {
        let error = |text| Err(CommandError::Fixed(text));
        if self.keep.is_none() && self.limit.is_some_and(|limit| limit > 0) {
            return error("ERR syntax error, LIMIT cannot be used without specifying a trimming strategy");
        }
        if self.keep.is_none() && is_required {
            return error("ERR syntax error, XTRIM must be called with a trimming strategy");
        }
        if self.limit.is_some() && !self.is_inexact {
            return error("ERR syntax error, LIMIT cannot be used without the special ~ option");
        }
        let limit = self.limit.unwrap_or(if self.is_inexact { DEFAULT_LIMIT } else { 0 });
        let most = (limit > 0).then_some(limit);
        Ok(self.keep.map(|keep| Trim { keep, is_exact: !self.is_inexact, most }))
    }
}

fn not_negative(text: &[u8], error: &'static str) -> Result<usize, CommandError> {
    usize::try_from(integer(text)?).map_err(|_| CommandError::Fixed(error))
}

pub(crate) fn xtrim(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (mut options, mut words) = (TrimOptions::default(), args.skip(2));
    while !words.is_empty() {
        match options.read(words)? {
            0 => return Err(CommandError::Syntax),
            read => words = words.skip(read),
        }
    }
    let trim = options.finish(true)?.ok_or(CommandError::Syntax)?;
    let removed = cx.db().edit_stream(&args[1], |stream| stream.trim(&trim))?;
    cx.integer(removed.unwrap_or(0) as i64)
}

pub(crate) fn xdel(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let removed = cx.db().edit_stream(&args[1], |stream| {
        let ids = args.skip(2).iter().map(|text| id(text, 0)).collect::<Result<Vec<_>, _>>()?;
        Ok::<_, CommandError>(ids.into_iter().filter(|id| stream.remove(*id)).count())
    })?;
    cx.integer(removed.transpose()?.unwrap_or(0) as i64)
}
