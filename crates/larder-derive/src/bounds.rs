//! The bounds of a derived implementation.

use syn::{Generics, parse_quote};

/// Adds a bound to every type parameter.
pub(crate) fn with_bound(generics: &Generics, bound: &syn::Path) -> Generics {
    let mut generics = generics.clone();
    for parameter in generics.type_params_mut() {
        parameter.bounds.push(parse_quote!(#bound));
    }
    generics
}
