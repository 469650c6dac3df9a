//! The options in `#[cached(…)]`: what the function is cached as, and for how long.

use super::names::mentions;
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::Parser;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, MetaNameValue, Result, Token};

/// The options that are numbers and times of a `Policy`, by the name of its call. Each is checked by a function of the same
/// name in `larder::cached_fn`.
const TIMES: [&str; 8] = [
    "ttl",
    "negative_ttl",
    "grace",
    "retry_after",
    "soft_timeout",
    "hard_timeout",
    "jitter",
    "refresh_ahead",
];

/// The options as they are written.
pub(super) struct Options {
    pub(super) view: LitStr,
    /// The parts of the key. `None` for all arguments.
    pub(super) key: Option<Vec<Expr>>,
    tags: Vec<Expr>,
    times: Vec<(Ident, Expr)>,
}

/// The calls on a view or on a fetch that set options.
#[derive(Default)]
pub(super) struct Calls {
    pub(super) of_view: TokenStream,
    pub(super) of_fetch: TokenStream,
}

impl Options {
    pub(super) fn parse(input: TokenStream) -> Result<Self> {
        let (mut view, mut key, mut tags, mut times) = (None, None, None, Vec::new());
        for option in Punctuated::<MetaNameValue, Token![,]>::parse_terminated.parse2(input)? {
            let name = option.path.require_ident()?;
            let is_repeated = match name.to_string().as_str() {
                "view" => view.replace(view_name(&option.value)?).is_some(),
                "key" => key.replace(key_parts(option.value)?).is_some(),
                "tags" => tags.replace(tag_list(option.value)?).is_some(),
                time if TIMES.contains(&time) => {
                    let is_repeated = times.iter().any(|(other, _)| other == name);
                    times.push((name.clone(), option.value));
                    is_repeated
                }
                _ => return Err(unknown(name)),
            };
            if is_repeated {
                return Err(syn::Error::new(name.span(), format!("`{name}` is given more than once")));
            }
        }
        let Some(view) = view else {
            let message = "a cached function has the name of its view, which stays when it is renamed: `view = \"price\"`";
            return Err(syn::Error::new(Span::call_site(), message));
        };
        Ok(Options { view, key, tags: tags.unwrap_or_default(), times })
    }

    /// What depends on no argument is set once, on the view. The rest is set on each fetch.
    pub(super) fn calls(&self, arguments: &[&Ident]) -> Calls {
        let mut calls = Calls::default();
        for (name, value) in &self.times {
            let value = match value {
                Expr::Lit(literal) => checked(name, literal),
                other => quote!(#other),
            };
            let policy = quote!(::larder::Policy::new().#name(#value));
            match mentions(&value, arguments) {
                true => calls.of_fetch.extend(quote!(.policy(#policy))),
                false => calls.of_view.extend(quote!(.with_policy(#policy))),
            }
        }
        for tag in &self.tags {
            match text(tag) {
                Some(text) if !text.value().contains(['{', '}']) => {
                    calls.of_view.extend(quote!(.with_tag(#text)));
                }
                Some(text) => {
                    calls.of_fetch.extend(quote_spanned!(text.span()=> .tag(::std::format!(#text))));
                }
                None => calls.of_fetch.extend(quote!(.tag(#tag))),
            }
        }
        calls
    }
}

/// The value of a text or of a number, which the compiler reads: one that is out of range does not compile.
fn checked(name: &Ident, literal: &ExprLit) -> TokenStream {
    let value_type = match name.to_string().as_str() {
        "jitter" => quote!(f32),
        "refresh_ahead" => quote!(::larder::RefreshAhead),
        _ => quote!(::std::time::Duration),
    };
    let value = quote_spanned!(literal.span()=> ::larder::cached_fn::#name(#literal));
    quote!({
        const VALUE: #value_type = #value;
        VALUE
    })
}

fn view_name(value: &Expr) -> Result<LitStr> {
    match text(value) {
        Some(name) if !name.value().is_empty() && !name.value().contains([':', '/']) => Ok(name.clone()),
        _ => Err(syn::Error::new_spanned(value, "the name of a view is a text without ':' and '/'")),
    }
}

fn key_parts(value: Expr) -> Result<Vec<Expr>> {
    let parts = match value {
        Expr::Tuple(tuple) if tuple.elems.is_empty() => {
            let message = "a key has at least one argument; without `key` all arguments are its parts";
            return Err(syn::Error::new_spanned(tuple, message));
        }
        Expr::Tuple(tuple) => tuple.elems.into_iter().collect(),
        Expr::Paren(paren) => vec![*paren.expr],
        one => vec![one],
    };
    Ok(parts)
}

fn tag_list(value: Expr) -> Result<Vec<Expr>> {
    match value {
        Expr::Array(array) => Ok(array.elems.into_iter().collect()),
        other => Err(syn::Error::new_spanned(other, "tags are a list: `tags = [\"shop:{shop}\"]`")),
    }
}

fn text(value: &Expr) -> Option<&LitStr> {
    match value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Some(text),
        _ => None,
    }
}

fn unknown(name: &Ident) -> syn::Error {
    let times: Vec<String> = TIMES.iter().map(|time| format!("`{time}`")).collect();
    let (last, others) = times.split_last().expect("there are times");
    let message = format!(
        "unknown `{name}` in `#[cached(…)]`: it takes `view`, `key`, `tags`, {} and {last}",
        others.join(", ")
    );
    syn::Error::new(name.span(), message)
}
