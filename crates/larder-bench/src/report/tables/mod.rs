//! The tables of results in the Markdown pages, each between two markers: generated from the files in `docs/results`.

mod figures;
mod proxy;
mod scale;
mod stale;

use super::documents;
use crate::result::ResultFile;
use anyhow::{Context, Result, ensure};

/// Makes the text between the markers of a table.
type Generator = fn(&[ResultFile]) -> Result<String>;

/// The names of the tables in the markers `<!-- NAME: begin -->` and `<!-- NAME: end -->`.
const TABLES: [(&str, Generator); 10] = [
    ("headline", figures::headline),
    ("figures", figures::all),
    ("stale", stale::table),
    ("stale-processes", stale::of_processes),
    ("documents", documents::tables),
    ("proxy-costs", proxy::costs),
    ("proxy-scores", proxy::scores),
    ("scale-constants", scale::constants),
    ("scale-model", scale::model),
    ("scale-measured", scale::measured),
];

/// The page with the tables of these results in place of those that it has.
///
/// # Errors
/// If the page has no markers, or a table has no figures.
pub(crate) fn update(page: &str, files: &[ResultFile]) -> Result<String> {
    let (mut page, mut has_tables) = (page.to_owned(), false);
    for (name, table) in TABLES {
        let (begin, end) = (format!("<!-- {name}: begin -->\n"), format!("<!-- {name}: end -->"));
        let Some(start) = page.find(&begin).map(|start| start + begin.len()) else { continue };
        let stop = page[start..].find(&end).with_context(|| format!("there is no line {end}"))? + start;
        page = [&page[..start], &table(files)?, &page[stop..]].concat();
        has_tables = true;
    }
    ensure!(has_tables, "there is no table between markers such as <!-- figures: begin -->");
    Ok(page)
}

/// The results of a suite.
fn result_of<'a>(files: &'a [ResultFile], suite: &str) -> Result<&'a ResultFile> {
    files.iter().find(|file| file.suite == suite).with_context(|| format!("there are no results of {suite}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};
    use std::path::Path;

    #[test]
    fn update_replaces_what_is_between_the_markers() {
        let rate = |subject, rate| figure("siege-one-slug", subject, "rate", Better::Higher, &[rate]);
        let figures = vec![rate("SQLite", 5_000.0), rate("larder", 9_000.0)];
        let result = ResultFile { suite: "document-0".to_owned(), ..file(figures) };
        let page = "before\n<!-- documents: begin -->\nold\n<!-- documents: end -->\nafter\n";
        let page = update(page, &[result]).unwrap();
        assert!(page.starts_with("before\n") && page.ends_with("after\n") && !page.contains("old"));
        let here = page.lines().find(|line| line.contains("| SQLite, here |")).unwrap();
        assert!(here.contains("| 5,000 |"), "{here}");
        assert!(
            page.contains("| larder, here |")
                && page.contains("Not measured yet: `larder-bench run document-4`")
        );
        assert!(update("no markers", &[]).is_err());
    }

    /// `cargo xtask docs` writes them.
    #[test]
    fn pages_have_the_tables_of_the_committed_results() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let files = ResultFile::read_all(&root.join("docs/results")).unwrap();
        for name in ["README.md", "docs/bench.md", "docs/documents.md", "docs/scale.md"] {
            let page = std::fs::read_to_string(root.join(name)).unwrap();
            assert!(
                update(&page, &files).unwrap() == page,
                "{name} differs from docs/results: cargo xtask docs"
            );
        }
    }
}
