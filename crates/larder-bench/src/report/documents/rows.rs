//! The rows of a document's table as text: what the document printed, its design here, and Larder here.

use super::OURS;
use crate::result::ResultFile;
use crate::result::text::{format_number, format_spread};
use crate::suite::documents::{Column, Row, Table};

/// A row of figures.
#[derive(Debug, PartialEq)]
pub(super) struct Line {
    pub(super) kind: Kind,
    /// Whose figures these are.
    pub(super) who: String,
    /// What was noticed when they were measured.
    pub(super) remarks: Vec<String>,
    /// One for each column of the table.
    pub(super) cells: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// As the document prints it.
    Document,
    /// The design of the document, measured here.
    Again,
    Larder,
}

/// A row of the document, and the rows below it that were measured here.
pub(super) fn lines(table: &Table, row: &Row, result: Option<&ResultFile>) -> Vec<Line> {
    let cells = row.values.clone();
    let mut lines =
        vec![Line { kind: Kind::Document, who: "document".to_owned(), remarks: Vec::new(), cells }];
    if let Some(file) = result.filter(|_| table.not_here.is_none()) {
        let counterparts = table.columns.iter().filter_map(|column| table.counterpart(row, column));
        let subjects: Vec<&str> = counterparts.map(|of| of.subject_in(file)).collect();
        let is_uniform = subjects.windows(2).all(|pair| pair[0] == pair[1]);
        lines.push(Line {
            kind: if is_uniform && subjects[0] == OURS { Kind::Larder } else { Kind::Again },
            who: if is_uniform { format!("{}, here", subjects[0]) } else { "here".to_owned() },
            remarks: remarks(table, row, file),
            cells: cells_of(table, row, file, None),
        });
        if !subjects.contains(&OURS) {
            let cells = cells_of(table, row, file, Some(OURS));
            lines.push(Line {
                kind: Kind::Larder,
                who: "larder, here".to_owned(),
                remarks: Vec::new(),
                cells,
            });
        }
    }
    lines
}

/// What was noticed when the designs of a row were measured.
fn remarks(table: &Table, row: &Row, file: &ResultFile) -> Vec<String> {
    let is_of_row = |workload: &str, subject: &str| {
        let mut counterparts = table.columns.iter().filter_map(|column| table.counterpart(row, column));
        counterparts.any(|of| of.workload == workload && of.subject_in(file) == subject)
    };
    let remarks = file.remarks.iter().filter(|remark| is_of_row(&remark.workload, &remark.subject));
    remarks.map(|remark| remark.text.clone()).collect()
}

/// The figures here of each column of a row, of the design of the document or of another subject.
fn cells_of(table: &Table, row: &Row, file: &ResultFile, other: Option<&str>) -> Vec<String> {
    let cell = |column: &Column| {
        let of = table.counterpart(row, column)?;
        let subject = other.unwrap_or_else(|| of.subject_in(file));
        let Some(figure) = file.find(of.workload, of.measure, subject) else { return Some("–".to_owned()) };
        let unit = if column.unit.is_empty() { format!(" {}", figure.unit) } else { String::new() };
        let text = match of.round {
            Some(round) => {
                figure.rounds.get(round - 1).map_or("–".to_owned(), |value| format_number(*value))
            }
            None => format_spread(figure.spread()),
        };
        Some(format!("{text}{}", unit.trim_end()))
    };
    table.columns.iter().map(|column| cell(column).unwrap_or_default()).collect()
}
