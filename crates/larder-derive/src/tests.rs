//! What the macros refuse, and with which message.

use crate::{key, schema};
use syn::{DeriveInput, parse_str};

fn key_error(input: &str) -> String {
    let input: DeriveInput = parse_str(input).expect("a type");
    key::expand(&input).expect_err("must be refused").to_string()
}

fn schema_error(input: &str) -> String {
    let input: DeriveInput = parse_str(input).expect("a type");
    schema::expand(&input).expect_err("must be refused").to_string()
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
