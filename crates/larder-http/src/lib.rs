//! An HTTP response cache as a tower layer: answers from stored bytes before the router.
