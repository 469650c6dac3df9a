//! The derive macros of the crate `larder`, which re-exports them: [`macro@CacheKey`] and [`macro@Schema`].

mod attributes;
mod bounds;
mod key;
mod recursion;
mod schema;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Implements `CacheKey` for a struct or an enum, so that it can be the key of a view.
///
/// The bytes are the name and version of the type, the variant of an enum, and each field with its length as a
/// prefix. They are readable, and distinct keys have distinct bytes. They change only with the name, the version, the
/// order of the fields or the name of a variant. Renaming a field does not change them.
///
/// The type parameters that occur in fields must be keys, and so must associated types such as `I::Item`; of `I` itself
/// nothing is asked then.
///
/// | attribute on the type | default | meaning |
/// |---|---|---|
/// | `#[key(name = "post")]` | the type's name | the first bytes; set it to the old name when you rename the type |
/// | `#[key(version = 2)]` | 1 | raise it when the meaning of the key changes |
///
/// # Examples
/// ```
/// use larder::{Cache, CacheKey, View};
/// # use std::time::Duration;
///
/// #[derive(CacheKey)]
/// #[key(name = "post", version = 2)]
/// struct PostKey<'a> {
///     id: u64,
///     language: &'a str,
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Cache::builder("blog").ttl(Duration::from_secs(60)).build()?;
/// let posts: View<PostKey<'_>, String> = cache.view("posts");
/// // In Redis: blog:posts:post@2:2=42:2=en
/// assert!(posts.write(&PostKey { id: 42, language: "en" }, "Hello".into()).await?.is_everywhere());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A field without stable bytes does not compile:
/// ```compile_fail
/// #[derive(larder::CacheKey)]
/// struct Ratio {
///     value: f64,
/// }
/// ```
/// A union or a name with a separator does not compile either:
/// ```compile_fail
/// #[derive(larder::CacheKey)]
/// union Either {
///     one: u32,
///     other: i32,
/// }
/// ```
/// ```compile_fail
/// #[derive(larder::CacheKey)]
/// #[key(name = "a:b")]
/// struct Colon;
/// ```
/// Nor does an attribute on a field or a variant: every field is a part of the key.
/// ```compile_fail
/// #[derive(larder::CacheKey)]
/// struct Page {
///     id: u64,
///     #[key(skip)]
///     request: u64,
/// }
/// ```
#[proc_macro_derive(CacheKey, attributes(key))]
pub fn derive_cache_key(input: TokenStream) -> TokenStream {
    expand(key::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Implements `Schema`: a number computed from the name of the type, the names of its fields and variants in their
/// order, and the schemas of the field types. If one of these changes, the number changes, and values stored before
/// are misses.
///
/// | attribute | meaning |
/// |---|---|
/// | `#[schema(version = 2)]` on the type | raise it when the meaning changes and the fields do not; default 0 |
/// | `#[schema(name = "Page")]` on the type | the name; default: the name of the type |
/// | `#[schema(opaque)]` on a field | use the written type instead of its schema, if the type has no schema or is recursive |
///
/// A type that contains itself needs one opaque field in each cycle: a schema cannot be computed from itself. The macro
/// says so for a field such as `Option<Box<Self>>`; if the cycle leads through a second type, the compiler reports a cycle
/// in the evaluation of `SCHEMA`, and one of the fields in its notes has to be opaque.
///
/// # Examples
/// ```
/// use larder::Schema;
///
/// mod previous {
///     #[derive(larder::Schema)]
///     pub struct Page {
///         pub title: String,
///         pub visits: u32,
///     }
/// }
///
/// #[derive(Schema)]
/// struct Page {
///     title: String,
///     visits: u64,
/// }
///
/// assert_ne!(previous::Page::SCHEMA, Page::SCHEMA);
/// ```
///
/// A field without a schema does not compile, unless it is opaque:
/// ```compile_fail
/// struct Foreign;
///
/// #[derive(larder::Schema)]
/// struct Page {
///     of: Foreign,
/// }
/// ```
/// ```
/// struct Foreign;
///
/// #[derive(larder::Schema)]
/// struct Page {
///     #[schema(opaque)]
///     of: Foreign,
/// }
/// ```
/// Two types that contain each other:
/// ```
/// #[derive(larder::Schema)]
/// struct Thread {
///     title: String,
///     posts: Vec<Post>,
/// }
///
/// #[derive(larder::Schema)]
/// struct Post {
///     text: String,
///     #[schema(opaque)]
///     branches: Vec<Thread>,
/// }
/// ```
#[proc_macro_derive(Schema, attributes(schema))]
pub fn derive_schema(input: TokenStream) -> TokenStream {
    expand(schema::expand(&parse_macro_input!(input as DeriveInput)))
}

fn expand(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
