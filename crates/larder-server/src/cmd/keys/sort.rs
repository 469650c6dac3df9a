//! `SORT`, `SORT_RO`: the elements of a list, a set or a sorted set in an order, or what other keys have for them.
//!
//! Both lock what they read: the key, or all keys if patterns name others, which are not known before.

use std::cmp::Ordering;
use std::ops::Range;

use larder_resp::{Args, parse_float};

use crate::cmd::blocking::serve::serve_ready;
use crate::cmd::options::integer;
use crate::cmd::{CommandError, Context, Outcome, rights};
use crate::db::{Database, Expiry, WrongType, collections};
use crate::values::list::{End, List};

type Text = Box<[u8]>;

/// What an option names for each element.
enum Pattern<'a> {
    /// The element.
    Element,
    /// A key whose name has the element between these, or a field of the hash there.
    Key { before: &'a [u8], after: &'a [u8], field: Option<&'a [u8]> },
    /// A name without a place for the element.
    Nothing,
}

impl<'a> Pattern<'a> {
    fn parse(text: &'a [u8]) -> Self {
        if text == b"#" {
            return Pattern::Element;
        }
        let Some(star) = text.iter().position(|byte| *byte == b'*') else { return Pattern::Nothing };
        let (before, after) = (&text[..star], &text[star + 1..]);
        match after.windows(2).position(|pair| pair == b"->") {
            Some(arrow) if arrow + 2 < after.len() => {
                Pattern::Key { before, after: &after[..arrow], field: Some(&after[arrow + 2..]) }
            }
            _ => Pattern::Key { before, after, field: None },
        }
    }

    fn names_keys(&self) -> bool {
        matches!(self, Pattern::Key { .. })
    }

    /// The value for an element. One of another type counts as missing.
    fn value(&self, db: Database<'_>, element: &[u8]) -> Option<Text> {
        match self {
            Pattern::Element => Some(element.into()),
            Pattern::Nothing => None,
            Pattern::Key { before, after, field } => {
                let name = [*before, element, *after].concat();
                match field {
                    None => db.get(&name, |value| Text::from(value)).ok().flatten(),
                    Some(field) => {
                        let read = |hash: &crate::values::hash::Hash| {
                            hash.read(field, db.now_ms(), |field| Text::from(field.value))
                        };
                        db.hash(&name, read).ok().flatten().flatten()
                    }
                }
            }
        }
    }
}

/// How elements are ordered.
enum Order<'a> {
    /// By themselves, or by what the pattern names.
    By(Pattern<'a>),
    /// As they are.
    Unsorted,
}

/// The options of a request.
struct Request<'a> {
    order: Order<'a>,
    is_descending: bool,
    is_alphabetic: bool,
    /// The first element that is returned, and the most elements; without a limit if that is negative.
    limit: (i64, i64),
    gets: Vec<Pattern<'a>>,
    target: Option<&'a [u8]>,
}

const BY_DENIED: CommandError =
    CommandError::Fixed("ERR BY option of SORT denied due to insufficient ACL permissions.");
const GET_DENIED: CommandError =
    CommandError::Fixed("ERR GET option of SORT denied due to insufficient ACL permissions.");

impl<'a> Request<'a> {
    /// `reads_all` is whether the user may read every key, as `BY` and `GET` do.
    fn parse(options: Args<'a>, may_store: bool, reads_all: bool) -> Result<Self, CommandError> {
        let mut request = Request {
            order: Order::By(Pattern::Element),
            is_descending: false,
            is_alphabetic: false,
            limit: (0, -1),
            gets: Vec::new(),
            target: None,
        };
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
            let mut argument = || words.next().ok_or(CommandError::Syntax);
            if is(b"ASC") || is(b"DESC") {
                request.is_descending = is(b"DESC");
            } else if is(b"ALPHA") {
                request.is_alphabetic = true;
            } else if is(b"LIMIT") {
                let (first, most) = (argument()?, argument()?);
                request.limit = (integer(first)?, integer(most)?);
            } else if is(b"STORE") && may_store {
                request.target = Some(argument()?);
            } else if is(b"BY") {
                let pattern = argument()?;
                // One without a place for the element wins over all others.
                if !request.is_unsorted() {
                    request.order = match Pattern::parse(pattern) {
                        Pattern::Key { .. } if !reads_all => return Err(BY_DENIED),
                        pattern @ Pattern::Key { .. } => Order::By(pattern),
                        _ => Order::Unsorted,
                    };
                }
            } else if is(b"GET") && !reads_all {
                return Err(GET_DENIED);
            } else if is(b"GET") {
                request.gets.push(Pattern::parse(argument()?));
            } else {
                return Err(CommandError::Syntax);
            }
        }
        Ok(request)
    }

    fn is_unsorted(&self) -> bool {
        matches!(self.order, Order::Unsorted)
    }

    /// Whether it reads keys that are not arguments.
    fn names_keys(&self) -> bool {
        let is_by_key = matches!(&self.order, Order::By(pattern) if pattern.names_keys());
        is_by_key || self.gets.iter().any(Pattern::names_keys)
    }

    /// The indices of so many elements that are returned.
    fn range(&self, len: usize) -> Range<usize> {
        let start = usize::try_from(self.limit.0.max(0)).unwrap_or(len).min(len);
        let most = usize::try_from(self.limit.1).unwrap_or(len);
        start..start.saturating_add(most).min(len)
    }

    /// Puts the elements in order, and cuts off what is not returned.
    fn sort(&self, db: Database<'_>, elements: Vec<Text>) -> Result<Vec<Text>, CommandError> {
        let Order::By(pattern) = &self.order else { return Ok(elements) };
        let sorted = match self.is_alphabetic {
            true => {
                let by = |element: Text| (pattern.value(db, &element), element);
                self.in_order(elements.into_iter().map(by).collect(), |one, other| one.cmp(other))
            }
            false => {
                let by = |element: Text| Ok((score(pattern.value(db, &element).as_deref())?, element));
                let scored = elements.into_iter().map(by).collect::<Result<Vec<_>, CommandError>>()?;
                self.in_order(scored, f64::total_cmp)
            }
        };
        Ok(self.cut(sorted))
    }

    /// Those of all elements that are returned.
    fn cut(&self, elements: Vec<Text>) -> Vec<Text> {
        let range = self.range(elements.len());
        elements.into_iter().skip(range.start).take(range.len()).collect()
    }

    /// The elements in the order of what is beside them; those of equal scores are in the order of their bytes.
    fn in_order<K>(&self, mut pairs: Vec<(K, Text)>, compare: impl Fn(&K, &K) -> Ordering) -> Vec<Text> {
        pairs.sort_by(|one, other| {
            let order = compare(&one.0, &other.0);
            let order = if self.is_alphabetic { order } else { order.then_with(|| one.1.cmp(&other.1)) };
            if self.is_descending { order.reverse() } else { order }
        });
        pairs.into_iter().map(|(_, element)| element).collect()
    }
}

/// The score of a text; zero without one.
fn score(text: Option<&[u8]>) -> Result<f64, CommandError> {
    let Some(text) = text.filter(|text| !text.is_empty()) else { return Ok(0.0) };
    let names_infinity = text.iter().any(|byte| byte.eq_ignore_ascii_case(&b'i'));
    let score = parse_float(text.trim_ascii_start()).filter(|score| score.is_finite() || names_infinity);
    // Zero has one sign.
    let error = CommandError::Fixed("ERR One or more scores can't be converted into double");
    score.map(|score| score + 0.0).ok_or(error)
}

pub(crate) fn sort(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    lock_and_run(cx, args, true)
}

pub(crate) fn sort_ro(cx: &mut Context<'_>, args: Args<'_>) -> Outcome {
    lock_and_run(cx, args, false)
}

/// The index of the key in which a request stores: behind the last `STORE` that is no argument of another option.
pub(crate) fn target(request: Args<'_>) -> Option<usize> {
    let (mut index, mut target) = (2, None);
    while let Some(word) = request.get(index) {
        let is = |name: &[u8]| word.eq_ignore_ascii_case(name);
        let arguments = if is(b"LIMIT") {
            2
        } else if is(b"STORE") || is(b"BY") || is(b"GET") {
            1
        } else {
            0
        };
        if is(b"STORE") {
            target = Some(index + 1);
        }
        index += 1 + arguments;
    }
    target.filter(|index| *index < request.len())
}

/// Runs on locks. Messages are taken before the keys are unlocked, so that they are in order with the reply.
fn lock_and_run(cx: &mut Context<'_>, args: Args<'_>, may_store: bool) -> Outcome {
    let reads_all = cx.session.last_command.is_some_and(|spec| rights::may_read_all_keys(spec, cx, args));
    let request = Request::parse(args.skip(2), may_store, reads_all)?;
    if cx.held.is_some() {
        return run(cx, &args[1], request);
    }
    let (start, db, store) = (cx.out.len(), cx.db(), &cx.state.store);
    let locks = match request.names_keys() {
        true => cx.lock_everything()?,
        false => store.lock([Some(&args[1]), request.target].into_iter().flatten().map(|name| db.key(name))),
    };
    let mut cx = cx.with_locks(&locks);
    let outcome = run(&mut cx, &args[1], request).and_then(|()| cx.check_reply(0));
    serve_ready(&mut cx);
    if let Err(error) = outcome {
        cx.truncate_replies(start);
        return Err(error);
    }
    cx.drop_muted_reply(start);
    cx.take_mail(start);
    if let Some(spec) = cx.session.last_command {
        cx.track(spec, args);
    }
    Ok(())
}

fn run(cx: &mut Context<'_>, name: &[u8], mut request: Request<'_>) -> Outcome {
    let elements = elements(cx, name, &mut request)?;
    cx.count_lookup(name, elements.is_some());
    let elements = request.sort(cx.db(), elements.unwrap_or_default())?;
    match request.target {
        None => reply(cx, &request.gets, &elements),
        Some(target) => store(cx, target, &request.gets, &elements),
    }
}

/// The elements of a key, which may have any of three types: all, or if they are not sorted, those that are returned.
fn elements(
    cx: &Context<'_>,
    name: &[u8],
    request: &mut Request<'_>,
) -> Result<Option<Vec<Text>>, CommandError> {
    let (db, most_bytes) = (cx.db(), cx.reply_bytes_left());
    let (mut elements, mut bytes) = (Vec::new(), 0);
    let mut add = |element: &[u8]| {
        bytes += element.len() as u64;
        elements.push(Text::from(element));
        bytes <= most_bytes
    };
    // The indices that are read, and whether from the last one.
    let wanted = |request: &Request<'_>, len| match (request.is_unsorted(), request.range(len)) {
        (false, _) => (0..len, false),
        (true, range) if request.is_descending => (len - range.end..len - range.start, true),
        (true, range) => (range, false),
    };
    let is_list = db.list(name, |list| {
        let (indices, is_reversed) = wanted(request, list.len());
        list.visit(indices, is_reversed, &mut add);
    });
    let found = match is_list {
        Ok(found) => found,
        Err(WrongType) => match db.set_members(name, |set| set.visit(|member| _ = add(member))) {
            Ok(found) => {
                // A set has no order, and what is stored or returned to a script must not depend on chance.
                if request.is_unsorted() && (request.target.is_some() || cx.is_script()) {
                    request.order = Order::By(Pattern::Element);
                    request.is_alphabetic = true;
                }
                if request.is_unsorted() {
                    elements = request.cut(std::mem::take(&mut elements));
                }
                found
            }
            Err(WrongType) => db.sorted_set(name, |set| {
                let (ranks, is_reversed) = wanted(request, set.len());
                set.visit(ranks, is_reversed, |member, _| add(member));
            })?,
        },
    };
    match bytes <= most_bytes {
        true => Ok(found.map(|()| elements)),
        false => Err(cx.check_reply(bytes).err().unwrap_or(CommandError::OutOfMemory)),
    }
}

fn reply(cx: &mut Context<'_>, gets: &[Pattern<'_>], elements: &[Text]) -> Outcome {
    let db = cx.db();
    cx.reply().array(elements.len() * gets.len().max(1));
    for element in elements {
        if gets.is_empty() {
            cx.reply().bulk(element);
        }
        for pattern in gets {
            match pattern.value(db, element) {
                Some(value) => {
                    cx.check_reply(value.len() as u64)?;
                    cx.reply().bulk(&value);
                }
                None => cx.reply().null(),
            }
        }
        cx.check_reply(0)?;
    }
    Ok(())
}

/// Stores a list, and replies with its length. What is missing is an empty element.
fn store(cx: &mut Context<'_>, target: &[u8], gets: &[Pattern<'_>], elements: &[Text]) -> Outcome {
    let (db, mut list) = (cx.db(), List::new());
    for element in elements {
        if gets.is_empty() {
            list.push(End::Right, element);
        }
        for pattern in gets {
            list.push(End::Right, &pattern.value(db, element).unwrap_or_default());
            // A value may be there for many elements.
            if list.bytes_allocated() as u64 > cx.state.store.max_memory() {
                return Err(CommandError::OutOfMemory);
            }
        }
    }
    let (length, mut locked) = (list.len(), db.lock([target]));
    let to = db.key(target);
    match list.is_empty() {
        true => _ = locked.remove(to),
        false => locked.put(collections::record(to, list), Expiry::Never)?,
    }
    drop(locked);
    cx.integer(length as i64)
}
