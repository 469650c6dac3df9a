//! `XADD`: an entry at the end, and perhaps fewer at the front.

use larder_resp::Args;

use super::id::NewId;
use super::trim::{TrimOptions, XTRIM};
use crate::cmd::{CommandError, Context, Outcome};
use crate::observers::Origin;
use crate::values::stream::{Id, Trim};

/// The longest entry.
const MAX_ENTRY_BYTES: usize = 1 << 30;

/// What is to be added.
struct Addition<'a> {
    creates: bool,
    trim: Option<Trim>,
    id: NewId,
    /// Names and values by turns.
    texts: Vec<&'a [u8]>,
}

impl<'a> Addition<'a> {
    /// Parses what follows the key.
    fn parse(mut words: Args<'a>) -> Result<Self, CommandError> {
        let (mut options, mut creates, mut id) = (TrimOptions::default(), true, NewId::Now);
        while let Some(word) = words.get(0) {
            let read = if word == b"*" { 0 } else { options.read(words)? };
            if read > 0 {
                words = words.skip(read);
                continue;
            }
            words = words.skip(1);
            if !word.eq_ignore_ascii_case(b"NOMKSTREAM") {
                id = NewId::parse(word)?;
                break;
            }
            creates = false;
        }
        let trim = options.finish(false)?;
        if words.is_empty() || !words.len().is_multiple_of(2) {
            return Err(CommandError::Arity("xadd"));
        }
        if matches!(id, NewId::This(Id::MIN)) {
            return Err(CommandError::Fixed("ERR The ID specified in XADD must be greater than 0-0"));
        }
        Ok(Addition { creates, trim, id, texts: words.iter().collect() })
    }
}

pub(crate) fn xadd(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let Addition { creates, trim, id, texts } = Addition::parse(args.skip(2))?;
    let is_too_long = texts.iter().map(|text| text.len()).sum::<usize>() > MAX_ENTRY_BYTES;
    let now_ms = cx.now_ms();
    let (db, mut locked) = cx.lock([&args[1]]);
    let key = db.key(&args[1]);
    let added = locked.edit_stream(key, creates, |stream| {
        let id = id.of_next(stream, now_ms)?;
        if is_too_long {
            return Err(CommandError::Fixed("ERR Elements are too large to be stored"));
        }
        stream.append(id, &texts);
        Ok(id)
    })?;
    let Some(id) = added.transpose()? else {
        drop(locked);
        cx.reply().null();
        return Ok(());
    };
    if let Some(trim) = trim {
        locked.tell_as(Origin { command: Some(&XTRIM), ..cx.origin() });
        locked.edit_stream(key, false, |stream| stream.trim(&trim))?;
    }
    drop(locked);
    cx.reply().bulk(id.to_string().as_bytes());
    Ok(())
}
