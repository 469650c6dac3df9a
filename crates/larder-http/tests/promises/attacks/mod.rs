//! Attacks on a cache that answers for a service, one test each. `docs/attacks.md` lists them with what the layer does,
//! also those that other promises withstand.
//!
//! - `poisoning`: a response that one client provokes never reaches another.
//! - `floods`: no request makes the layer hold, read or send more than its limits.
//! - `connections`: the same over HTTP/1.1 and HTTP/2 as clients speak them, byte by byte.

mod connections;
mod floods;
mod poisoning;

/// The tests that `docs/attacks.md` names: a module path in backticks.
#[test]
fn every_test_named_by_the_page_exists() {
    let page = include_str!("../../../../../docs/attacks.md");
    let named: Vec<_> = page.split('`').skip(1).step_by(2).filter(|name| name.contains("::")).collect();
    assert!(named.len() > 50, "{} tests", named.len());
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in named {
        let (module, test) = name.rsplit_once("::").unwrap();
        let file = module.replace("::", "/") + ".rs";
        let sources = [root.join("tests/promises").join(&file), root.join("src").join(&file)];
        let text: String = sources.iter().filter_map(|source| std::fs::read_to_string(source).ok()).collect();
        assert!(text.contains(&format!("fn {test}(")), "docs/attacks.md names {name}, which does not exist");
    }
}
