//! What the macros refuse, and with which message.

use crate::{cached, key, schema};
use syn::{DeriveInput, ItemFn, parse_str};

fn key_error(input: &str) -> String {
    let input: DeriveInput = parse_str(input).expect("a type");
    key::expand(&input).expect_err("must be refused").to_string()
}

fn schema_error(input: &str) -> String {
    let input: DeriveInput = parse_str(input).expect("a type");
    schema::expand(&input).expect_err("must be refused").to_string()
}

fn cached_error(options: &str, function: &str) -> String {
    let function: ItemFn = parse_str(function).expect("a function");
    let options = parse_str(options).expect("tokens");
    cached::expand(options, &function).expect_err("must be refused").to_string()
}

#[test]
fn key_attribute_beside_the_type_is_refused() {
    let fields = "`#[key(…)]` is not allowed on a field: every field is a part of the key; on the type it takes \
                  `name` and `version`";
    for input in [
        "struct Key { #[key(skip)] id: u64 }",
        "struct Key(#[key(name = \"x\")] u64);",
        "enum Key { One(#[key] u64) }",
        "enum Key { Two { #[key()] id: u64 } }",
    ] {
        assert_eq!(key_error(input), fields, "{input}");
    }
    let variants = "`#[key(…)]` is not allowed on a variant: the name of a variant is a part of the key; on the \
                    type it takes `name` and `version`";
    assert_eq!(key_error("enum Key { #[key(name = \"x\")] One }"), variants);
    let parameters =
        "`#[key(…)]` is not allowed on a generic parameter; on the type it takes `name` and `version`";
    assert_eq!(key_error("struct Key<#[key(skip)] T>(T);"), parameters);
}

#[test]
fn schema_attribute_at_the_wrong_place_is_refused() {
    let variants = "`#[schema(…)]` is not allowed on a variant; on the type it takes `name` and `version`, on a field \
                    `opaque`";
    assert_eq!(schema_error("enum Page { #[schema(opaque)] One(u64) }"), variants);
    let parameters = "`#[schema(…)]` is not allowed on a generic parameter; on the type it takes `name` and `version`, \
                      on a field `opaque`";
    assert_eq!(schema_error("struct Page<#[schema(opaque)] T>(T);"), parameters);
}

#[test]
fn unknown_attribute_is_refused_with_the_known_ones() {
    let of_type = |kind: &str, name: &str| {
        format!("unknown `{name}` in `#[{kind}(…)]`: a type takes `name` and `version`")
    };
    assert_eq!(key_error("#[key(nmae = \"x\")] struct Key;"), of_type("key", "nmae"));
    assert_eq!(schema_error("#[schema(opaque)] struct Page;"), of_type("schema", "opaque"));
    let of_field = "unknown `typo` in `#[schema(…)]`: a field takes `opaque`";
    for attributes in ["#[schema(typo)]", "#[schema(opaque, typo)]", "#[schema(opaque)] #[schema(typo)]"] {
        assert_eq!(
            schema_error(&format!("struct Page {{ {attributes} of: u64 }}")),
            of_field,
            "{attributes}"
        );
    }
}

#[test]
fn repeated_attribute_is_refused() {
    let twice = |name: &str| format!("`{name}` is given more than once");
    assert_eq!(key_error("#[key(name = \"x\", name = \"y\")] struct Key;"), twice("name"));
    assert_eq!(key_error("#[key(version = 1)] #[key(version = 1)] struct Key;"), twice("version"));
    assert_eq!(schema_error("#[schema(name = \"x\", name = \"x\")] struct Page;"), twice("name"));
    assert_eq!(schema_error("struct Page(#[schema(opaque, opaque)] u64);"), twice("opaque"));
}

#[test]
fn version_out_of_range_is_refused_with_value_and_range() {
    for version in ["-1", "4294967296", "99999999999999999999"] {
        let expected = format!("version {version} is out of range: 0 to 4294967295");
        assert_eq!(key_error(&format!("#[key(version = {version})] struct Key;")), expected);
        assert_eq!(schema_error(&format!("#[schema(version = {version})] struct Page;")), expected);
    }
    for version in ["\"2\"", "1.5", "true"] {
        let expected = format!("version {version} is no integer from 0 to 4294967295");
        assert_eq!(key_error(&format!("#[key(version = {version})] struct Key;")), expected);
    }
    let expected = "a version is a literal integer from 0 to 4294967295";
    assert_eq!(key_error("#[key(version = NEXT)] struct Key;"), expected);
}

#[test]
fn schema_that_contains_itself_is_refused_with_a_hint() {
    let expected = "the schema of `Tree` would contain itself: mark this field with `#[schema(opaque)]`";
    for input in [
        "struct Tree { next: Option<Box<Tree>> }",
        "struct Tree<T>(T, Vec<Tree<T>>);",
        "enum Tree { Leaf, Fork(Box<[Self; 2]>) }",
        "struct Tree { branches: std::collections::BTreeMap<String, (u8, std::sync::Arc<Tree>)> }",
        "struct Tree<'a> { next: &'a Tree<'a> }",
    ] {
        assert_eq!(schema_error(input), expected, "{input}");
    }
    for input in [
        "struct Tree { #[schema(opaque)] next: Option<Box<Tree>> }",
        // The schema of another type may not depend on its parameter.
        "struct Tree { id: Id<Tree> }",
        "struct Tree { former: former::Tree }",
        "struct Tree<Tree>(Tree);",
    ] {
        let input: DeriveInput = parse_str(input).expect("a type");
        assert!(schema::expand(&input).is_ok());
    }
}

#[test]
fn option_of_a_cached_function_without_effect_is_refused() {
    let function = "async fn f(cache: &Cache, a: u8) -> Result<u8, ()> { Ok(a) }";
    for (options, expected) in [
        (
            "",
            "a cached function has the name of its view, which stays when it is renamed: `view = \"price\"`",
        ),
        ("view = \"a:b\"", "the name of a view is a text without ':' and '/'"),
        ("view = \"\"", "the name of a view is a text without ':' and '/'"),
        ("view = NAME", "the name of a view is a text without ':' and '/'"),
        ("view = \"v\", view = \"v\"", "`view` is given more than once"),
        ("view = \"v\", ttl = \"1s\", grace = \"1s\", ttl = \"1s\"", "`ttl` is given more than once"),
        ("view = \"v\", tags = \"a\"", "tags are a list: `tags = [\"shop:{shop}\"]`"),
        (
            "view = \"v\", key = ()",
            "a key has at least one argument; without `key` all arguments are its parts",
        ),
        ("view = \"v\", key = 1", "`1` names no argument for the key; the function has `a`"),
        ("view = \"v\", key = cache", "`cache` names no argument for the key; the function has `a`"),
        (
            "view = \"v\", time = 60",
            "unknown `time` in `#[cached(…)]`: it takes `view`, `key`, `tags`, `ttl`, `negative_ttl`, `grace`, \
             `retry_after`, `soft_timeout`, `hard_timeout`, `jitter` and `refresh_ahead`",
        ),
    ] {
        assert_eq!(cached_error(options, function), expected, "{options}");
    }
}

#[test]
fn function_that_cannot_be_cached_is_refused() {
    let parameters = "a cached function has no type parameters, since its view has one type of values";
    let pattern = "an argument of a cached function is a name: take it apart in the body";
    let stored = "the value of a cached function is stored: name its type, which borrows nothing";
    let result = "a cached function returns a `Result`, or an alias of one whose name ends with it";
    let cache = "a cached function has an argument of type `&Cache` or `&LocalCache`";
    for (function, expected) in [
        ("fn f(cache: &Cache) -> Result<u8, ()> {}", "a cached function is `async`"),
        ("async unsafe fn f(cache: &Cache) -> Result<u8, ()> {}", "a cached function is not `unsafe`"),
        ("async fn f<T>(cache: &Cache) -> Result<T, ()> {}", parameters),
        ("async fn f<const N: u8>(cache: &Cache) -> Result<u8, ()> {}", parameters),
        ("async fn f(cache: &Cache, (a, b): (u8, u8)) -> Result<u8, ()> {}", pattern),
        ("async fn f(cache: &Cache, one: &Cache) -> Result<u8, ()> {}", "a cached function has one cache"),
        ("async fn f(cache: &Store) -> Result<u8, ()> {}", cache),
        ("async fn f(cache: &Cache)", result),
        ("async fn f(cache: &Cache) -> Option<Result<u8, ()>>", result),
        ("async fn f(cache: &Cache) -> (u8, ())", result),
        ("async fn f<'a>(cache: &'a Cache) -> Result<&'a str, ()> {}", stored),
        ("async fn f<'a>(cache: &'a Cache) -> Result<Cow<'a, str>, ()> {}", stored),
        ("async fn f(cache: &Cache) -> Result<impl Sized, ()> {}", stored),
        (
            "async fn f(cache: &Cache, a: &mut u8) -> Result<u8, ()> {}",
            "the loader of a cached function runs in a task of its own, which cannot borrow mutably",
        ),
        (
            "async fn f(cache: &Cache, a: &impl Db) -> Result<u8, ()> {}",
            "a cached function has no type parameters, since its view has one type of values: name the type",
        ),
        (
            "async fn f(cache: &Cache, a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8, i: u8) \
             -> Result<u8, ()> {}",
            "a key has at most 8 parts: name those that it consists of with `key`, or derive `CacheKey` for a type that \
             has them",
        ),
    ] {
        let function = if function.ends_with('}') { function.to_owned() } else { format!("{function} {{}}") };
        assert_eq!(cached_error("view = \"v\"", &function), expected, "{function}");
    }
    let lends = "the loader of a cached function owns its arguments, and cannot own a borrow inside of a type: pass a \
                 reference, such as `&str`, or an owned value";
    for argument in ["Option<&str>", "Cow<'a, str>", "&'a [&'a str]", "(u8, &'static [&'a str])"] {
        let function = format!("async fn f<'a>(cache: &Cache, a: {argument}) -> Result<u8, ()> {{}}");
        assert_eq!(cached_error("view = \"v\"", &function), lends, "{argument}");
    }
    for argument in ["&'static [&'static str]", "Option<Cow<'static, str>>", "&'a [u8]"] {
        let function = format!("async fn f<'a>(cache: &Cache, a: {argument}) -> Result<u8, ()> {{}}");
        let function: ItemFn = parse_str(&function).expect("a function");
        let options = parse_str("view = \"v\"").expect("tokens");
        assert!(cached::expand(options, &function).is_ok(), "{argument}");
    }
}
