//! `ZUNION`, `ZINTER`, `ZDIFF`, their forms that store the result, and `ZINTERCARD`.

use larder_resp::Args;

use super::MemberWriter;
use super::source::Source;
use crate::cmd::options::count;
use crate::cmd::{CommandError, Context, Outcome};
use crate::db::{Database, Expiry, LockedKeys, collections};
use crate::values::sorted_set::SortedSet;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Intersection,
    Difference,
}

/// What a command does with the result.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Reply,
    Store,
    Count,
}

pub(crate) fn zunion(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Union, "zunion")
}

pub(crate) fn zinter(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Intersection, "zinter")
}

pub(crate) fn zdiff(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    reply(cx, args, Operation::Difference, "zdiff")
}

pub(crate) fn zunionstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Union, "zunionstore")
}

pub(crate) fn zinterstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Intersection, "zinterstore")
}

pub(crate) fn zdiffstore(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    store(cx, args, Operation::Difference, "zdiffstore")
}

pub(crate) fn zintercard(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    let request = Request::parse(args.skip(1), Operation::Intersection, Purpose::Count, "zintercard")?;
    let (db, mut locked) = cx.lock(request.names.iter().copied());
    let (result, options) = request.run(db, &mut locked)?;
    drop(locked);
    cx.integer(result.len().min(options.limit) as i64)
}

fn reply(cx: &mut Context<'_>, args: Args<'_>, operation: Operation, command: &str) -> Outcome {
    let request = Request::parse(args.skip(1), operation, Purpose::Reply, command)?;
    let (db, mut locked) = cx.lock(request.names.iter().copied());
    let (result, options) = request.run(db, &mut locked)?;
    drop(locked);
    MemberWriter::new(cx, options.with_scores).write_range(&result, 0..result.len(), false);
    Ok(())
}

fn store(cx: &mut Context<'_>, args: Args<'_>, operation: Operation, command: &str) -> Outcome {
    let request = Request::parse(args.skip(2), operation, Purpose::Store, command)?;
    let (db, mut locked) = cx.lock(request.names.iter().copied().chain([&args[1]]));
    let to = db.key(&args[1]);
    let (result, _) = request.run(db, &mut locked)?;
    let members = result.len();
    if result.is_empty() {
        locked.remove(to);
    } else {
        locked.put(collections::record(to, result), Expiry::Never)?;
    }
    drop(locked);
    cx.integer(members as i64)
}

struct Request<'a> {
    names: Vec<&'a [u8]>,
    operation: Operation,
    /// An error in them is reported after one in the types of the keys, as in Redis.
    options: Result<Options, CommandError>,
}

struct Options {
    /// One for each key.
    weights: Vec<f64>,
    /// Combines two scores of a member.
    aggregate: fn(f64, f64) -> f64,
    with_scores: bool,
    /// Whether the result is stored: a negative zero is zero then.
    is_stored: bool,
    /// The most members that are counted.
    limit: usize,
}

impl<'a> Request<'a> {
    /// Parses the number of keys, the keys, and the options.
    fn parse(
        args: Args<'a>,
        operation: Operation,
        purpose: Purpose,
        command: &str,
    ) -> Result<Self, CommandError> {
        let key_count = super::integer(&args[0])?;
        if key_count < 1 {
            let text = format!("at least 1 input key is needed for '{command}' command");
            return Err(CommandError::Other(text));
        }
        let key_count = key_count as usize;
        if key_count > args.len() - 1 {
            return Err(CommandError::Syntax);
        }
        let names = args.skip(1).iter().take(key_count).collect();
        let options = Options::parse(args.skip(1 + key_count), key_count, operation, purpose);
        Ok(Request { names, operation, options })
    }

    /// The result. Cost: all members of a union; else the members of one set, and a lookup in the others for each.
    fn run(
        self,
        db: Database<'_>,
        locked: &mut LockedKeys<'_>,
    ) -> Result<(SortedSet, Options), CommandError> {
        let mut sizes = Vec::with_capacity(self.names.len());
        for name in &self.names {
            sizes.push(Source::read(locked, db.key(name), |set| set.len())?.unwrap_or(0));
        }
        let options = self.options?;
        let mut order: Vec<usize> = (0..sizes.len()).collect();
        if self.operation != Operation::Difference {
            // From the smallest set on: scores are added in the order of Redis.
            order.sort_by_key(|index| sizes[*index]);
        }
        let mut result = SortedSet::new();
        for (position, index) in order.into_iter().enumerate() {
            let (key, weight) = (db.key(self.names[index]), options.weights[index]);
            let combined = Source::read(locked, key, |set| match self.operation {
                _ if position == 0 => options.add(&mut result, &set, weight),
                Operation::Union => options.add(&mut result, &set, weight),
                Operation::Intersection => options.intersect(&mut result, &set, weight),
                Operation::Difference => subtract(&mut result, &set),
            })?;
            if combined.is_none() && self.operation == Operation::Intersection {
                result = SortedSet::new();
                break;
            }
        }
        Ok((result, options))
    }
}

impl Options {
    fn parse(
        args: Args<'_>,
        key_count: usize,
        operation: Operation,
        purpose: Purpose,
    ) -> Result<Options, CommandError> {
        let mut options = Options {
            weights: vec![1.0; key_count],
            aggregate: sum,
            with_scores: false,
            is_stored: purpose == Purpose::Store,
            limit: usize::MAX,
        };
        let combines_scores = operation != Operation::Difference && purpose != Purpose::Count;
        let mut words = args.iter();
        while let Some(word) = words.next() {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            if is(b"WEIGHTS") && combines_scores && words.len() >= key_count {
                for weight in &mut options.weights {
                    let number = words.next().and_then(super::score);
                    *weight = number.ok_or(CommandError::Fixed("ERR weight value is not a float"))?;
                }
            } else if is(b"AGGREGATE") && combines_scores {
                options.aggregate = match words.next().map(|word| word.to_ascii_uppercase()).as_deref() {
                    Some(b"SUM") => sum,
                    Some(b"MIN") => |a, b| if b < a { b } else { a },
                    Some(b"MAX") => |a, b| if b > a { b } else { a },
                    _ => return Err(CommandError::Syntax),
                };
            } else if is(b"WITHSCORES") && purpose == Purpose::Reply {
                options.with_scores = true;
            } else if is(b"LIMIT") && purpose == Purpose::Count {
                let negative = CommandError::Fixed("ERR LIMIT can't be negative");
                let limit = count(words.next().ok_or(CommandError::Syntax)?).map_err(|_| negative)?;
                options.limit = if limit == 0 { usize::MAX } else { limit };
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(options)
    }

    /// Zero times infinity is zero.
    fn weighted(&self, score: f64, weight: f64) -> f64 {
        match score * weight {
            product if product.is_nan() => 0.0,
            product if self.is_stored => product + 0.0,
            product => product,
        }
    }

    fn add(&self, result: &mut SortedSet, set: &Source<'_>, weight: f64) {
        set.visit(|name, score| {
            let score = self.weighted(score, weight);
            let before = result.score(name);
            result.insert(name, before.map_or(score, |before| (self.aggregate)(before, score)));
        });
    }

    fn intersect(&self, result: &mut SortedSet, set: &Source<'_>, weight: f64) {
        let mut both = SortedSet::new();
        result.visit(0..result.len(), false, |name, before| {
            if let Some(score) = set.score(name) {
                // As in Redis, zero times infinity takes part here: a sum with it is zero, and it is no minimum.
                let score = if self.is_stored { score * weight + 0.0 } else { score * weight };
                both.insert(name, (self.aggregate)(before, score));
            }
            true
        });
        *result = both;
    }
}

fn subtract(result: &mut SortedSet, set: &Source<'_>) {
    if set.len() < result.len() {
        set.visit(|name, _| _ = result.remove(name));
        return;
    }
    let mut rest = SortedSet::new();
    result.visit(0..result.len(), false, |name, score| {
        if set.score(name).is_none() {
            rest.insert(name, score);
        }
        true
    });
    *result = rest;
}

/// The sum of the two infinities is zero.
fn sum(a: f64, b: f64) -> f64 {
    let sum = a + b;
    if sum.is_nan() { 0.0 } else { sum }
}
