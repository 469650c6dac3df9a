//! The page of the five documents: what each printed, what its design does here, and what Larder does here.
//!
//! The documents' figures come from `suite::documents`, so they are on the page even where nothing was measured.

mod lines;
mod markdown;
mod rows;

pub(super) use markdown::tables;

use super::{STYLE, chart, conditions, escape, table as grid_table};
use crate::result::grid;
use crate::result::text::format_spread;
use crate::result::{Figure, ResultFile};
use crate::suite::documents::{Chart, Column, Document, Picture, Row, Table};
use anyhow::Result;
use rows::Kind;
use std::fmt::Write;

const PAGE: &str = include_str!("page.html");
const OURS: &str = "larder";
/// A spread above this part of the median is marked.
const WIDE_SPREAD: f64 = 0.3;

/// Whether one of the files is of a document.
pub(super) fn has_results(files: &[ResultFile]) -> bool {
    (0..Document::COUNT).any(|number| result_of(files, number).is_some())
}

fn result_of(files: &[ResultFile], number: usize) -> Option<&ResultFile> {
    files.iter().find(|file| file.suite == format!("document-{number}"))
}

/// The page with all documents; those without results have their own figures only.
pub(super) fn page(files: &[ResultFile]) -> Result<String> {
    let mut contents = String::new();
    let mut sections = String::new();
    for number in 0..Document::COUNT {
        let document = Document::read(number)?;
        write!(
            contents,
            "<li><a href=\"#document-{number}\">{}</a> <span>{}, {}</span></li>",
            escape(&document.title),
            escape(&document.author),
            document.published
        )?;
        sections += &section(number, &document, result_of(files, number));
    }
    Ok(PAGE.replace("{{style}}", STYLE).replace("{{contents}}", &contents).replace("{{sections}}", &sections))
}

fn section(number: usize, document: &Document, result: Option<&ResultFile>) -> String {
    let charts: String =
        result.map(|file| document.charts.iter().map(|each| draw(each, file)).collect()).unwrap_or_default();
    let tables: String = document.tables.iter().map(|each| table(each, result)).collect();
    let pictures: String = document.pictures.iter().map(picture).collect();
    let is_repeated = document.tables.iter().any(|table| table.not_here.is_none());
    let measured = match result {
        Some(file) => measured(file),
        None if is_repeated => format!(
            "<p class=\"caveat\">Not measured in this run: <code>larder-bench run document-{number}</code></p>"
        ),
        None => String::new(),
    };
    format!(
        "<section id=\"document-{number}\"><h2><span class=\"number\">{number}</span>{}</h2>\
         <p class=\"by\">{}, {} · {}</p><p class=\"question\">{}</p><p class=\"changed\">{}</p>\
         <div class=\"charts\">{charts}</div>{tables}{}{measured}</section>\n",
        escape(&document.title),
        escape(&document.author),
        document.published,
        escape(&document.system),
        escape(&document.question),
        escape(document.changed.trim()),
        if pictures.is_empty() {
            String::new()
        } else {
            format!(
                "<article><h3>Pictures whose numbers are not in the text</h3><ul>{pictures}</ul></article>"
            )
        },
    )
}

fn draw(chart: &Chart, file: &ResultFile) -> String {
    let drawing = match &chart.workloads[..] {
        [workload] => {
            let figures: Vec<&Figure> = file
                .subjects(workload)
                .iter()
                .filter_map(|subject| file.find(workload, &chart.measure, subject))
                .collect();
            chart::bars(&figures)
        }
        workloads => lines::lines(file, workloads, &chart.measure),
    };
    match drawing.is_empty() {
        true => String::new(),
        false => format!("<article class=\"chart\"><h3>{}</h3>{drawing}</article>", escape(&chart.title)),
    }
}

fn picture(picture: &Picture) -> String {
    format!(
        "<li><b>{}</b> ({}): {}. Measured here as <code>{}</code>.</li>",
        escape(&picture.file),
        escape(&picture.section),
        escape(&picture.shows),
        escape(&picture.workload)
    )
}

/// A table of the document. Below each of its rows: the same design here, and Larder here.
fn table(table: &Table, result: Option<&ResultFile>) -> String {
    let headings: String =
        table.columns.iter().map(|column| format!("<td>{}</td>", escape(&heading(column)))).collect();
    let rows: String = table.rows.iter().map(|row| rows_of(table, row, result)).collect();
    let reason = table
        .not_here
        .as_ref()
        .map(|reason| format!("<p class=\"caveat\">Not measured here: {}.</p>", escape(reason)));
    format!(
        "<article><h3>{}</h3><p class=\"setup\">{} — {}</p><div class=\"wide\"><table><thead><tr><th></th><th></th>\
         {headings}</tr></thead>{rows}</table></div>{}</article>",
        escape(&table.title),
        escape(&table.section),
        escape(&table.setup),
        reason.unwrap_or_default()
    )
}

/// The name of a column, with its unit.
fn heading(column: &Column) -> String {
    match &*column.unit {
        "" => column.name.clone(),
        unit => format!("{}, {unit}", column.name),
    }
}

/// A row of the document, and the rows below it that were measured here.
fn rows_of(table: &Table, row: &Row, result: Option<&ResultFile>) -> String {
    let lines = rows::lines(table, row, result);
    let mut name = format!("<th rowspan=\"{}\">{}</th>", lines.len(), escape(&row.name));
    let html: String = lines
        .iter()
        .map(|line| {
            let class = match line.kind {
                Kind::Document => "document",
                Kind::Again => "again",
                Kind::Larder => "larder",
            };
            let remarks: String =
                line.remarks.iter().map(|text| format!("<small>{}</small>", escape(text))).collect();
            let cells: String = line.cells.iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
            // Only the first line has the name.
            let name = std::mem::take(&mut name);
            format!(
                "<tr class=\"{class}\">{name}<th class=\"who\">{}{remarks}</th>{cells}</tr>",
                escape(&line.who)
            )
        })
        .collect();
    format!("<tbody>{html}</tbody>")
}

/// The conditions of the run, all figures, remarks and commands.
fn measured(file: &ResultFile) -> String {
    let tables: String = file
        .workloads()
        .into_iter()
        .map(|workload| format!("<h4>{}</h4>{}", escape(workload), grid_table(&grid::rows(file, workload))))
        .collect();
    let remarks: String = file
        .remarks
        .iter()
        .map(|remark| {
            format!(
                "<li><b>{}</b>, {}: {}</li>",
                escape(&remark.workload),
                escape(&remark.subject),
                escape(&remark.text)
            )
        })
        .chain(wide_spreads(file))
        .collect();
    let commands: String = file.commands.iter().map(|command| escape(command) + "\n").collect();
    format!(
        "<details><summary>All figures</summary>{tables}</details>\
         <details><summary>Remarks</summary><ul>{remarks}</ul></details>\
         <details><summary>Commands</summary><pre>{commands}</pre></details>\
         <details open><summary>Conditions</summary>{}</details>",
        conditions(file)
    )
}

/// Figures whose rounds differ so much that their median says little.
fn wide_spreads(file: &ResultFile) -> impl Iterator<Item = String> {
    file.figures.iter().filter_map(|figure| {
        let spread = figure.spread();
        let width = (spread.high - spread.low) / spread.median.abs().max(f64::MIN_POSITIVE);
        let is_wide = width > WIDE_SPREAD && figure.measure != "max" && figure.measure != "min";
        is_wide.then(|| {
            format!(
                "<li class=\"unmet\"><b>{}</b>, {}, {}: wide spread, {}</li>",
                escape(&figure.workload),
                escape(&figure.subject),
                escape(&figure.measure),
                format_spread(spread)
            )
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::{figure, file};
    use crate::result::{Better, Remark};

    fn document_3(figures: Vec<Figure>) -> ResultFile {
        ResultFile { suite: "document-3".to_owned(), ..file(figures) }
    }

    #[test]
    fn page_has_every_figure_of_every_document() {
        let html = page(&[]).unwrap();
        for number in 0..Document::COUNT {
            let document = Document::read(number).unwrap();
            for table in &document.tables {
                let texts = [&table.section, &table.title, &table.setup].into_iter().chain(&table.not_here);
                let names = table.rows.iter().flat_map(|row| row.values.iter().chain([&row.name]));
                for text in texts.chain(names) {
                    assert!(html.contains(&escape(text)), "document {number}: {text} is not on the page");
                }
            }
            for picture in &document.pictures {
                assert!(html.contains(&escape(&picture.file)), "{}", picture.file);
            }
        }
    }

    #[test]
    fn page_has_the_design_of_the_document_and_ours_below_its_row() {
        let subject = "Elixir :line, backlog 50";
        let mut result = document_3(vec![
            figure("set-6", subject, "throughput", Better::Higher, &[31_000.0]),
            figure("set-6", "larder", "throughput", Better::Higher, &[90_000.0, 100_000.0, 110_000.0]),
        ]);
        let text = "stalled after 7 of 9".to_owned();
        result.remarks = vec![Remark { workload: "set-6".to_owned(), subject: subject.to_owned(), text }];
        let html = page(&[result]).unwrap();
        let row = html.split("<tbody>").find(|row| row.contains("68775.79")).unwrap();
        assert!(row.contains("here<small>stalled after 7 of 9</small></th><td>31,000</td>"), "{row}");
        assert!(row.contains("100,000 (90,000–110,000)"), "{row}");
    }

    #[test]
    fn page_has_what_was_measured_instead() {
        let rate = |subject, rate| figure("siege-one-slug", subject, "rate", Better::Higher, &[rate]);
        let row = |figures: Vec<Figure>| {
            let result = ResultFile { suite: "document-0".to_owned(), ..file(figures) };
            let html = page(&[result]).unwrap();
            html.split("<tbody>").find(|row| row.contains("493.86")).unwrap().to_owned()
        };
        let sqlite = row(vec![rate("SQLite", 5_000.0)]);
        assert!(sqlite.contains("SQLite, here") && sqlite.contains("5,000"), "{sqlite}");
        let both = row(vec![rate("SQLite", 5_000.0), rate("PostgreSQL", 7_000.0)]);
        assert!(both.contains("PostgreSQL, here") && both.contains("7,000"), "{both}");
    }

    #[test]
    fn page_makes_no_requests_and_has_no_script() {
        let html = page(&[document_3(vec![figure("set-1", "larder", "throughput", Better::Higher, &[1.0])])]);
        let html = html.unwrap();
        let foreign = ["http:", "https:", "src=", "@import", "url(", "<script", "{{", "NaN"];
        assert!(foreign.iter().all(|link| !html.contains(link)));
    }

    #[test]
    fn wide_spread_is_marked() {
        let result = document_3(vec![
            figure("set-1", "larder", "throughput", Better::Higher, &[100.0, 110.0, 105.0]),
            figure("set-1", "redis-server", "throughput", Better::Higher, &[100.0, 150.0, 105.0]),
        ]);
        let marked: Vec<String> = wide_spreads(&result).collect();
        assert!(marked.len() == 1 && marked[0].contains("redis-server"), "{marked:?}");
    }
}
