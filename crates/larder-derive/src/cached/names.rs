//! Which names, lifetimes and borrows a piece of code contains.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::Ident;

/// Whether the code contains one of the names. The names in format strings do not count.
pub(super) fn mentions(code: &impl ToTokens, names: &[&Ident]) -> bool {
    any(code.to_token_stream(), &mut |token| match token {
        TokenTree::Ident(ident) => names.contains(&ident),
        _ => false,
    })
}

/// Whether a type contains a borrow, or a lifetime, other than `'static`.
pub(super) fn borrows(of: &impl ToTokens) -> bool {
    let (mut follows_and, mut follows_apostrophe) = (false, false);
    // The tokens of `&'a` are `&`, an apostrophe and the name.
    let found = any(of.to_token_stream(), &mut |token| {
        let mark = if let TokenTree::Punct(mark) = token { mark.as_char() } else { ' ' };
        let is_elided = follows_and && mark != '\'';
        let is_named = follows_apostrophe && matches!(token, TokenTree::Ident(name) if name != "static");
        (follows_and, follows_apostrophe) = (mark == '&', mark == '\'');
        is_elided || is_named
    });
    found || follows_and
}

/// Whether a type has the form `impl Trait`.
pub(super) fn is_opaque(of: &impl ToTokens) -> bool {
    any(of.to_token_stream(), &mut |token| matches!(token, TokenTree::Ident(name) if name == "impl"))
}

fn any(code: TokenStream, is_found: &mut impl FnMut(&TokenTree) -> bool) -> bool {
    code.into_iter().any(|token| match &token {
        TokenTree::Group(group) => any(group.stream(), is_found),
        other => is_found(other),
    })
}
