//! Functions that cannot be cached: the compiler says why, at the part that is at fault.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

/// Each is compiled alone. `^` is below the column of the fault, and what the compiler says follows.
const FAULTY: [&str; 13] = [
    r#"
#[larder::cached(view = "v")]
pub async fn no_cache(id: u64) -> Result<u64, ()> { Ok(id) }
             ^ a cached function has an argument of type `&Cache` or `&LocalCache`
"#,
    r#"
#[larder::cached(view = "v", tll = "5m")]
                             ^ unknown `tll` in `#[cached(…)]`: it takes `view`, `key`, `tags`, `ttl`
pub async fn unknown(cache: &larder::Cache) -> Result<u64, ()> { Ok(1) }
"#,
    r#"
#[larder::cached(view = "v", key = (id, shp))]
                                        ^ `shp` names no argument for the key; the function has `id`
pub async fn no_argument(cache: &larder::Cache, id: u64) -> Result<u64, ()> { Ok(id) }
"#,
    r#"
#[larder::cached(view = "v", tags = ["shop:{shp}"])]
                                            ^ cannot find value `shp` in this scope
pub async fn no_tag(cache: &larder::Cache, id: u64) -> Result<u64, ()> { Ok(id) }
"#,
    r#"
pub struct Service;
impl Service {
    #[larder::cached(view = "v")]
    pub async fn method(&self, cache: &larder::Cache) -> Result<u64, ()> { Ok(1) }
                        ^ a method cannot be cached: its loader would have to own `self`
}
"#,
    r#"
#[larder::cached(view = "v")]
pub async fn inner_borrow(cache: &larder::Cache, id: Option<&str>) -> Result<u64, ()> { Ok(1) }
                                                     ^ the loader of a cached function owns its arguments
"#,
    r#"
pub struct Unclonable;
#[larder::cached(view = "v", key = id)]
pub async fn no_clone(cache: &larder::Cache, one: &Unclonable, id: u64) -> Result<u64, ()> { Ok(id) }
                                                  ^ the trait bound `Unclonable: Clone` is not satisfied
"#,
    r#"
#[larder::cached(view = "v")]
pub async fn no_key(cache: &larder::Cache, factor: f64) -> Result<u64, ()> { Ok(1) }
                                           ^ `f64` cannot be the key of a view
"#,
    r#"
#[larder::cached(view = "v", key = id)]
pub async fn not_send(cache: &larder::Cache, rc: std::rc::Rc<u64>, id: u64) -> Result<u64, ()> { Ok(id) }
                                             ^ `Rc<u64>` cannot be sent between threads safely
"#,
    r#"
#[larder::cached(view = "v")]
pub async fn no_result(cache: &larder::Cache) -> Option<u64> { Some(1) }
                                                 ^ a cached function returns a `Result`, or an alias of one whose name ends with it
"#,
    r#"
pub struct Unserializable;
#[larder::cached(view = "v")]
pub async fn no_serde(cache: &larder::Cache) -> Result<Unserializable, ()> { Ok(Unserializable) }
                                                       ^ the trait bound `Unserializable: serde::Serialize` is not satisfied
"#,
    r#"
pub struct Cache;
#[larder::cached(view = "v")]
pub async fn other_cache(cache: &Cache) -> Result<u64, ()> { Ok(1) }
                                 ^ `Cache` is no cache for a function
"#,
    r#"
#[larder::cached(view = "v", ttl = "5 minutes")]
                             ^ `ttl` must be a time such as 250ms, 30s or 5m, from 1 ms to 8,900 years
pub async fn no_time(cache: &larder::Cache) -> Result<u64, ()> { Ok(1) }
"#,
];

#[test]
fn fault_is_reported_where_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    for faulty in FAULTY {
        let is_mark = |line: &&str| line.trim_start().starts_with('^');
        let marked = faulty.lines().position(|line| is_mark(&line)).expect("a mark");
        let mark = faulty.lines().nth(marked).expect("the mark");
        let (indent, message) = mark.split_once("^ ").expect("a message");
        let code: Vec<&str> = faulty.lines().filter(|line| !is_mark(line)).collect();
        let errors = errors(folder.path(), &code.join("\n"));
        let place = format!("lib.rs:{marked}:{}: error", indent.len() + 1);
        let is_reported = errors.lines().any(|error| error.contains(&place) && error.contains(message));
        assert!(is_reported, "no {place:?} with {message:?} in:\n{errors}");
    }
}

/// What the compiler says to a crate that uses this build of the library.
fn errors(folder: &Path, code: &str) -> String {
    let source = folder.join("lib.rs");
    std::fs::write(&source, code).expect("written");
    let program = std::env::current_exe().expect("this program");
    let built = program.parent().expect("its folder");
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=lib", "--emit=metadata", "--error-format=short"])
        .arg(format!("--extern=larder={}", newest_library(built).display()))
        .arg(format!("-Ldependency={}", built.display()))
        .arg("--out-dir")
        .arg(folder)
        .arg(&source)
        .output()
        .expect("there is a compiler");
    assert!(!output.status.success(), "it compiles: {code}");
    String::from_utf8(output.stderr).expect("a text")
}

/// The library that this program was built with: the last one that was built.
fn newest_library(built: &Path) -> PathBuf {
    let files = std::fs::read_dir(built).expect("a folder").map(|file| file.expect("an entry").path());
    let libraries = files.filter(|file| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("liblarder-") && name.ends_with(".rlib")
    });
    let built_at =
        |file: &PathBuf| file.metadata().and_then(|data| data.modified()).unwrap_or(SystemTime::UNIX_EPOCH);
    libraries.max_by_key(built_at).expect("the library is built before its tests")
}
