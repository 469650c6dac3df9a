//! The macros of the crate `larder`, which re-exports them: [`macro@CacheKey`], [`macro@Schema`] and [`macro@cached`].

mod attributes;
mod bounds;
mod cached;
mod key;
mod recursion;
mod schema;
#[cfg(test)]
mod tests;

use proc_macro::TokenStream;
use syn::{DeriveInput, ItemFn, parse_macro_input};

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

/// Caches an async function: a call gets the value from memory, from Redis, or from the body, which then fills both.
///
/// The function returns a `Fetched` of its value, or a `FetchError` of its error. One of its arguments is the cache, a
/// `&Cache` or a `&LocalCache`. The others are the key, unless `key` names those that are.
///
/// | option | default | meaning |
/// |---|---|---|
/// | `view = "price"` | required | the name of the view |
/// | `key = (shop, id)` | all arguments | the parts of the key: arguments, or expressions with them, such as `user.id` |
/// | `tags = ["shop:{shop}"]` | none | the tags of a value, with arguments as in `format!`, or expressions |
/// | `ttl`, `negative_ttl`, `grace`, `retry_after`, `soft_timeout`, `hard_timeout` | the cache's | a time of the `Policy`: a text such as `"5m"`, or a `Duration`, also one that depends on arguments |
/// | `jitter = 0.1` | the cache's | a number of the `Policy` |
/// | `refresh_ahead = 0.8` | the cache's | the part of the TTL after which a fresh value is loaded again, or a `RefreshAhead` |
///
/// An argument of type `LoadCx<Value>` is the context of the load: its callers do not pass it.
///
/// A type of the same name has what belongs to the function `price`:
///
/// | call | what |
/// |---|---|
/// | `price::delete(&cache, shop, id)` | removes the value on all nodes, as `View::delete` |
/// | `price::refresh(&cache, …)` | loads even if there is a fresh value, as `Fetch::refresh`; it has all arguments of the function |
/// | `price::load(&cache, …)` | the body alone, without the cache |
/// | `price::view(&cache)`, `price::key(shop, id)` | the view and the key, for all other calls of a `View` |
///
/// The loader runs in a task of its own and owns its arguments: what is passed as `&T` is cloned by `ToOwned`, what is passed
/// by value is moved, and a `&'static T` is passed on. An argument `db: &Arc<Database>` clones the `Arc`.
///
/// Cost: a hit is a `View::hit`: it clones no argument, allocates nothing for a key of up to 39 bytes, and starts no task. The
/// view is made by the first call on a handle of the cache and its clones. A miss looks up memory twice.
///
/// Not for methods, and not inside of an `impl`; nor for functions with type parameters.
///
/// # Examples
/// ```
/// use larder::{Cache, Source};
/// # use std::time::Duration;
///
/// struct Database;
///
/// impl Database {
///     async fn price(&self, shop: u64, id: &str) -> std::io::Result<u32> {
///         Ok(if shop == 7 && id == "apple" { 42 } else { 0 })
///     }
/// }
///
/// #[larder::cached(view = "price", key = (shop, id), tags = ["shop:{shop}"], ttl = "5m", grace = "1h")]
/// async fn price(cache: &Cache, db: &'static Database, shop: u64, id: &str) -> std::io::Result<u32> {
///     db.price(shop, id).await
/// }
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// static DATABASE: Database = Database;
/// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
/// assert_eq!(*price(&cache, &DATABASE, 7, "apple").await?, 42);
/// assert_eq!(price(&cache, &DATABASE, 7, "apple").await?.source(), Source::Memory);
/// assert!(price::delete(&cache, 7, "apple").await?.existed);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// An argument that cannot be cloned does not compile as a reference; put it into an `Arc`:
/// ```compile_fail
/// struct Database;
///
/// #[larder::cached(view = "price", key = id)]
/// async fn price(cache: &larder::Cache, db: &Database, id: u64) -> Result<u32, std::io::Error> {
///     Ok(42)
/// }
/// ```
/// Nor does an argument that is no key, unless `key` leaves it out:
/// ```compile_fail
/// #[larder::cached(view = "price")]
/// async fn price(cache: &larder::Cache, factor: f64) -> Result<u32, std::io::Error> {
///     Ok(42)
/// }
/// ```
/// Nor a time that is none:
/// ```compile_fail
/// #[larder::cached(view = "price", ttl = "5 minutes")]
/// async fn price(cache: &larder::Cache, id: u64) -> Result<u32, std::io::Error> {
///     Ok(42)
/// }
/// ```
#[proc_macro_attribute]
pub fn cached(options: TokenStream, function: TokenStream) -> TokenStream {
    let function = parse_macro_input!(function as ItemFn);
    expand(cached::expand(options.into(), &function))
}

fn expand(expanded: syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expanded.unwrap_or_else(|error| error.to_compile_error()).into()
}
