//! A hash: names with values, each of which may have a deadline of its own.
//!
//! A small hash is one buffer; a large one is an index of slots. A hash that has outgrown the buffer does not return to it.
//! A field that has expired is invisible at once: whoever reads passes the time. It is removed by the next change, or when
//! its [alarm](Alarms) is due.

mod alarms;
mod indexed;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod journal;
#[cfg(test)]
mod model;
mod packed;
#[cfg(test)]
mod tests;

use alarms::Alarm;
pub(crate) use alarms::Alarms;
use indexed::Indexed;
pub(crate) use journal::Journal;
use packed::{Full, Packed};

/// A field of a hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'a [u8],
    pub(crate) value: &'a [u8],
    /// When it expires, in milliseconds of Unix time.
    pub(crate) deadline: Option<i64>,
}

impl Field<'_> {
    /// Whether it exists at this time.
    #[inline]
    pub(crate) fn is_live(&self, now: i64) -> bool {
        self.deadline.is_none_or(|deadline| deadline > now)
    }
}

/// Fields by name. Times are in milliseconds of Unix time.
#[derive(Clone, Debug)]
pub(crate) struct Hash {
    form: Form,
    extra: Option<Box<Extra>>,
}

/// What few hashes have.
#[derive(Debug, Default)]
struct Extra {
    /// What is changed, if that may have to be undone.
    journal: Option<Box<Journal>>,
    /// Whether fields of the buffer may have deadlines.
    is_timed: bool,
    alarm: Option<Alarm>,
}

/// An alarm belongs to one key, which a copy does not have.
impl Clone for Extra {
    fn clone(&self) -> Self {
        Extra { journal: self.journal.clone(), is_timed: self.is_timed, alarm: None }
    }
}

#[derive(Clone, Debug)]
enum Form {
    Packed(Packed),
    Indexed(Box<Indexed>),
}

impl Hash {
    pub(crate) fn new() -> Self {
        Hash { form: Form::Packed(Packed::default()), extra: None }
    }

    /// Brings what lookups of some names read into the processor's caches, where that is worth it.
    pub(crate) fn prefetch<'n>(&self, names: impl Iterator<Item = &'n [u8]>) {
        if let Form::Indexed(indexed) = &self.form {
            indexed.prefetch(names);
        }
    }

    /// The number of fields, with those that have expired.
    pub(crate) fn stored(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.len(),
            Form::Indexed(indexed) => indexed.len(),
        }
    }

    /// The number of fields.
    pub(crate) fn len(&self, now: i64) -> usize {
        self.stored() - self.expired(now)
    }

    /// Whether it has no fields, not even some that have expired.
    pub(crate) fn is_empty(&self) -> bool {
        self.stored() == 0
    }

    /// The memory that was allocated, with this structure in a box.
    pub(crate) fn bytes_allocated(&self) -> usize {
        let alarm = |extra: &Extra| extra.alarm.as_ref().map_or(0, Alarm::bytes);
        // A journal is not counted: it is taken out before the hash is weighed again.
        let extra = self.extra.as_ref().filter(|extra| extra.is_timed);
        let extra = extra.map_or(0, |extra| size_of::<Extra>() + alarm(extra));
        size_of::<Self>() + self.form_bytes() + extra
    }

    /// The memory of the form that it has.
    fn form_bytes(&self) -> usize {
        match &self.form {
            Form::Packed(packed) => packed.bytes_allocated(),
            Form::Indexed(indexed) => indexed.bytes_allocated(),
        }
    }

    /// Whether it has the form for small hashes, to which it never returns: those that Redis stores in that form.
    pub(crate) fn is_packed(&self) -> bool {
        matches!(self.form, Form::Packed(_))
    }

    /// Takes the form for large hashes.
    pub(crate) fn outgrow(&mut self) {
        if let Form::Packed(packed) = &self.form {
            self.form = Form::Indexed(Box::new(Indexed::from(packed)));
        }
    }

    /// Calls `f` with the field of this name, if there is one.
    #[inline]
    pub(crate) fn read<R>(&self, name: &[u8], now: i64, f: impl FnOnce(Field<'_>) -> R) -> Option<R> {
        self.read_stored(name, |field| field.is_live(now).then(|| f(field))).flatten()
    }

    /// Whether there is a field of this name.
    pub(crate) fn contains(&self, name: &[u8], now: i64) -> bool {
        self.read(name, now, |_| ()).is_some()
    }

    /// Calls `f` with all fields.
    pub(crate) fn visit(&self, now: i64, mut f: impl FnMut(Field<'_>)) {
        let visit = |field: Field<'_>| {
            if field.is_live(now) {
                f(field);
            }
        };
        match &self.form {
            Form::Packed(packed) => packed.visit(visit),
            Form::Indexed(indexed) => indexed.visit(visit),
        }
    }

    /// Calls `f` with about `count` fields from a cursor on, and returns the next cursor. Zero starts a scan, and ends it
    /// when it is returned. Fields that stay throughout are visited exactly once, whatever their values become. A small
    /// hash is visited whole.
    pub(crate) fn scan(&self, cursor: u64, count: usize, now: i64, mut f: impl FnMut(Field<'_>)) -> u64 {
        let mut visit = |field: Field<'_>| {
            if field.is_live(now) {
                f(field);
            }
        };
        match &self.form {
            Form::Packed(packed) => {
                packed.visit(visit);
                0
            }
            Form::Indexed(indexed) => indexed.scan(cursor, count, &mut visit),
        }
    }

    /// Calls `f` with the fields of these ranks, in an order that lasts until the next change, as long as it returns true.
    /// Fields that have expired have ranks, too. Cost: a part of the index, beside the fields.
    ///
    /// # Panics
    /// May panic if there are not as many fields.
    pub(crate) fn visit_ranks(
        &self,
        ranks: impl IntoIterator<Item = usize>,
        mut f: impl FnMut(Field<'_>) -> bool,
    ) {
        match &self.form {
            Form::Packed(packed) => _ = ranks.into_iter().all(|rank| packed.read_at(rank, &mut f)),
            Form::Indexed(indexed) => indexed.visit_ranks(ranks, f),
        }
    }

    /// The number of fields that have expired and are not removed yet.
    pub(crate) fn expired(&self, now: i64) -> usize {
        match &self.form {
            Form::Packed(_) if !self.may_be_timed() => 0,
            Form::Packed(packed) => packed.deadlines().filter(|deadline| *deadline <= now).count(),
            Form::Indexed(indexed) => indexed.expired(now),
        }
    }

    /// The earliest deadline of a field.
    pub(crate) fn first_deadline(&self) -> Option<i64> {
        match &self.form {
            Form::Packed(_) if !self.may_be_timed() => None,
            Form::Packed(packed) => packed.deadlines().min(),
            Form::Indexed(indexed) => indexed.first_deadline(),
        }
    }

    /// Stores a field; returns whether it is new. One that has expired is not.
    pub(crate) fn insert(&mut self, field: Field<'_>) -> bool {
        self.record_change(field.name, true);
        if field.deadline.is_some() {
            self.extra_mut().is_timed = true;
        }
        let mut indexed = match &mut self.form {
            Form::Indexed(indexed) => return indexed.insert(field),
            Form::Packed(packed) => match packed.insert(field) {
                Ok(is_new) => return is_new,
                Err(Full) => Box::new(Indexed::from(&*packed)),
            },
        };
        let is_new = indexed.insert(field);
        self.form = Form::Indexed(indexed);
        is_new
    }

    /// As [`insert`](Self::insert), but one that has expired is new.
    pub(crate) fn put(&mut self, field: Field<'_>, now: i64) -> bool {
        let is_hidden = self.is_hidden(field.name, now);
        self.insert(field) || is_hidden
    }

    /// As [`remove`](Self::remove), but one that has expired is none.
    pub(crate) fn take(&mut self, name: &[u8], now: i64) -> bool {
        let is_hidden = self.is_hidden(name, now);
        self.remove(name) && !is_hidden
    }

    /// Whether there is a field of this name that has expired.
    #[inline]
    fn is_hidden(&self, name: &[u8], now: i64) -> bool {
        self.may_be_timed() && self.read_stored(name, |field| !field.is_live(now)) == Some(true)
    }

    /// Removes a field; returns whether there was one.
    pub(crate) fn remove(&mut self, name: &[u8]) -> bool {
        self.record_change(name, false);
        match &mut self.form {
            Form::Packed(packed) => packed.remove(name),
            Form::Indexed(indexed) => indexed.remove(name),
        }
    }

    /// Removes up to `most` fields that have expired; returns how many.
    pub(crate) fn remove_expired(&mut self, now: i64, most: usize) -> usize {
        let count = self.expired(now).min(most);
        if count == 0 {
            return 0;
        }
        let mut names: Vec<Box<[u8]>> = Vec::new();
        match &self.form {
            Form::Indexed(indexed) => names = indexed.first_timed(count),
            Form::Packed(packed) => packed.visit(|field| {
                if !field.is_live(now) && names.len() < count {
                    names.push(field.name.into());
                }
            }),
        }
        names.iter().for_each(|name| _ = self.remove(name));
        count
    }

    /// Sets the alarm for the first deadline of this hash, which is the value of this key, unless it has an earlier one that
    /// is not due yet.
    pub(crate) fn set_alarm(&mut self, alarms: &Alarms, now: i64, space: u8, name: &[u8]) {
        let Some(deadline) = self.first_deadline() else { return };
        let extra = self.extra_mut();
        let is_set = |alarm: &Alarm| alarm.deadline <= deadline && alarm.deadline > now;
        if !extra.alarm.as_ref().is_some_and(is_set) {
            extra.alarm = Some(alarms.set(deadline, space, name));
        }
    }

    /// Cancels the alarm, which belongs to a former key.
    pub(crate) fn cancel_alarm(&mut self) {
        if let Some(extra) = &mut self.extra {
            extra.alarm = None;
        }
    }

    fn may_be_timed(&self) -> bool {
        self.extra.as_ref().is_some_and(|extra| extra.is_timed)
    }

    fn extra_mut(&mut self) -> &mut Extra {
        self.extra.get_or_insert_default()
    }

    /// Frees what is beside the fields, if nothing is there.
    fn drop_unused_extra(&mut self) {
        self.extra.take_if(|extra| extra.journal.is_none() && !extra.is_timed && extra.alarm.is_none());
    }

    #[inline]
    fn read_stored<R>(&self, name: &[u8], f: impl FnOnce(Field<'_>) -> R) -> Option<R> {
        match &self.form {
            Form::Packed(packed) => packed.read(name, f),
            Form::Indexed(indexed) => indexed.get(name).map(f),
        }
    }

    /// Records a field before its change, if changes are recorded. A missing one changes only if it is added.
    #[inline]
    fn record_change(&mut self, name: &[u8], adds: bool) {
        let Some(mut journal) = self.extra.as_mut().and_then(|extra| extra.journal.take()) else { return };
        let found = self.read_stored(name, |field| journal.record(name, Some(field)));
        if found.is_none() && adds {
            journal.record(name, None);
        }
        self.extra_mut().journal = Some(journal);
    }
}
