//! `report`: one HTML page of all result files in a folder, and their data as one JSON file.
//!
//! The page is self-contained: it has no scripts, loads no fonts, and makes no requests.

mod chart;
mod curves;
mod documents;
mod model;
mod tables;

use crate::result::grid;
use crate::result::text::format_spread;
use crate::result::{Figure, REPORT_FILE, ResultFile};
use anyhow::{Context, Result};
use clap::Args;
use std::fmt::Write;
use std::path::{Path, PathBuf};

const PAGE_FILE: &str = "report.html";
const DOCUMENTS_FILE: &str = "documents.html";
const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("style.css");

/// Flags of `report`.
#[derive(Debug, Args)]
pub struct ReportArgs {
    /// The folder of the result files, in which the page is written.
    #[arg(value_name = "DIR")]
    pub(crate) folder: PathBuf,
    /// Write no page, but the tables between the markers of this Markdown file.
    #[arg(long, value_name = "FILE", hide = true)]
    pub(crate) markdown: Option<PathBuf>,
}

/// The command `report`.
pub(crate) fn run(args: &ReportArgs) -> Result<()> {
    match &args.markdown {
        Some(path) => update_markdown(path, &args.folder),
        None => write(&args.folder),
    }
}

fn update_markdown(path: &Path, folder: &Path) -> Result<()> {
    let name = path.display();
    let page = std::fs::read_to_string(path).with_context(|| format!("cannot open {name}"))?;
    let page = tables::update(&page, &ResultFile::read_all(folder)?).with_context(|| format!("in {name}"))?;
    std::fs::write(path, page).with_context(|| format!("cannot write {name}"))?;
    larder_terminal::print(&format!("wrote {name}\n"))
}

/// Writes the page of the results in a folder, their data, and the page of the documents if there are results for it.
pub(crate) fn write(folder: &Path) -> Result<()> {
    let files = ResultFile::read_all(folder)?;
    let write = |name: &str, content: String| {
        let path = folder.join(name);
        std::fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
        larder_terminal::print(&format!("wrote {}\n", path.display()))
    };
    write(REPORT_FILE, serde_json::to_string_pretty(&files)? + "\n")?;
    if documents::has_results(&files) {
        write(DOCUMENTS_FILE, documents::page(&files)?)?;
    }
    write(PAGE_FILE, page(&files))
}

fn page(files: &[ResultFile]) -> String {
    // The repetitions of other people's measurements come last: each has many figures, and a page of their own.
    let (documents, suites): (Vec<_>, Vec<_>) =
        files.iter().partition(|file| file.suite.starts_with("document-"));
    let content: String = suites.into_iter().chain(documents).map(suite).collect();
    PAGE.replace("{{style}}", STYLE).replace("{{content}}", &content)
}

fn suite(file: &ResultFile) -> String {
    let workloads: String = file.workloads().into_iter().map(|name| workload(file, name)).collect();
    let curves = curves::of(file);
    format!(
        "<section><h2>Suite {}</h2>{}{}{curves}{workloads}</section>\n",
        escape(&file.suite),
        conditions(file),
        verdicts(file)
    )
}

/// The conditions of the run, and reasons why its figures may be unreliable.
fn conditions(file: &ResultFile) -> String {
    let machine = &file.machine;
    let versions: Vec<String> =
        file.versions.iter().map(|(name, version)| format!("{name} {version}")).collect();
    let facts = [
        ("Date", file.date.clone()),
        ("Commit", file.commit.clone().unwrap_or_else(|| "unknown".to_owned())),
        ("Processor", format!("{}, {} threads", machine.processor, machine.threads)),
        ("Memory", format!("{:.1} GiB", machine.memory_bytes as f64 / f64::from(1 << 30))),
        ("Kernel", machine.kernel.clone()),
        ("Load before", format!("{:.2}", machine.load_average)),
        ("Seed", file.seed.to_string()),
        ("Versions", versions.join(", ")),
    ];
    let mut html = String::from("<dl>");
    for (name, value) in facts {
        write!(html, "<div><dt>{name}</dt><dd>{}</dd></div>", escape(&value))
            .expect("writing to a string cannot fail");
    }
    html += "</dl>";
    for caveat in file.caveats() {
        write!(html, "<p class=\"caveat\">{}</p>", escape(&caveat)).expect("writing to a string cannot fail");
    }
    html
}

fn verdicts(file: &ResultFile) -> String {
    if file.verdicts.is_empty() {
        return String::new();
    }
    let rows: String = file
        .verdicts
        .iter()
        .map(|verdict| {
            let (class, word) = if verdict.met { ("met", "met") } else { ("unmet", "not met") };
            format!(
                "<tr><th>{}</th><td>{}</td><td>{}</td><td class=\"{class}\">{word}</td></tr>",
                escape(&verdict.label()),
                format_spread(verdict.value),
                verdict.limit_text()
            )
        })
        .collect();
    format!(
        "<h3>Targets</h3><div class=\"wide\"><table><thead><tr><th>figure</th><td>value (spread)</td><td>limit</td>\
         <td></td></tr></thead><tbody>{rows}</tbody></table></div>"
    )
}

/// A chart of each measure that is not zero for all, and a table of all; for events only the table.
fn workload(file: &ResultFile, workload: &str) -> String {
    let table = table(&grid::rows(file, workload));
    let figures = if grid::counts_events(file, workload) {
        table
    } else {
        let charts = charts(file, workload);
        format!(
            "<div class=\"charts\">{charts}</div><details><summary>All figures</summary>{table}</details>"
        )
    };
    format!("<article><h3>{}</h3>{figures}</article>\n", escape(workload))
}

fn charts(file: &ResultFile, workload: &str) -> String {
    let subjects = file.subjects(workload);
    let chart = |(measure, _): &(&str, &str)| {
        let figures: Vec<&Figure> =
            subjects.iter().filter_map(|subject| file.find(workload, measure, subject)).collect();
        chart::bars(&figures)
    };
    file.measures(workload).iter().map(chart).collect()
}

/// An HTML table. The first row and the first column are headings.
fn table(rows: &[Vec<String>]) -> String {
    let line = |row: &Vec<String>| {
        let cells: String = row[1..].iter().map(|cell| format!("<td>{}</td>", escape(cell))).collect();
        format!("<tr><th>{}</th>{cells}</tr>", escape(&row[0]))
    };
    let body: String = rows[1..].iter().map(line).collect();
    format!("<div class=\"wide\"><table><thead>{}</thead><tbody>{body}</tbody></table></div>", line(&rows[0]))
}

/// Escapes text for use between tags and in attributes.
fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            _ => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn page_begins_with_our_suites_and_draws_no_chart_of_zeros() {
        let files = ["document-0", "engine"].map(|suite| {
            let zeros = figure("get", "larder", "failed", Better::Lower, &[0.0, 0.0]);
            let times = figure("get", "larder", "time", Better::Lower, &[7.0]);
            ResultFile { suite: suite.to_owned(), ..file(vec![zeros, times]) }
        });
        let html = page(&files);
        let position = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text} in {html}"));
        assert!(position("Suite engine") < position("Suite document-0"));
        assert_eq!((html.matches("<svg").count(), html.matches("failed").count()), (2, 2), "{html}");
    }

    #[test]
    fn page_has_every_figure_and_no_external_link() {
        let html = page(&[file(vec![
            figure("get", "larder", "time", Better::Lower, &[10.0, 12.5, 11.0]),
            figure("get", "<moka>", "time", Better::Lower, &[100.0]),
        ])]);
        assert!(html.contains("11.0 (10.0–12.5)") && html.contains("&lt;moka&gt;") && html.contains("<svg"));
        assert!(!html.contains("<moka>") && !html.contains("{{") && !html.contains("NaN"));
        let foreign = ["http:", "https:", "src=", "@import", "url("];
        assert!(foreign.iter().all(|link| !html.contains(link)), "the page must be self-contained");
    }
}
