//! Derived keys have bytes that stay; derived schemas change when a type does; cached functions load once.
#![cfg(feature = "derive")]

mod cached;
mod compile_errors;

use larder::{Cache, CacheKey, Schema, View};
use larder_testkit::RedisServer;
use std::borrow::Cow;
use std::time::Duration;

#[derive(CacheKey)]
struct Plain {
    id: u64,
    language: &'static str,
}

#[derive(CacheKey)]
#[key(name = "post", version = 2)]
struct Named<T>(T, Option<bool>);

#[derive(CacheKey)]
enum Which {
    All,
    One(u32),
    Both { left: String, right: String },
}

#[derive(CacheKey)]
struct Unit;

#[derive(CacheKey)]
enum r#Type {
    r#Async { r#fn: u8 },
}

/// Writes under each key and returns the names that Redis has.
async fn names<const N: usize>(keys: [&dyn Fn(&mut larder::KeyBuf); N], server: &RedisServer) -> Vec<String> {
    struct Any<'a>(&'a dyn Fn(&mut larder::KeyBuf));
    impl CacheKey for Any<'_> {
        fn write_key(&self, out: &mut larder::KeyBuf) {
            (self.0)(out);
        }
    }
    let cache =
        Cache::builder("t").ttl(Duration::from_secs(60)).redis(server.url()).build().expect("valid options");
    let view: View<Any<'_>, u8> = cache.view("v");
    let mut names = Vec::new();
    for key in keys {
        server.command("FLUSHALL");
        assert!(view.write(&Any(key), 1).await.expect("written").is_everywhere());
        let reply = server.command("KEYS t:v:*");
        names.push(reply.lines().last().expect("one key").trim_start_matches("t:v:").to_owned());
    }
    names
}

#[tokio::test]
async fn derived_keys_match_documentation() {
    let Some(server) = RedisServer::start() else { return };
    let left_right = |left: &str, right: &str| Which::Both { left: left.into(), right: right.into() };
    let names = names(
        [
            &|out| Plain { id: 42, language: "en" }.write_key(out),
            &|out| Named("x", Some(true)).write_key(out),
            &|out| Named(7_u8, None).write_key(out),
            &|out| Which::All.write_key(out),
            &|out| Which::One(5).write_key(out),
            &|out| left_right("a:1=b", "").write_key(out),
            &|out| left_right("a", "1=b").write_key(out),
            &|out| Unit.write_key(out),
            &|out| r#Type::r#Async { r#fn: 3 }.write_key(out),
        ],
        &server,
    )
    .await;
    let wanted = [
        "Plain@1:2=42:2=en",
        "post@2:1=x:5=+true",
        "post@2:1=7:1=-",
        "Which@1/All",
        "Which@1/One:1=5",
        "Which@1/Both:5=a:1=b:0=",
        "Which@1/Both:1=a:3=1=b",
        "Unit@1",
        "Type@1/Async:1=3",
    ];
    assert_eq!(names, wanted);
}

mod versions {
    use larder::Schema;

    macro_rules! version {
        ($name:ident, $version:literal, $($body:tt)*) => {
            pub(crate) mod $name {
                #[derive(larder::Schema)]
                #[schema(version = $version)]
                #[allow(dead_code, reason = "only their forms matter")]
                pub(crate) struct Page $($body)*
            }
        };
    }
    version!(first, 0, { title: String, seen: u32 });
    version!(same, 0, { title: Box<str>, seen: u32 });
    version!(renamed, 0, { heading: String, seen: u32 });
    version!(retyped, 0, { title: String, seen: u64 });
    version!(reordered, 0, { seen: u32, title: String });
    version!(longer, 0, { title: String, seen: u32, draft: bool });
    version!(optional, 0, { title: Option<String>, seen: u32 });
    version!(raised, 1, { title: String, seen: u32 });
    version!(tuple, 0, (String, u32););
    version!(opaque, 0, { #[schema(opaque)] title: std::rc::Rc<()>, seen: u32 });

    pub(crate) const ALL: [(&str, u64); 9] = [
        ("first", first::Page::SCHEMA),
        ("renamed", renamed::Page::SCHEMA),
        ("retyped", retyped::Page::SCHEMA),
        ("reordered", reordered::Page::SCHEMA),
        ("longer", longer::Page::SCHEMA),
        ("optional", optional::Page::SCHEMA),
        ("raised", raised::Page::SCHEMA),
        ("tuple", tuple::Page::SCHEMA),
        ("opaque", opaque::Page::SCHEMA),
    ];
}

#[test]
fn type_change_changes_schema() {
    for (at, (name, schema)) in versions::ALL.iter().enumerate() {
        for (other, other_schema) in &versions::ALL[..at] {
            assert_ne!(schema, other_schema, "{name}, {other}");
        }
    }
    assert_eq!(
        versions::first::Page::SCHEMA,
        versions::same::Page::SCHEMA,
        "an owner adds nothing to the form"
    );
}

mod raw {
    #[derive(larder::Schema)]
    #[allow(dead_code, reason = "only its form matters")]
    pub(crate) struct r#Page {
        r#title: String,
        r#seen: u32,
    }
}

#[test]
fn raw_identifier_has_the_schema_of_its_name() {
    assert_eq!(raw::Page::SCHEMA, versions::first::Page::SCHEMA);
}

/// The key of a pair whose second type is known by the first only.
#[derive(CacheKey)]
struct Window<I: Iterator>(u8, I::Item, Option<<I as IntoIterator>::Item>);

#[derive(Schema)]
#[allow(dead_code, reason = "only its form matters")]
struct Items<I: Iterator> {
    all: Vec<I::Item>,
}

/// The parameters themselves are no keys and have no schemas.
#[test]
fn field_of_an_associated_type_needs_no_bound_on_its_parameter() {
    fn accepts<K: CacheKey>(_: K) {}
    accepts(Window::<std::vec::IntoIter<u32>>(1, 2, None));
    assert_ne!(Items::<std::vec::IntoIter<u8>>::SCHEMA, Items::<std::vec::IntoIter<u16>>::SCHEMA);
}

#[test]
fn cow_has_the_schema_of_its_target() {
    assert_eq!(Cow::<'_, str>::SCHEMA, String::SCHEMA);
    assert_eq!(Cow::<'_, [u8]>::SCHEMA, <Vec<u8>>::SCHEMA);
}

#[derive(Schema)]
#[allow(dead_code, reason = "only its form matters")]
enum Tree<T> {
    Leaf(T),
    Fork {
        #[schema(opaque)]
        branches: Vec<Tree<T>>,
    },
}

#[test]
fn inner_type_change_changes_outer_schema() {
    assert_ne!(Tree::<u8>::SCHEMA, Tree::<u16>::SCHEMA);
    assert_ne!(<Vec<Option<u8>>>::SCHEMA, <Option<Vec<u8>>>::SCHEMA);
    assert_ne!(<(u8, (u8, u8))>::SCHEMA, <(u8, u8, u8)>::SCHEMA);
    // These bytes are stored with every value: they may not depend on the build.
    assert_eq!(<Option<u32>>::SCHEMA, 7_426_187_646_503_863_846);
}

mod deployed {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, larder::Schema)]
    pub(crate) struct Page {
        pub(crate) visits: u32,
        pub(crate) likes: u32,
    }
}

mod deploying {
    #[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, larder::Schema)]
    pub(crate) struct Page {
        pub(crate) likes: u32,
        pub(crate) visits: u32,
    }
}

/// Both would read the other's bytes without an error, and wrongly.
#[tokio::test]
async fn program_versions_do_not_read_each_other() {
    let Some(server) = RedisServer::start() else { return };
    let node = || {
        Cache::builder("t").ttl(Duration::from_secs(60)).redis(server.url()).build().expect("valid options")
    };
    let old: View<str, deployed::Page> = node().view("pages").with_derived_schema();
    let new: View<str, deploying::Page> = node().view("pages").with_derived_schema();
    assert!(old.write("a", deployed::Page { visits: 1, likes: 2 }).await.expect("written").is_everywhere());
    assert!(new.read("a").await.is_none());
    let loaded = new.fetch("a").load(|_| async { Ok(deploying::Page { likes: 2, visits: 1 }) }).await;
    assert_eq!(*loaded.expect("loads"), deploying::Page { likes: 2, visits: 1 });
    let again: View<str, deployed::Page> = node().view("pages").with_derived_schema();
    assert!(again.read("a").await.is_none_or(|page| *page == deployed::Page { visits: 1, likes: 2 }));
}
