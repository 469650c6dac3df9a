//! Waits of fibers that load something: a circle of them would never end.

use crate::raised::Result;
use crate::ruby::data::data;
use crate::ruby::method::{Arguments, methods};
use crate::ruby::{Ruby, Value};
use std::cell::RefCell;

/// A wait, until it ends.
struct Waiting(RefCell<Option<larder_host::Waiting>>);

data!(Waiting: c"Larder::Waiting");

/// `Waiting._begin(held, wanted)`, each an array of strings that name loads. Raises if one of the wanted ones waits for one that is held.
fn begin<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    let ids = |list: Value<'r>| -> Result<Vec<Vec<u8>>> {
        list.elements(ruby)?.into_iter().map(|id| crate::key::bytes_of(ruby, id)).collect()
    };
    let waiting = larder_host::Waiting::begin(ids(given.get(0))?, ids(given.get(1))?)?;
    ruby.object(given.this, Waiting(RefCell::new(waiting)))
}

/// `Waiting#_end`
fn end<'r>(ruby: Ruby<'r>, given: Arguments<'r>) -> Result<Value<'r>> {
    drop(given.this.data::<Waiting>()?.0.take());
    Ok(ruby.nil())
}

pub(crate) fn define(ruby: Ruby<'_>) -> Result<()> {
    let class = ruby.class(c"Waiting")?;
    ruby.add_functions(class, methods![c"_begin" => begin, 2..=2])?;
    ruby.add_methods(class, methods![c"_end" => end, 0..=0])
}
