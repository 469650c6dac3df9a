//! The schema of a value: a number that is stored with it, so that bytes of another form are a miss and are not decoded.
//!
//! There are two. That of a type is computed from its name and its form: from what its `Deserialize` requests, or by the derived
//! [`Schema`], which sees every field and keeps its name when the type moves. That of a name and a number is computed from nothing
//! else, for programs whose types differ.

mod shape;
mod shared;
mod written;

pub(crate) use self::shared::shared;
pub(crate) use self::written::check as check_written;

use parking_lot::RwLock;
use serde::de::DeserializeOwned;
use std::any::TypeId;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use twox_hash::XxHash3_64;

/// A type with a schema. Derive it; see [`macro@crate::Schema`].
pub trait Schema {
    /// Changes whenever the fields or variants of the type change.
    const SCHEMA: u64;
}

/// The schema of a type without serde: its name.
pub(crate) fn of_name<V>() -> u64 {
    XxHash3_64::oneshot(std::any::type_name::<V>().as_bytes())
}

/// The schema of a type with serde: its name, and its shape.
pub(crate) fn of_shape<V: DeserializeOwned + 'static>() -> u64 {
    known::<V>().0
}

/// What a type reads.
pub(crate) fn requested<V: DeserializeOwned + 'static>() -> Arc<Requested> {
    known::<V>().1
}

/// What the `Deserialize` of a type asks for, beside its shape.
#[derive(Debug, Default)]
pub(crate) struct Requested {
    /// The numbers of fields of the structs with a name; for variants with several fields, by the names of enum and variant.
    lengths: HashMap<(&'static str, &'static str), Vec<usize>>,
    /// Whether it asks for data that say themselves what they are.
    is_self_describing: bool,
}

/// Computed once per type.
fn known<V: DeserializeOwned + 'static>() -> (u64, Arc<Requested>) {
    type Known = HashMap<TypeId, (u64, Arc<Requested>)>;
    // Writers of values read it.
    static KNOWN: LazyLock<RwLock<Known>> = LazyLock::new(RwLock::default);
    let known = KNOWN.read().get(&TypeId::of::<V>()).cloned();
    known.unwrap_or_else(|| {
        // Not under the lock, because it runs code of the type.
        let (shape, requested) = shape::of::<V>();
        let schema = mix_schema(of_name::<V>(), "", shape);
        let entry = (schema, Arc::new(requested));
        KNOWN.write().insert(TypeId::of::<V>(), entry.clone());
        entry
    })
}

/// One step of a schema: FNV-1a over the schema so far, a name, and another schema.
#[doc(hidden)]
pub const fn mix_schema(before: u64, name: &str, other: u64) -> u64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0100_0000_01b3;
    let mut hash = OFFSET;
    let mut number = before;
    let mut rounds = 0;
    while rounds < 16 {
        if rounds == 8 {
            number = other;
        }
        hash = (hash ^ (number & 0xff)).wrapping_mul(PRIME);
        number >>= 8;
        rounds += 1;
    }
    let bytes = name.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(PRIME);
        at += 1;
    }
    hash
}

macro_rules! named_schemas {
    ($($of:ty),*) => {$(
        impl Schema for $of {
            const SCHEMA: u64 = mix_schema(0, stringify!($of), 0);
        }
    )*};
}

named_schemas!(
    (),
    bool,
    char,
    u8,
    u16,
    u32,
    u64,
    u128,
    usize,
    i8,
    i16,
    i32,
    i64,
    i128,
    isize,
    f32,
    f64,
    String,
    Duration
);

/// Borrowed and owned text have one schema.
impl Schema for str {
    const SCHEMA: u64 = String::SCHEMA;
}

/// A pointer has the schema of its target.
macro_rules! same_schemas {
    ($($of:ty),*) => {$(
        impl<T: Schema + ?Sized> Schema for $of {
            const SCHEMA: u64 = T::SCHEMA;
        }
    )*};
}

same_schemas!(Box<T>, Arc<T>, &T);

impl<T: Schema + ToOwned + ?Sized> Schema for Cow<'_, T> {
    const SCHEMA: u64 = T::SCHEMA;
}

macro_rules! list_schemas {
    ($($of:ty),*) => {$(
        impl<T: Schema> Schema for $of {
            const SCHEMA: u64 = <[T]>::SCHEMA;
        }
    )*};
}

impl<T: Schema> Schema for [T] {
    const SCHEMA: u64 = mix_schema(0, "[]", T::SCHEMA);
}

list_schemas!(Vec<T>, BTreeSet<T>);

impl<T: Schema, S> Schema for HashSet<T, S> {
    const SCHEMA: u64 = <[T]>::SCHEMA;
}

impl<T: Schema, const N: usize> Schema for [T; N] {
    const SCHEMA: u64 = mix_schema(N as u64, "[N]", T::SCHEMA);
}

impl<T: Schema> Schema for Option<T> {
    const SCHEMA: u64 = mix_schema(0, "?", T::SCHEMA);
}

impl<T: Schema, E: Schema> Schema for Result<T, E> {
    const SCHEMA: u64 = mix_schema(T::SCHEMA, "Result", E::SCHEMA);
}

impl<K: Schema, V: Schema, S> Schema for HashMap<K, V, S> {
    const SCHEMA: u64 = mix_schema(K::SCHEMA, "{}", V::SCHEMA);
}

impl<K: Schema, V: Schema> Schema for BTreeMap<K, V> {
    const SCHEMA: u64 = mix_schema(K::SCHEMA, "{}", V::SCHEMA);
}

macro_rules! tuple_schemas {
    ($(($($part:ident),+))*) => {$(
        impl<$($part: Schema),+> Schema for ($($part,)+) {
            const SCHEMA: u64 = {
                let mut schema = mix_schema(0, "()", 0);
                $(schema = mix_schema(schema, ",", $part::SCHEMA);)+
                schema
            };
        }
    )*};
}

tuple_schemas!((A)(A, B)(A, B, C)(A, B, C, D)(A, B, C, D, E)(A, B, C, D, E, F));
