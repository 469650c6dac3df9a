//! The derives of the crate `larder`, which re-exports them: [`macro@CacheKey`] and [`macro@Schema`].

mod attributes;
mod key;
mod schema;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Makes a struct or an enum a key of a view.
///
/// The bytes are the type's name and version, the variant if there is one, and each field behind its length. They are
/// readable, two different keys never have the same, and they stay the same until the name, the version, the order of
/// the fields or the name of a variant changes. Renaming a field changes nothing.
///
/// | attribute on the type | default | meaning |
/// |---|---|---|
/// | `#[key(name = "post")]` | the type's name | the first bytes: write it down before you rename the type |
/// | `#[key(version = 2)]` | 1 | raise it when the same key is to mean something else |
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
/// posts.write(&PostKey { id: 42, language: "en" }, "Hello".into()).await?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// What has no stable bytes does not compile:
/// ```compile_fail
/// #[derive(larder::CacheKey)]
/// struct Ratio {
///     value: f64,
/// }
/// ```
/// Nor does a union, or a name that would be read as something else:
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
#[proc_macro_derive(CacheKey, attributes(key))]
pub fn derive_cache_key(input: TokenStream) -> TokenStream {
    expand(key::expand(&parse_macro_input!(input as DeriveInput)))
}

/// Gives a type a schema: a number made of its name, the names of its fields and variants in their order, and their
/// types' schemas. Where any of it changes, the number does, and values stored before are misses.
///
/// | attribute | meaning |
/// |---|---|
/// | `#[schema(version = 2)]` on the type | default 0; raise it when the meaning changes and the form does not |
/// | `#[schema(name = "Page")]` on the type | default the type's name |
/// | `#[schema(opaque)]` on a field | its type has no schema of its own, or is this type again: what is written here stands for it |
///
/// # Examples
/// ```
/// use larder::Schema;
///
/// mod yesterday {
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
/// assert_ne!(yesterday::Page::SCHEMA, Page::SCHEMA);
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
#[proc_macro_derive(Schema, attributes(schema))]
pub fn derive_schema(input: TokenStream) -> TokenStream {
    expand(schema::expand(&parse_macro_input!(input as DeriveInput)))
}

fn expand(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
