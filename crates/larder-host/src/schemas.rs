//! One schema and one codec for each view of a cache: memory has values by the names of views, and asks for no more.

use crate::codec::HostCodec;
use crate::process::PerProcess;
use std::collections::HashMap;
use std::convert::Infallible;
use std::fmt;
use std::sync::{Mutex, PoisonError};

/// How the values of a view are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ViewForm {
    /// The name and the number of the schema.
    schema: (String, u32),
    /// The number of the codec in envelopes.
    codec: u8,
}

impl ViewForm {
    /// That of a view with this codec.
    pub(crate) fn new(schema: &str, number: u32, codec: &HostCodec) -> Self {
        ViewForm { schema: (schema.to_owned(), number), codec: codec.number() }
    }
}

impl fmt::Display for ViewForm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "schema {}/{} and codec {}", self.schema.0, self.schema.1, self.codec)
    }
}

/// A view has another form already.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the view {view:?} of this cache has {existing}; with {wanted} it would read values of the other one"
)]
pub(crate) struct FormTaken {
    /// The name of the view.
    view: String,
    /// What it has.
    existing: ViewForm,
    /// What was asked for.
    wanted: ViewForm,
}

/// The forms of the views of a cache, in each process.
#[derive(Debug, Default)]
pub(crate) struct ViewForms(PerProcess<Mutex<HashMap<String, ViewForm>>>);

impl ViewForms {
    /// Notes the form of a view, which keeps it for as long as the cache exists.
    pub(crate) fn claim(&self, view: &str, wanted: ViewForm) -> Result<(), FormTaken> {
        let Ok(forms) = self.0.get_or_make(|| Ok::<_, Infallible>(Mutex::default()));
        let mut forms = forms.lock().unwrap_or_else(PoisonError::into_inner);
        match forms.get(view) {
            Some(existing) if *existing != wanted => {
                Err(FormTaken { view: view.to_owned(), existing: existing.clone(), wanted })
            }
            Some(_) => Ok(()),
            None => {
                forms.insert(view.to_owned(), wanted);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn view_has_one_form() {
        let (forms, codec) = (ViewForms::default(), HostCodec::message_pack());
        let first = ViewForm::new("price", 1, &codec);
        for _ in 0..2 {
            forms.claim("price", first.clone()).expect("the same");
        }
        forms.claim("other", ViewForm::new("price", 2, &codec)).expect("another view");
        let taken = forms.claim("price", ViewForm::new("price", 2, &codec)).expect_err("another form");
        assert_eq!(
            taken.to_string(),
            "the view \"price\" of this cache has schema price/1 and codec 3; with schema price/2 and codec 3 it would read \
             values of the other one"
        );
    }
}
