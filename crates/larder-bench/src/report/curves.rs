//! A chart of what the formula of [`super::model`] says, with the measured points on it. Both axes are logarithmic.

use super::model::{Manner, Model};
use crate::result::ResultFile;
use crate::result::text::format_number;
use std::fmt::Write;

const WIDTH: f64 = 460.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 52.0;
const BOTTOM: f64 = 26.0;
const NODES: (f64, f64) = (1.0, 10_000.0);
/// In percent of a core.
const SHARES: (f64, f64) = (0.01, 1_000.0);
/// The points of a curve.
const STEPS: usize = 60;

/// The charts of the suite `scale`; nothing if it has no constants.
pub(super) fn of(file: &ResultFile) -> String {
    let charts = [("one server", 1.0), ("cluster of 3", 3.0)].into_iter().filter_map(|(name, primaries)| {
        let model = Model::of(file, name, primaries, Manner::Alone)?;
        Some(chart(file, name, model))
    });
    let charts: String = charts.collect();
    if charts.is_empty() {
        charts
    } else {
        format!("<article><div class=\"charts\">{charts}</div></article>\n")
    }
}

fn chart(file: &ResultFile, name: &str, model: Model) -> String {
    let mut svg = format!(
        "<figure><figcaption>{name}: share of a core by nodes, in % <span>lines by the formula, points measured; \
         below without deletions, above with 100 and 1,000 in a second</span></figcaption>\
         <svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{name}, share of a core by nodes\">"
    );
    for share in [0.01, 0.1, 1.0, 10.0, 100.0, 1_000.0] {
        let (_, y) = place(1.0, share);
        let class = if share == 100.0 { "full" } else { "grid" };
        put(
            &mut svg,
            format_args!(
                "<line x1=\"{LEFT}\" x2=\"{WIDTH}\" y1=\"{y:.1}\" y2=\"{y:.1}\" class=\"{class}\"/>"
            ),
        );
        let label = format_number(share);
        put(
            &mut svg,
            format_args!("<text x=\"{}\" y=\"{:.1}\" class=\"name\">{label}</text>", LEFT - 6.0, y + 4.0),
        );
    }
    for nodes in [1.0, 10.0, 100.0, 1_000.0, 10_000.0] {
        let (x, _) = place(nodes, 1.0);
        let label = format_number(nodes).trim_end_matches(".00").trim_end_matches(".0").to_owned();
        put(
            &mut svg,
            format_args!("<text x=\"{x:.1}\" y=\"{}\" class=\"name\">{label}</text>", HEIGHT - 6.0),
        );
    }
    for deletions in [0.0, 100.0, 1_000.0] {
        let points = (0..=STEPS).map(|step| {
            let nodes = NODES.0 * (NODES.1 / NODES.0).powf(step as f64 / STEPS as f64);
            let (x, y) = place(nodes, model.at(nodes, deletions).share * 100.0);
            format!("{x:.1},{y:.1}")
        });
        let points = points.collect::<Vec<_>>().join(" ");
        put(&mut svg, format_args!("<polyline points=\"{points}\" class=\"curve\"/>"));
    }
    let workload = format!("share, {name}");
    for figure in file.figures.iter().filter(|figure| figure.workload == workload) {
        let nodes = figure.subject.split(' ').next().and_then(|count| count.parse().ok());
        let (x, y) = place(nodes.unwrap_or(NODES.0), figure.spread().median);
        put(&mut svg, format_args!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.5\" class=\"ours\"/>"));
    }
    svg + "</svg></figure>"
}

fn put(svg: &mut String, text: std::fmt::Arguments<'_>) {
    svg.write_fmt(text).expect("writing to a string cannot fail");
}

/// The place of a point; at the edge if it is beyond it.
fn place(nodes: f64, share: f64) -> (f64, f64) {
    let part = |value: f64, (low, high): (f64, f64)| ((value / low).ln() / (high / low).ln()).clamp(0.0, 1.0);
    let (width, height) = (WIDTH - LEFT - 8.0, HEIGHT - BOTTOM - 8.0);
    (LEFT + part(nodes, NODES) * width, 8.0 + (1.0 - part(share, SHARES)) * height)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::Better;
    use crate::result::tests::{figure, file};

    #[test]
    fn chart_has_a_curve_for_each_rate_and_a_point_for_each_measurement() {
        let constant =
            |workload, measure, value| figure(workload, "one server", measure, Better::Lower, &[value]);
        let share = figure("share, one server", "51 nodes", "0/s", Better::Lower, &[0.2]);
        let file = file(vec![
            constant("heartbeat", "server cpu", 10.0),
            constant("delete alone", "server cpu", 30.0),
            constant("delete alone", "server cpu for each node", 3.0),
            constant("memory", "connections of a node", 6.0),
            share,
        ]);
        let html = of(&file);
        assert_eq!(
            ["<svg", "<polyline", "<circle"].map(|part| html.matches(part).count()),
            [1, 3, 1],
            "{html}"
        );
        assert!(!html.contains("NaN") && !html.contains("inf"));
    }

    #[test]
    fn places_are_inside_of_the_chart() {
        for (nodes, share) in [(1.0, 0.0), (1.0, 1e9), (1e9, 1.0), (100.0, 100.0)] {
            let (x, y) = place(nodes, share);
            assert!((LEFT..=WIDTH).contains(&x) && (0.0..=HEIGHT - BOTTOM).contains(&y), "{x} {y}");
        }
    }
}
