//! Tests of the check of layers on small crates of a few lines.

use super::crate_faults;
use super::crates::{CrateLayers, Exception};
use super::graph::Graph;
use super::source::{Module, read};

const LAYERS: &[(&str, &[&str])] = &[("low", &["a", "b"]), ("high", &["c"])];

/// The modules of a crate whose files are given with their text. Children need files of their own.
fn modules(files: &[(&str, &str)]) -> Vec<Module> {
    let module = |(file, text): &(&str, &str)| {
        let stem = file.trim_end_matches(".rs").trim_end_matches("/mod");
        let path: Vec<String> = match stem {
            "lib" => Vec::new(),
            stem => stem.split('/').map(str::to_owned).collect(),
        };
        read(file, &path, text.parse().expect("the test is Rust")).0
    };
    files.iter().map(module).collect()
}

fn faults(exceptions: &'static [Exception], files: &[(&str, &str)]) -> Vec<String> {
    let list = CrateLayers { name: "x", layers: LAYERS, exceptions };
    let mut all = vec![("lib.rs", "mod a; mod b; mod c;")];
    all.extend(files);
    for (file, text) in [("a.rs", ""), ("b.rs", ""), ("c.rs", "")] {
        if !files.iter().any(|(other, _)| *other == file) {
            all.push((file, text));
        }
    }
    crate_faults(&list, &Graph::new(&modules(&all)))
}

#[test]
fn upward_arrow_is_reported_with_line_and_layers() {
    let found = faults(&[], &[("a.rs", "use crate::b;\nuse crate::c::Thing;"), ("c.rs", "struct Thing;")]);
    assert_eq!(found, ["crates/x/src/a.rs:2: layer low uses c.rs of layer high, which is higher"]);
}

#[test]
fn inline_paths_super_paths_and_macros_are_arrows() {
    for text in ["fn f() { crate::c::g() }", "fn f() { super::c::g() }", "fn f() { vec![crate::c::g()]; }"] {
        assert_eq!(faults(&[], &[("a.rs", text)]).len(), 1, "{text}");
    }
}

#[test]
fn lists_in_braces_and_new_names_are_arrows() {
    for text in ["use crate::{b, c::{self, Thing}};", "use crate::c as other;", "use crate::c::*;"] {
        assert_eq!(faults(&[], &[("a.rs", text)]).len(), 1, "{text}");
    }
}

#[test]
fn name_that_the_root_exports_belongs_to_its_file() {
    let files = [("a.rs", "use crate::Thing;"), ("c.rs", "pub struct Thing;")];
    let list = CrateLayers { name: "x", layers: LAYERS, exceptions: &[] };
    let root = ("lib.rs", "mod a; mod b; mod c; pub use c::Thing;");
    let all: Vec<_> = [root, ("b.rs", "")].into_iter().chain(files).collect();
    assert_eq!(crate_faults(&list, &Graph::new(&modules(&all))).len(), 1);
}

#[test]
fn tests_and_comments_have_no_arrows() {
    let text = "//! See [`crate::c`].\n#[cfg(test)]\nmod tests { use crate::c; }\n#[cfg(test)]\nuse crate::c::Thing;";
    assert_eq!(faults(&[], &[("a.rs", text)]), [""; 0]);
}

#[test]
fn circle_is_reported_unless_it_is_excepted() {
    let files = [("a.rs", "use crate::b::B; struct A;"), ("b.rs", "use crate::a::A; struct B;")];
    let found = faults(&[], &files);
    assert_eq!(found, ["crates/x/src: 2 files form a circle: a.rs:1 → b.rs, b.rs:1 → a.rs"]);
    assert_eq!(faults(&[Exception::Circle { files: &["a.rs", "b.rs"] }], &files), [""; 0]);
}

#[test]
fn larger_circle_than_the_excepted_one_is_reported_with_the_exception() {
    let files = [("a.rs", "use crate::b::B; struct A;"), ("b.rs", "use crate::a::A; struct B;")];
    let found = faults(&[Exception::Circle { files: &["a.rs"] }], &files);
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn parent_and_its_child_may_use_each_other() {
    let files = [
        ("a/mod.rs", "mod child; use child::Child; pub(crate) struct A;"),
        ("a/child.rs", "use super::A; struct Child;"),
    ];
    let list = CrateLayers { name: "x", layers: &[("low", &["a"])], exceptions: &[] };
    let all: Vec<_> = [("lib.rs", "mod a;")].into_iter().chain(files).collect();
    assert_eq!(crate_faults(&list, &Graph::new(&modules(&all))), [""; 0]);
}

#[test]
fn siblings_that_use_each_other_through_their_parent_form_a_circle() {
    let files = [
        ("a/mod.rs", "mod one; mod two; pub(crate) use one::One; pub(crate) use two::Two;"),
        ("a/one.rs", "use super::Two; struct One;"),
        ("a/two.rs", "use super::One; struct Two;"),
    ];
    let list = CrateLayers { name: "x", layers: &[("low", &["a"])], exceptions: &[] };
    let all: Vec<_> = [("lib.rs", "mod a;")].into_iter().chain(files).collect();
    assert_eq!(crate_faults(&list, &Graph::new(&modules(&all))).len(), 1);
}

#[test]
fn exception_for_what_does_not_exist_is_reported() {
    assert_eq!(faults(&[Exception::Circle { files: &["a.rs", "b.rs"] }], &[]).len(), 1);
}

#[test]
fn module_without_layer_and_layer_without_module_are_reported() {
    let list = CrateLayers { name: "x", layers: &[("low", &["gone"])], exceptions: &[] };
    let found = crate_faults(&list, &Graph::new(&modules(&[("lib.rs", "mod a;"), ("a.rs", "")])));
    assert_eq!(found.len(), 2, "{found:?}");
}
