//! `cached`: a function that fetches, with the function as it is written as the loader, and a type of the same name with what
//! belongs to it: its view, its key, and calls for one key.

mod arguments;
mod key;
mod names;
mod options;
mod signature;

use arguments::{Argument, Role, own_name};
use names::mentions;
use options::{Calls, Options};
use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::spanned::Spanned;
use syn::{Attribute, Ident, ItemFn, LitStr, Result, Signature};

/// The attributes that set lints.
const LINTS: [&str; 5] = ["allow", "deny", "expect", "forbid", "warn"];

pub(crate) fn expand(options: TokenStream, item: &ItemFn) -> Result<TokenStream> {
    signature::check(&item.sig)?;
    let options = Options::parse(options)?;
    let arguments = Argument::all_of(&item.sig)?;
    let of_key = arguments.iter().filter(|argument| argument.role == Role::Other);
    let names: Vec<&Ident> = of_key.map(|argument| argument.name).collect();
    let key = key::reference(&options, &names)?;
    let (value, error) = signature::value_and_error(&item.sig)?;
    let calls = options.calls(&names);
    let function = Function { item, view_name: options.view, arguments, key, value, error, calls };
    let (fetching, companion) = (function.fetching(), function.companion());
    Ok(quote!(#fetching #companion))
}

/// A function that can be cached.
struct Function<'f> {
    item: &'f ItemFn,
    view_name: LitStr,
    arguments: Vec<Argument<'f>>,
    /// A reference to the key.
    key: TokenStream,
    value: TokenStream,
    error: TokenStream,
    calls: Calls,
}

/// The variables of the expansion.
struct Variables {
    view: Ident,
    key: Ident,
    fetch: Ident,
}

impl Function<'_> {
    /// The function of the written name.
    fn fetching(&self) -> TokenStream {
        let ItemFn { attrs, vis, sig, .. } = self.item;
        let (name, kept) = (&sig.ident, attrs.iter().filter(|attribute| !is_lint(attribute)));
        let head = self.signature(quote!(async fn #name), &self.outcome(), |role, _| role != Role::Context);
        let Variables { view, key, fetch } = Variables::new();
        let (hit, view_and_key, load) = (own_name("hit"), self.view_and_key(), self.load());
        let of_fetch = &self.calls.of_fetch;
        quote! {
            #(#kept)*
            #vis #head {
                #view_and_key
                // A hit needs no clones for a loader.
                if let ::std::option::Option::Some(#hit) = #view.hit(&#key) {
                    return ::std::result::Result::Ok(#hit);
                }
                let #fetch = #view.fetch(&#key) #of_fetch;
                #load
            }
        }
    }

    /// The type of the same name.
    fn companion(&self) -> TokenStream {
        let ItemFn { attrs, vis, sig, block } = self.item;
        let (name, lints) = (&sig.ident, attrs.iter().filter(|attribute| is_lint(attribute)));
        let written = Signature { ident: Ident::new("load", name.span()), ..sig.clone() };
        let (view_fn, view_and_key, load) = (self.view_fn(), self.view_and_key(), self.load());
        let Variables { view, key, fetch } = Variables::new();
        let (key_reference, of_fetch) = (&self.key, &self.calls.of_fetch);
        let removal = quote!(::std::result::Result<::larder::Removal, ::larder::CacheError>);
        let is_of_key = |role: Role, name: &Ident| role == Role::Other && mentions(key_reference, &[name]);
        let key_fn = self.signature(quote!(fn key), &quote!(::larder::KeyBuf), is_of_key);
        let delete = self.signature(quote!(async fn delete), &removal, |role, name| {
            role == Role::Cache || is_of_key(role, name)
        });
        let refresh =
            self.signature(quote!(async fn refresh), &self.outcome(), |role, _| role != Role::Context);
        let about = format!(
            "What belongs to the cached function `{name}`: its view, its key, and calls for one key."
        );
        quote! {
            #[doc = #about]
            #[allow(non_camel_case_types, reason = "it has the name of the function")]
            #vis enum #name {}

            #[allow(dead_code, reason = "a program need not use each of these")]
            impl #name {
                /// The function as it is written: it loads, and knows no cache.
                #(#lints)*
                #[allow(unused_variables, reason = "the body need not use what is only in the key")]
                #vis #written #block

                #view_fn

                /// The key of these arguments in the view of the function.
                #vis #key_fn {
                    ::larder::cached_fn::key(#key_reference)
                }

                /// Removes the value of these arguments on all nodes, as `View::delete`.
                #vis #delete {
                    #view_and_key
                    #view.delete(&#key).await
                }

                /// Loads the value of these arguments even if it is fresh, as `Fetch::refresh`.
                #vis #refresh {
                    #view_and_key
                    let #fetch = #view.fetch(&#key).refresh() #of_fetch;
                    #load
                }
            }
        }
    }

    /// The function that makes the view, or finds it.
    fn view_fn(&self) -> TokenStream {
        let Function { item, view_name, value, error, calls: Calls { of_view, .. }, .. } = self;
        let (vis, cache_type) = (&item.vis, self.cache().target());
        // The compiler says at the first type that it is no cache, and at the second one that it cannot be stored.
        let cache_at = |span: Span| Ident::new("cache", Span::mixed_site().located_at(span));
        let (cache, cache_to_check, cache_to_use) =
            (own_name("cache"), cache_at(cache_type.span()), cache_at(value.span()));
        quote! {
            /// The view of the function, with those of its options that depend on no argument.
            #vis fn view(#cache: &#cache_type) -> &::larder::View<::larder::KeyBuf, #value, #error> {
                static FUNCTION: ::larder::cached_fn::CachedFn = ::larder::cached_fn::CachedFn::new();
                let #cache = ::larder::cached_fn::cache(#cache_to_check);
                ::larder::cached_fn::FnCache::<#value>::view_of_fn(
                    #cache_to_use,
                    &FUNCTION,
                    #view_name,
                    |view| view #of_view,
                )
            }
        }
    }

    fn cache(&self) -> &Argument<'_> {
        self.arguments.iter().find(|argument| argument.role == Role::Cache).expect("one of them is the cache")
    }

    /// The statements that make the view and the key.
    fn view_and_key(&self) -> TokenStream {
        let Variables { view, key, .. } = Variables::new();
        let (name, cache, key_reference) = (&self.item.sig.ident, self.cache().reference(), &self.key);
        quote! {
            let #view = #name::view(#cache);
            let #key = ::larder::cached_fn::key(#key_reference);
        }
    }

    /// The rest of a function that has a fetch: the loader, which owns what it needs.
    fn load(&self) -> TokenStream {
        let (name, context, Variables { fetch, .. }) =
            (&self.item.sig.ident, own_name("context"), Variables::new());
        let owned = self.arguments.iter().map(Argument::owned);
        let passed = self.arguments.iter().map(|argument| argument.passed(&context));
        quote! {
            #(#owned)*
            #fetch.load(move |#context| async move { #name::load(#(#passed),*).await }).await
        }
    }

    /// What a fetch returns.
    fn outcome(&self) -> TokenStream {
        let Function { value, error, .. } = self;
        quote!(::std::result::Result<::larder::Fetched<#value>, ::larder::FetchError<#error>>)
    }

    /// The signature of a function with some of the arguments, and with the lifetimes.
    fn signature(
        &self,
        head: TokenStream,
        output: &TokenStream,
        has: impl Fn(Role, &Ident) -> bool,
    ) -> TokenStream {
        let generics = &self.item.sig.generics;
        let clause = &generics.where_clause;
        let arguments = self.arguments.iter().filter(|argument| has(argument.role, argument.name));
        quote!(#head #generics (#(#arguments),*) -> #output #clause)
    }
}

impl Variables {
    fn new() -> Self {
        Variables { view: own_name("view"), key: own_name("key"), fetch: own_name("fetch") }
    }
}

fn is_lint(attribute: &Attribute) -> bool {
    LINTS.iter().any(|lint| attribute.path().is_ident(lint))
}
