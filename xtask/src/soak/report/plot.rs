//! Line charts as SVG: lines with gaps over hours of soaking, on a linear or a logarithmic axis.

use std::fmt::Write;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 260.0;
/// The room for the numbers of the axes, and for the names of the lines.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 170.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 36.0;
/// More points than that are drawn as the highest of their neighbours.
const MAX_POINTS: usize = 400;
/// The colours of the lines, to be told apart also by readers who confuse red and green.
const COLOURS: [&str; 12] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f3c8d", "#8c6d31",
    "#a0a0a0", "#b2182b", "#1b7837",
];

/// A line: hours, and values where there are any.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

/// A chart with its lines.
#[derive(Clone, Debug)]
pub(super) struct Chart<'a> {
    pub(super) title: &'a str,
    pub(super) is_logarithmic: bool,
    pub(super) lines: Vec<Line>,
    /// The hours of faults, from and to.
    pub(super) faults: &'a [(f64, f64)],
    /// The hours at which runs began.
    pub(super) runs: &'a [f64],
}

/// Where values are drawn.
struct Scale {
    hours: f64,
    least: f64,
    most: f64,
    /// Between two lines of the grid; `None` for a logarithmic axis.
    step: Option<f64>,
}

impl Scale {
    fn x(&self, hour: f64) -> f64 {
        LEFT + hour / self.hours * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let part = if self.step.is_none() {
            (value.max(self.least) / self.least).ln() / (self.most / self.least).ln()
        } else {
            (value - self.least) / (self.most - self.least)
        };
        HEIGHT - BOTTOM - part * (HEIGHT - TOP - BOTTOM)
    }

    fn of(chart: &Chart<'_>) -> Self {
        let points = || chart.lines.iter().flat_map(|line| &line.points);
        let hours = points().map(|(hour, _)| *hour).fold(1e-3, f64::max);
        let values = || points().filter_map(|(_, value)| *value);
        let most = values().fold(0.0, f64::max);
        if !chart.is_logarithmic {
            let step = step(most.max(1.0), 4.0);
            let most = (most / step).ceil().max(1.0) * step;
            return Scale { hours, least: 0.0, most, step: Some(step) };
        }
        let least = values().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
        let least = if least.is_finite() { 10_f64.powf(least.log10().floor()) } else { 1.0 };
        let most = 10_f64.powf(most.max(least * 10.0).log10().ceil());
        Scale { hours, least, most, step: None }
    }

    /// The values with a line of the grid.
    fn ticks(&self) -> Vec<f64> {
        let Some(step) = self.step else {
            let decades = (self.most / self.least).log10().round() as i32;
            return (0..=decades).map(|decade| self.least * 10_f64.powi(decade)).collect();
        };
        (0..=(self.most / step).round() as u32).map(|index| f64::from(index) * step).collect()
    }
}

/// A round number that divides a range into about so many parts.
fn step(range: f64, parts: f64) -> f64 {
    let rough = range / parts;
    let decade = 10_f64.powf(rough.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    decade * factors.into_iter().find(|factor| decade * factor >= rough * 0.999).unwrap_or(10.0)
}

impl Chart<'_> {
    pub(super) fn svg(&self) -> String {
        let scale = Scale::of(self);
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\">\n\
             <title>{0}</title>\n<text class=\"title\" x=\"{LEFT}\" y=\"20\">{0}</text>\n",
            self.title
        );
        for (from, to) in self.faults {
            let (x, width) = (scale.x(*from), (scale.x(*to) - scale.x(*from)).max(0.5));
            let height = bottom - TOP;
            _ = writeln!(
                svg,
                "<rect class=\"fault\" x=\"{x:.1}\" y=\"{TOP}\" width=\"{width:.1}\" height=\"{height}\"/>"
            );
        }
        for value in scale.ticks() {
            let y = scale.y(value);
            _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"
            );
            let (x, y) = (LEFT - 6.0, y + 4.0);
            _ = writeln!(svg, "<text class=\"end\" x=\"{x}\" y=\"{y:.1}\">{}</text>", number(value));
        }
        let (unit, per_hour) = if scale.hours < 2.0 { ("min", 60.0) } else { ("h", 1.0) };
        let part = step(scale.hours * per_hour, 6.0);
        for index in 0..=(scale.hours * per_hour / part) as u32 {
            let time = f64::from(index) * part;
            let (x, y) = (scale.x(time / per_hour), bottom + 16.0);
            _ = writeln!(svg, "<text class=\"middle\" x=\"{x:.1}\" y=\"{y}\">{} {unit}</text>", number(time));
        }
        for hour in self.runs {
            let x = scale.x(*hour);
            _ = writeln!(
                svg,
                "<line class=\"run\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom}\"/>"
            );
        }
        for (index, line) in self.lines.iter().enumerate() {
            let colour = COLOURS[index % COLOURS.len()];
            let path = path(&thinned(&line.points), &scale);
            _ = writeln!(svg, "<path stroke=\"{colour}\" d=\"{path}\"/>");
            let (x, y) = (right + 12.0, TOP + 10.0 + index as f64 * 16.0);
            let last = line.points.iter().rev().find_map(|(_, value)| *value).map_or("–".to_owned(), number);
            _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" fill=\"{colour}\">{} {last}</text>", line.name);
        }
        svg + "</svg>\n"
    }
}

/// At most so many points that lines do not become too long: of neighbours the highest.
fn thinned(points: &[(f64, Option<f64>)]) -> Vec<(f64, Option<f64>)> {
    let neighbours = points.len().div_ceil(MAX_POINTS).max(1);
    let highest = |points: &[(f64, Option<f64>)]| {
        let value = points.iter().filter_map(|(_, value)| *value).reduce(f64::max);
        (points[0].0, value)
    };
    points.chunks(neighbours).map(highest).collect()
}

/// A point between two gaps is drawn as a dot: a line without a length has round ends.
fn path(points: &[(f64, Option<f64>)], scale: &Scale) -> String {
    let (mut path, mut is_down) = (String::new(), false);
    for (hour, value) in points {
        let Some(value) = value else {
            is_down = false;
            continue;
        };
        let (x, y) = (scale.x(*hour), scale.y(*value));
        let command = if is_down { "L" } else { "M" };
        _ = write!(path, "{command}{x:.1} {y:.1}");
        if !is_down {
            _ = write!(path, "h0");
        }
        is_down = true;
    }
    path
}

/// With as many digits as a reader needs.
pub(super) fn number(value: f64) -> String {
    let text = match value.abs() {
        0.0..0.1 => format!("{value:.3}"),
        0.1..10.0 => format!("{value:.2}"),
        10.0..100.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(is_logarithmic: bool, points: Vec<(f64, Option<f64>)>) -> Chart<'static> {
        let lines = vec![Line { name: "up-1".to_owned(), points }];
        Chart { title: "memory, MiB", is_logarithmic, lines, faults: &[(0.1, 0.2)], runs: &[0.0] }
    }

    #[test]
    fn axes_end_at_round_numbers() {
        let scale = Scale::of(&chart(false, vec![(0.0, Some(3.0)), (2.0, Some(42.0))]));
        assert_eq!((scale.hours, scale.least, scale.most), (2.0, 0.0, 60.0));
        assert_eq!(scale.ticks(), [0.0, 20.0, 40.0, 60.0]);
        let scale = Scale::of(&chart(true, vec![(0.0, Some(0.3)), (1.0, Some(42.0))]));
        assert_eq!(scale.ticks().len(), 4, "0.1, 1, 10, 100");
        assert!((scale.y(scale.most) - TOP).abs() < 1e-6 && (scale.x(1.0) - (WIDTH - RIGHT)).abs() < 1e-6);
    }

    #[test]
    fn chart_without_values_can_be_drawn() {
        for is_logarithmic in [false, true] {
            let svg = chart(is_logarithmic, Vec::new()).svg();
            assert!(svg.contains("up-1 –") && !svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn gap_begins_a_new_part_of_the_line() {
        let svg = chart(false, vec![(0.0, Some(1.0)), (0.5, None), (0.7, Some(1.0)), (1.0, Some(1.0))]).svg();
        let path = svg.split("d=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
        assert_eq!((path.matches('M').count(), path.matches('L').count()), (2, 1), "{path}");
        assert!(svg.contains("class=\"fault\"") && svg.contains("class=\"run\""));
    }

    #[test]
    fn long_lines_keep_their_peaks() {
        let mut points: Vec<_> = (0..10_000).map(|index| (f64::from(index), Some(1.0))).collect();
        points[7_777].1 = Some(9.0);
        let thinned = thinned(&points);
        assert!(thinned.len() <= MAX_POINTS && thinned.iter().any(|(_, value)| *value == Some(9.0)));
    }

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0, 0.05, 0.5, 5.0, 42.0, 1_234.5].map(number);
        assert_eq!(numbers, ["0", "0.05", "0.5", "5", "42", "1234"]);
    }
}
