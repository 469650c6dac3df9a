//! The key of a cached function: its parts, and what they must name.

use super::names::mentions;
use super::options::Options;
use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Expr, Ident, Result};

/// A reference to the key: a tuple of references to its parts, or to the only one.
pub(super) fn reference(options: &Options, names: &[&Ident]) -> Result<TokenStream> {
    let parts: Vec<TokenStream> = match &options.key {
        None => names.iter().map(ToTokens::to_token_stream).collect(),
        Some(parts) => {
            parts.iter().try_for_each(|part| check_part(part, names))?;
            parts.iter().map(ToTokens::to_token_stream).collect()
        }
    };
    let references =
        parts.iter().map(|part| quote_spanned!(part.span()=> ::larder::cached_fn::key_part(&#part)));
    match &parts[..] {
        [] => Ok(quote!("")),
        [_] => Ok(quote!(#(#references)*)),
        [.., last] if parts.len() > MAX_KEY_PARTS => {
            let message = format!(
                "a key has at most {MAX_KEY_PARTS} parts: name those that it consists of with `key`, or derive `CacheKey` for \
                 a type that has them"
            );
            Err(syn::Error::new_spanned(last, message))
        }
        _ => Ok(quote!(&(#(#references),*))),
    }
}

/// The longest tuple that is a key.
const MAX_KEY_PARTS: usize = 8;

/// Refuses a part of the key that is the same for all arguments.
fn check_part(part: &Expr, names: &[&Ident]) -> Result<()> {
    if mentions(part, names) {
        return Ok(());
    }
    let has = match names {
        [] => "the function has none beside the cache".to_owned(),
        names => {
            let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
            format!("the function has {}", names.join(", "))
        }
    };
    let message = format!("`{}` names no argument for the key; {has}", part.to_token_stream());
    Err(syn::Error::new_spanned(part, message))
}
