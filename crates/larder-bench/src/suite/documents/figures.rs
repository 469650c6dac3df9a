//! The figures of the five documents, as data: what each printed, how it measured, and what is measured for it here.
//!
//! They are in `documents/*.toml`, compiled in. Every figure has either a counterpart, which is a figure of a suite, or a
//! reason why there is none.

use crate::result::ResultFile;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;

const FILES: [&str; 5] = [
    include_str!("../../../documents/0.toml"),
    include_str!("../../../documents/1.toml"),
    include_str!("../../../documents/2.toml"),
    include_str!("../../../documents/3.toml"),
    include_str!("../../../documents/4.toml"),
];

/// A document, its tables and its pictures.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Document {
    pub(crate) title: String,
    pub(crate) author: String,
    pub(crate) published: String,
    /// What the document describes.
    pub(crate) system: String,
    /// What its measurements ask.
    pub(crate) question: String,
    /// What changed since, and why: two sentences.
    pub(crate) changed: String,
    #[serde(default, rename = "chart")]
    pub(crate) charts: Vec<Chart>,
    #[serde(rename = "table")]
    pub(crate) tables: Vec<Table>,
    #[serde(default, rename = "picture")]
    pub(crate) pictures: Vec<Picture>,
}

/// What the page draws: bars of all subjects of one workload, or a line for each subject over several workloads.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) measure: String,
    pub(crate) workloads: Vec<String>,
}

/// Figures of one section with the same units and setup.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Table {
    pub(crate) section: String,
    pub(crate) title: String,
    pub(crate) setup: String,
    /// Why nothing is measured for this table.
    pub(crate) not_here: Option<String>,
    pub(crate) columns: Vec<Column>,
    #[serde(rename = "row")]
    pub(crate) rows: Vec<Row>,
}

/// A column; what it names takes precedence over what its row names.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) unit: String,
    measure: Option<String>,
    workload: Option<String>,
    subject: Option<String>,
    /// The round, counted from 1, if the column shows one round instead of the median.
    round: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// The figures, as the document prints them.
    pub(crate) values: Vec<String>,
    workload: Option<String>,
    subject: Option<String>,
    /// The subject if that one was not measured, because it needs more than the default build or Debian.
    instead: Option<String>,
}

/// A picture whose numbers the document does not print.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Picture {
    pub(crate) section: String,
    pub(crate) file: String,
    pub(crate) shows: String,
    /// The workload that measures what the picture shows.
    pub(crate) workload: String,
}

/// The figure of a suite that repeats a figure of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counterpart<'a> {
    pub(crate) workload: &'a str,
    pub(crate) measure: &'a str,
    /// The design of the document.
    pub(crate) subject: &'a str,
    /// The subject if that one was not measured.
    pub(crate) instead: Option<&'a str>,
    pub(crate) round: Option<usize>,
}

impl<'a> Counterpart<'a> {
    /// The subject that a result has: that of the document, or what was measured instead.
    pub(crate) fn subject_in(&self, file: &ResultFile) -> &'a str {
        let is_measured = file.subjects(self.workload).contains(&self.subject);
        if is_measured { self.subject } else { self.instead.unwrap_or(self.subject) }
    }
}

impl Document {
    /// How many documents there are.
    pub(crate) const COUNT: usize = FILES.len();

    /// A document by its number, 0 to 4.
    pub(crate) fn read(number: usize) -> Result<Document> {
        let document: Document =
            toml::from_str(FILES[number]).with_context(|| format!("documents/{number}.toml"))?;
        for table in &document.tables {
            table.check().with_context(|| format!("documents/{number}.toml: {}", table.title))?;
        }
        Ok(document)
    }
}

impl Document {
    /// The workload and the subjects of each figure that is measured here: one of the subjects is.
    #[cfg(test)]
    pub(crate) fn counterparts(&self) -> Vec<(&str, Vec<&str>)> {
        let mut counterparts = Vec::new();
        for table in &self.tables {
            for row in &table.rows {
                let of = |column| {
                    let of = table.counterpart(row, column)?;
                    Some((of.workload, [of.subject].into_iter().chain(of.instead).collect()))
                };
                counterparts.extend(table.columns.iter().filter_map(of));
            }
        }
        counterparts
    }
}

impl Table {
    /// The counterpart of a figure; `None` if [`Table::not_here`] says why it has none.
    pub(crate) fn counterpart<'a>(&'a self, row: &'a Row, column: &'a Column) -> Option<Counterpart<'a>> {
        Some(Counterpart {
            workload: column.workload.as_deref().or(row.workload.as_deref())?,
            measure: column.measure.as_deref()?,
            subject: column.subject.as_deref().or(row.subject.as_deref())?,
            instead: row.instead.as_deref(),
            round: column.round,
        })
    }

    fn check(&self) -> Result<()> {
        for row in &self.rows {
            let name = &row.name;
            ensure!(row.values.len() == self.columns.len(), "{name} has {} values", row.values.len());
            for column in &self.columns {
                let has_counterpart = self.counterpart(row, column).is_some();
                ensure!(
                    has_counterpart != self.not_here.is_some(),
                    "{name}, {}: name a counterpart, or why there is none",
                    column.name
                );
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_has_a_counterpart_or_a_reason() {
        for number in 0..FILES.len() {
            let document = Document::read(number).unwrap();
            assert!(!document.tables.is_empty(), "{number}");
        }
    }

    #[test]
    fn figure_without_counterpart_and_reason_is_an_error() {
        let with = |reason: &str, subject: &str| -> Table {
            let text = format!(
                "section = 's'\ntitle = 't'\nsetup = 's'\n{reason}\ncolumns = [{{ name = 'c', unit = '', measure = 'm' }}]\n\
                 row = [{{ name = 'r', values = ['1'], workload = 'w' {subject} }}]"
            );
            toml::from_str(&text).unwrap()
        };
        assert!(with("", ", subject = 's'").check().is_ok());
        assert!(with("not_here = 'why'", "").check().is_ok());
        let error = with("", "").check().unwrap_err().to_string();
        assert_eq!(error, "r, c: name a counterpart, or why there is none");
    }
}
