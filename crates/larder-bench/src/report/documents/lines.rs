//! A line for each subject over workloads in their order, as SVG with the colours of the page.

use super::OURS;
use crate::report::escape;
use crate::result::ResultFile;
use crate::result::text::format_number;
use std::collections::BTreeSet;
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
/// Room for the half of the last label.
const RIGHT: f64 = 24.0;
const BOTTOM: f64 = 24.0;
const TOP: f64 = 10.0;
/// The colours of the page for peers; ours has its own.
const COLOURS: usize = 8;

/// The medians of a measure on a logarithmic scale; empty if no subject has two of them.
pub(super) fn lines(file: &ResultFile, workloads: &[String], measure: &str) -> String {
    let series = series(file, workloads, measure);
    let values = || series.iter().flat_map(|(_, points)| points.iter().map(|(_, value)| *value));
    let (low, high) = (values().fold(f64::MAX, f64::min), values().fold(0.0, f64::max));
    if series.is_empty() || low <= 0.0 {
        return String::new();
    }
    let step = (WIDTH - LEFT - RIGHT) / (workloads.len() - 1).max(1) as f64;
    let x = |index: usize| LEFT + step * index as f64;
    let (floor, ceiling) = (low.log10().floor(), high.log10().ceil().max(low.log10().floor() + 1.0));
    let y = |value: f64| TOP + (HEIGHT - TOP - BOTTOM) * (ceiling - value.log10()) / (ceiling - floor);

    let unit = &file.find(&workloads[0], measure, series[0].0).map_or("", |figure| &figure.unit);
    let mut svg = format!(
        "<figure><figcaption>{}, {} <span>logarithmic</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">",
        escape(measure),
        escape(unit),
        escape(measure)
    );
    for power in floor as i32..=ceiling as i32 {
        let value = 10f64.powi(power);
        write!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{0:.1}\" y2=\"{0:.1}\"/>\
             <text class=\"value\" x=\"{1}\" y=\"{2:.1}\">{3}</text>",
            y(value),
            LEFT - 6.0,
            y(value) + 4.0,
            format_number(value)
        )
        .expect("writing to a string cannot fail");
    }
    for (index, workload) in workloads.iter().enumerate() {
        write!(
            svg,
            "<text class=\"tick\" x=\"{:.1}\" y=\"{}\">{}</text>",
            x(index),
            HEIGHT - 6.0,
            escape(label(workload))
        )
        .expect("writing to a string cannot fail");
    }
    let mut legend = String::new();
    for (subject, points) in &series {
        let class = class(file, subject);
        let path: Vec<String> =
            points.iter().map(|(index, value)| format!("{:.1},{:.1}", x(*index), y(*value))).collect();
        let dots: String = path
            .iter()
            .map(|at| at.split_once(',').expect("a point has two coordinates"))
            .map(|(x, y)| format!("<circle class=\"{class}\" cx=\"{x}\" cy=\"{y}\" r=\"2.6\"/>"))
            .collect();
        write!(svg, "<polyline class=\"{class}\" points=\"{}\"/>{dots}", path.join(" "))
            .expect("writing to a string cannot fail");
        write!(legend, "<li><i class=\"{class}\"></i>{}</li>", escape(subject))
            .expect("writing to a string cannot fail");
    }
    format!("{svg}</svg><ul class=\"legend\">{legend}</ul></figure>")
}

/// The style of a subject's line, the same in all drawings of a file.
fn class(file: &ResultFile, subject: &str) -> String {
    let subjects: BTreeSet<&str> = file.figures.iter().map(|figure| &*figure.subject).collect();
    let index = subjects.iter().filter(|each| **each != OURS).position(|each| *each == subject);
    match index {
        None => "line-ours".to_owned(),
        Some(index) if index < COLOURS => format!("line-{index}"),
        Some(index) => format!("line-{} dashed", index % COLOURS),
    }
}

type Series<'a> = Vec<(&'a str, Vec<(usize, f64)>)>;

/// The subjects that were measured in at least two of the workloads, with the index and the median of each.
fn series<'a>(file: &'a ResultFile, workloads: &[String], measure: &str) -> Series<'a> {
    let mut subjects: Vec<&str> = Vec::new();
    for subject in workloads.iter().flat_map(|workload| file.subjects(workload)) {
        if !subjects.contains(&subject) {
            subjects.push(subject);
        }
    }
    let points = |subject: &str| -> Vec<(usize, f64)> {
        let value = |workload: &String| Some(file.find(workload, measure, subject)?.spread().median);
        workloads.iter().enumerate().filter_map(|(index, workload)| Some((index, value(workload)?))).collect()
    };
    subjects
        .into_iter()
        .map(|subject| (subject, points(subject)))
        .filter(|(_, points)| points.len() > 1)
        .collect()
}

/// What follows the first word of a workload's name: `set-300` is 300 clients.
fn label(workload: &str) -> &str {
    match workload.split_once('-') {
        Some((first, rest)) if first.chars().all(char::is_alphabetic) && !first.starts_with("large") => rest,
        _ => workload,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn lines_have_a_point_for_each_workload_that_was_measured() {
        let rate = |workload, subject, rate| figure(workload, subject, "rate", Better::Higher, &[rate]);
        let file = file(vec![
            rate("set-1", "larder", 10.0),
            rate("set-2", "larder", 1_000.0),
            rate("set-1", "alone", 100.0),
        ]);
        let svg = lines(&file, &["set-1".to_owned(), "set-2".to_owned()], "rate");
        assert_eq!((svg.matches("<polyline").count(), svg.matches("<circle").count()), (1, 2), "{svg}");
        assert!(svg.contains("line-ours") && svg.contains(">2</text>") && !svg.contains("alone"));
        assert_eq!(lines(&file, &["no".to_owned(), "none".to_owned()], "rate"), "");
    }
}
