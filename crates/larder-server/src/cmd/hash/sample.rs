//! `HRANDFIELD`: random fields of a hash.

use larder_resp::{Args, Encoder, Protocol};

use crate::cmd::sample::{MEMBER_FRAME_BYTES, Random, Sample};
use crate::cmd::{CommandError, Context, Outcome};
use crate::values::hash::{Field, Hash};

pub(crate) fn hrandfield(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    match Sample::parse(args, b"WITHVALUES")? {
        None => one(cx, &args[1]),
        Some(sample) => some(cx, &args[1], sample),
    }
}

fn one(cx: &mut Context<'_>, key: &[u8]) -> Outcome {
    let db = cx.db();
    let now = db.now_ms();
    let mut reply = cx.reply();
    let found = db.hash(key, |hash| {
        let ranks = Ranks::of(hash, now);
        let has_any = ranks.count() > 0;
        if has_any {
            hash.visit_ranks([ranks.get(Random::new().below(ranks.count()))], |field| {
                reply.bulk(field.name);
                true
            });
        }
        has_any
    })?;
    if found != Some(true) {
        reply.null();
    }
    cx.count_lookup(key, found.is_some());
    Ok(())
}

fn some(cx: &mut Context<'_>, key: &[u8], sample: Sample) -> Outcome {
    let (db, most_bytes) = (cx.db(), cx.out.len() as u64 + cx.reply_bytes_left());
    let now = db.now_ms();
    let count = sample.count();
    let checked = cx.check_reply(sample.number.unsigned_abs().saturating_mul(MEMBER_FRAME_BYTES));
    let is_nested = cx.session.protocol() == Protocol::Resp3;
    let mut writer = Writer { reply: cx.reply(), with_values: sample.with_values, is_nested };
    let found = db.hash(key, |hash| {
        let ranks = Ranks::of(hash, now);
        if ranks.count() == 0 || sample.number >= 0 && count >= ranks.count() {
            writer.start(ranks.count());
            hash.visit(now, |field| writer.write(field));
            return Ok::<(), CommandError>(());
        }
        // With repetitions the hash does not bound the reply.
        if sample.number < 0 {
            checked?;
        }
        writer.start(count);
        let mut random = Random::new();
        let write = |field: Field<'_>| {
            writer.write(field);
            // Larger replies are refused.
            writer.reply.buffer_len() as u64 <= most_bytes
        };
        if sample.number >= 0 {
            let chosen = random.sample(count, ranks.count());
            hash.visit_ranks(chosen.into_iter().map(|rank| ranks.get(rank)), write);
        } else {
            hash.visit_ranks((0..count).map(|_| ranks.get(random.below(ranks.count()))), write);
        }
        Ok(())
    })?;
    let found = found.transpose()?;
    if found.is_none() {
        writer.start(0);
    }
    cx.count_lookup(key, found.is_some());
    Ok(())
}

/// The ranks of the fields of a hash that have not expired.
enum Ranks {
    /// All, of so many.
    All(usize),
    /// These: some have expired and are not removed yet.
    Some(Vec<usize>),
}

impl Ranks {
    fn of(hash: &Hash, now: i64) -> Self {
        if hash.expired(now) == 0 {
            return Ranks::All(hash.stored());
        }
        let (mut live, mut rank) = (Vec::new(), 0);
        hash.visit_ranks(0..hash.stored(), |field| {
            live.extend(field.is_live(now).then_some(rank));
            rank += 1;
            true
        });
        Ranks::Some(live)
    }

    fn count(&self) -> usize {
        match self {
            Ranks::All(count) => *count,
            Ranks::Some(live) => live.len(),
        }
    }

    /// The rank of one of them, whose number is below their count.
    fn get(&self, number: usize) -> usize {
        match self {
            Ranks::All(_) => number,
            Ranks::Some(live) => live[number],
        }
    }
}

/// Writes fields into a reply.
struct Writer<'a> {
    reply: Encoder<'a>,
    with_values: bool,
    /// Whether a field and its value are an array, as in RESP3. In RESP2 they follow each other.
    is_nested: bool,
}

impl Writer<'_> {
    /// The header of the array; this many fields follow.
    fn start(&mut self, fields: usize) {
        let is_flat = self.with_values && !self.is_nested;
        self.reply.array(if is_flat { 2 * fields } else { fields });
    }

    fn write(&mut self, field: Field<'_>) {
        if self.with_values && self.is_nested {
            self.reply.array(2);
        }
        self.reply.bulk(field.name);
        if self.with_values {
            self.reply.bulk(field.value);
        }
    }
}
