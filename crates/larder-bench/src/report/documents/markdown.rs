//! The tables of the documents in `docs/documents.md`.

use super::rows::lines;
use super::{heading, result_of};
use crate::result::ResultFile;
use crate::suite::documents::{Document, Table};
use anyhow::Result;
use std::fmt::Write;

pub(crate) fn tables(files: &[ResultFile]) -> Result<String> {
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
