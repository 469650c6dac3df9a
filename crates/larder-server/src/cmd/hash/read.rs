//! `HGET`, `HMGET`, `HGETALL`, `HKEYS`, `HVALS`, `HLEN`, `HEXISTS`, `HSTRLEN`: what a hash has.

use larder_resp::{Args, Encoder};

use super::look_up;
use crate::cmd::{Context, Outcome};
use crate::values::hash::Field;

pub(crate) fn hget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let db = cx.db();
    let now = db.now_ms();
    let mut reply = cx.reply();
    let found =
        db.hash(&args[1], |hash| hash.read(&args[2], now, |field| reply.bulk(field.value)).is_some())?;
    if found != Some(true) {
        reply.null();
    }
    cx.count_lookup(&args[1], found.is_some());
    Ok(())
}

pub(crate) fn hmget(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let (db, most_bytes) = (cx.db(), cx.out.len() as u64 + cx.reply_bytes_left());
    let (now, names) = (db.now_ms(), args.skip(2));
    let mut reply = cx.reply();
    let found = db.hash(&args[1], |hash| {
        reply.array(names.len());
        names.iter().all(|name| {
            if hash.read(name, now, |field| reply.bulk(field.value)).is_none() {
                reply.null();
            }
            // A name may be repeated. Larger replies are refused.
            reply.buffer_len() as u64 <= most_bytes
        })
    })?;
    if found.is_none() {
        reply.array(names.len());
        names.iter().for_each(|_| reply.null());
    }
    cx.count_lookup(&args[1], found.is_some());
    Ok(())
}

pub(crate) fn hgetall(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    all(
        cx,
        &args[1],
        |reply, fields| reply.map(fields),
        |reply, field| {
            reply.bulk(field.name);
            reply.bulk(field.value);
        },
    )
}

pub(crate) fn hkeys(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    all(cx, &args[1], |reply, fields| reply.array(fields), |reply, field| reply.bulk(field.name))
}

pub(crate) fn hvals(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    all(cx, &args[1], |reply, fields| reply.array(fields), |reply, field| reply.bulk(field.value))
}

/// Replies with all fields: `start` begins the reply with their number.
fn all(
    cx: &mut Context<'_>,
    key: &[u8],
    start: fn(&mut Encoder<'_>, usize),
    write: fn(&mut Encoder<'_>, Field<'_>),
) -> Outcome {
    let db = cx.db();
    let now = db.now_ms();
    let mut reply = cx.reply();
    let found = db.hash(key, |hash| {
        start(&mut reply, hash.len(now));
        hash.visit(now, |field| write(&mut reply, field));
    })?;
    if found.is_none() {
        start(&mut reply, 0);
    }
    cx.count_lookup(key, found.is_some());
    Ok(())
}

pub(crate) fn hlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now = cx.now_ms();
    let fields = look_up(cx, &args[1], |hash| hash.len(now))?;
    cx.integer(fields.unwrap_or(0) as i64)
}

pub(crate) fn hexists(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now = cx.now_ms();
    let exists = look_up(cx, &args[1], |hash| hash.contains(&args[2], now))?;
    cx.integer(exists.unwrap_or(false).into())
}

pub(crate) fn hstrlen(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let now = cx.now_ms();
    let length = look_up(cx, &args[1], |hash| hash.read(&args[2], now, |field| field.value.len()))?;
    cx.integer(length.flatten().unwrap_or(0) as i64)
}
