//! The body of a GET that is sent a second time. A body of the inner service can be read only once, and a layer accepts any type of
//! bodies, so it has to be told how to make one.

use std::any::Any;

/// How to make an empty body of one type, if the cache was told.
#[derive(Debug, Default)]
pub(crate) struct EmptyBody(Option<Box<dyn Any + Send + Sync>>);

impl EmptyBody {
    pub(crate) fn of<B: 'static>(make: fn() -> B) -> EmptyBody {
        EmptyBody(Some(Box::new(make)))
    }

    /// An empty body; `None` if the cache was told how to make those of another type, or of none.
    pub(crate) fn make<B: 'static>(&self) -> Option<B> {
        self.0.as_ref()?.downcast_ref::<fn() -> B>().map(|make| make())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn body_is_made_of_the_type_that_the_cache_was_told() {
        assert_eq!(EmptyBody::of(String::new).make::<String>(), Some(String::new()));
        assert_eq!(EmptyBody::of(String::new).make::<Vec<u8>>(), None);
        assert_eq!(EmptyBody::default().make::<String>(), None);
    }
}
