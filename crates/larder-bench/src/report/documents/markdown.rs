//! The tables of the documents in `docs/documents.md`, between its markers: generated from the results in `docs/results`.

use super::rows::lines;
use super::{heading, result_of};
use crate::result::ResultFile;
use crate::suite::documents::{Document, Table};
use anyhow::{Context, Result};
use std::fmt::Write;

const BEGIN: &str = "<!-- documents: begin -->\n";
const END: &str = "<!-- documents: end -->";

/// The page with the tables of these results in place of those that it has.
///
/// # Errors
/// If the page has no markers.
pub(crate) fn update(page: &str, files: &[ResultFile]) -> Result<String> {
    let start =
        page.find(BEGIN).with_context(|| format!("there is no line {}", BEGIN.trim_end()))? + BEGIN.len();
    let end = page[start..].find(END).with_context(|| format!("there is no line {END}"))? + start;
    Ok([&page[..start], &tables(files)?, &page[end..]].concat())
}

fn tables(files: &[ResultFile]) -> Result<String> {
    let mut text = String::new();
    for number in 0..Document::COUNT {
        let (document, result) = (Document::read(number)?, result_of(files, number));
        write!(text, "\n### {number}. {}\n\n{}, {}. ", document.title, document.author, document.published)?;
        match result {
            Some(file) => writeln!(text, "{}", run(file, number))?,
            None => writeln!(text, "Not measured yet: `larder-bench run document-{number}`.")?,
        }
        for table in document.tables.iter().filter(|table| table.not_here.is_none()) {
            write!(text, "\n{}: {}.\n\n{}", table.title, table.setup, rows(table, result)?)?;
        }
    }
    Ok(text + "\n")
}

/// Where the figures come from.
fn run(file: &ResultFile, number: usize) -> String {
    let commit = file.commit.as_deref().unwrap_or("unknown");
    let (processor, threads) = (&file.machine.processor, file.machine.threads);
    let quick = if file.quick { " --quick" } else { "" };
    format!(
        "[`larder-bench run document-{number}{quick}`](results/document-{number}.json), {}, commit {commit}, {processor}, \
         {threads} threads.",
        file.date
    )
}

fn rows(table: &Table, result: Option<&ResultFile>) -> Result<String> {
    let headings: Vec<String> = table.columns.iter().map(heading).collect();
    let mut text = format!("| | | {} |\n|---|---|{}\n", headings.join(" | "), "---|".repeat(headings.len()));
    for row in &table.rows {
        for (index, line) in lines(table, row, result).into_iter().enumerate() {
            let name = if index == 0 { cell(&row.name) } else { String::new() };
            let who = [vec![line.who], line.remarks].concat().join("; ");
            let cells: Vec<String> = line.cells.iter().map(|text| cell(text)).collect();
            writeln!(text, "| {name} | {} | {} |", cell(&who), cells.join(" | "))?;
        }
    }
    Ok(text)
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|")
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
        let page = format!("before\n{BEGIN}old\n{END}\nafter\n");
        let page = update(&page, &[result]).unwrap();
        assert!(page.starts_with("before\n") && page.ends_with("after\n") && !page.contains("old"));
        let here = page.lines().find(|line| line.contains("| SQLite, here |")).unwrap();
        assert!(here.contains("| 5,000 |"), "{here}");
        assert!(
            page.contains("| larder, here |")
                && page.contains("Not measured yet: `larder-bench run document-4`")
        );
        assert!(update("no markers", &[]).is_err());
    }

    /// `cargo xtask docs` writes it.
    #[test]
    fn page_has_the_tables_of_the_committed_results() {
        let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let files = ResultFile::read_all(&docs.join("results")).unwrap();
        let page = std::fs::read_to_string(docs.join("documents.md")).unwrap();
        assert!(
            update(&page, &files).unwrap() == page,
            "docs/documents.md differs from docs/results: cargo xtask docs"
        );
    }
}
