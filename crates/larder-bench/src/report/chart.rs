//! Bar charts with spreads, as SVG with the colours of the page.

use super::escape;
use crate::result::text::format_number;
use crate::result::{Better, Figure, with_unit};
use std::fmt::Write;

const WIDTH: f64 = 460.0;
/// The least and the most space for the names left of the bars, and that of a character.
const LEFT: (f64, f64) = (96.0, 210.0);
const CHARACTER: f64 = 6.4;
/// The space for the values on the right.
const RIGHT: f64 = 64.0;
const ROW: f64 = 22.0;
const BAR: f64 = 13.0;

/// A bar for each figure, as long as its median, with a line from the lowest round to the highest; nothing if all medians are
/// zero, of which the table tells enough. The scale follows
/// the medians, because a disturbed round may be far off; a line ends at the edge of the chart.
pub(super) fn bars(figures: &[&Figure]) -> String {
    let Some(first) = figures.first() else { return String::new() };
    let longest = figures.iter().map(|figure| figure.spread().median).fold(0.0, f64::max);
    if longest == 0.0 {
        return String::new();
    }
    let characters = figures.iter().map(|figure| figure.subject.chars().count()).max().unwrap_or(0);
    let left = (characters as f64 * CHARACTER + 12.0).clamp(LEFT.0, LEFT.1);
    let scale = |value: f64| (value / longest).min(1.15) * (WIDTH - left - RIGHT) / 1.15;
    let direction = if first.better == Better::Lower { "lower is better" } else { "higher is better" };
    let height = ROW * figures.len() as f64 + 4.0;

    let mut svg = format!(
        "<figure><figcaption>{} <span>{direction}</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{} {}\">",
        escape(&with_unit(&first.measure, &first.unit)),
        escape(&first.workload),
        escape(&first.measure)
    );
    for (row, figure) in figures.iter().enumerate() {
        let spread = figure.spread();
        let top = ROW * row as f64 + 4.0;
        let middle = top + BAR / 2.0;
        let class = if figure.subject == "larder" { "ours" } else { "theirs" };
        write!(
            svg,
            "<text x=\"{}\" y=\"{}\" class=\"name\">{}</text>\
             <rect x=\"{left}\" y=\"{top}\" width=\"{:.1}\" height=\"{BAR}\" rx=\"2\" class=\"{class}\"/>\
             <line x1=\"{:.1}\" x2=\"{:.1}\" y1=\"{middle}\" y2=\"{middle}\" class=\"spread\"/>\
             <text x=\"{WIDTH}\" y=\"{}\" class=\"value\">{}</text>",
            left - 8.0,
            top + BAR - 2.0,
            escape(&figure.subject),
            scale(spread.median).max(1.0),
            left + scale(spread.low),
            left + scale(spread.high),
            top + BAR - 2.0,
            format_number(spread.median)
        )
        .expect("writing to a string cannot fail");
    }
    svg + "</svg></figure>"
}
