//! Draws the screen: a line on the process, a table of the tiers, what is known of the selected part, and the keys.

use super::screen::Screen;
use crate::commands::remote::figures::{Figure, Part, Tier};
use crate::commands::remote::shown::{bytes, duration, percent, printable, span};
use larder_terminal::grouped;
use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};

/// The widths of the columns. With the spaces between them they fit into 80.
const WIDTHS: [Constraint; 6] = [
    Constraint::Min(18),
    Constraint::Length(9),
    Constraint::Length(8),
    Constraint::Length(9),
    Constraint::Length(9),
    Constraint::Length(21),
];

const WARNING: Style = Style::new().fg(Color::Yellow);
const ALARM: Style = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);

pub(super) fn draw(frame: &mut Frame<'_>, screen: &Screen) {
    let rows = screen.rows().count() as u16;
    // The heading and the rows; what is known of a part keeps at least a third.
    let table = (rows + 1).min(frame.area().height * 2 / 3);
    let areas = [Constraint::Length(2), Constraint::Length(table), Constraint::Min(0), Constraint::Length(1)];
    let [head, table, part, keys] = Layout::vertical(areas).areas(frame.area());
    frame.render_widget(Paragraph::new(vec![process(screen), condition(screen)]), head);
    let mut state = TableState::new().with_selected(screen.selected());
    frame.render_stateful_widget(tiers(screen), table, &mut state);
    if let Some(selected) = screen.selected().and_then(|index| screen.rows().nth(index)) {
        frame.render_widget(details(selected.0, screen.seconds), part);
    }
    frame.render_widget(Paragraph::new("q quit   ↑ ↓ select   p pause"), keys);
}

fn process(screen: &Screen) -> Line<'static> {
    let version = match screen.has_figures() {
        true => {
            let process = &screen.figures.server;
            format!("larder {}, up for {}", printable(&process.version), span(process.uptime_seconds))
        }
        false => "larder".to_owned(),
    };
    Line::from(format!("{version}, {}", screen.address)).bold()
}

/// Whether the figures are those of now.
fn condition(screen: &Screen) -> Line<'static> {
    if screen.is_paused {
        return Line::styled("paused: p goes on", WARNING);
    }
    if let Some(problem) = &screen.problem {
        let old = if screen.has_figures() { "; the figures are old" } else { "" };
        return Line::styled(format!("trying again{old}: {}", printable(problem)), ALARM);
    }
    match screen.has_figures() {
        true => Line::from(format!("rates of the last {}", span(screen.seconds.round().max(1.0)))),
        false => Line::from("waiting for the first figures"),
    }
}

fn tiers(screen: &Screen) -> Table<'static> {
    let right = |text: String| Cell::from(Line::from(text).alignment(Alignment::Right));
    let row = |(part, tier): (&Part, Option<&Tier>)| {
        let name = match tier {
            Some(tier) => format!("{}, {}", part.part, tier.tier),
            None => part.part.clone(),
        };
        let values = tier.map_or_else(Default::default, |tier| values(tier, screen.seconds));
        let cells = values.into_iter().map(right);
        let cells = std::iter::once(Cell::from(printable(&name))).chain(cells);
        let style = match &*part.state {
            "running" => Style::new(),
            "degraded" => WARNING,
            _ => ALARM,
        };
        Row::new(cells.collect::<Vec<_>>()).style(style)
    };
    let headings = ["per sec", "hits", "p99", "entries", "memory"];
    let headings = headings.map(|heading| right(heading.to_owned()));
    let headings = Row::new(std::iter::once(Cell::from("part, tier")).chain(headings).collect::<Vec<_>>());
    Table::new(screen.rows().map(row), WIDTHS)
        .header(headings.style(Style::new().add_modifier(Modifier::UNDERLINED)))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
}

/// The columns of a tier, but for its name.
fn values(tier: &Tier, seconds: f64) -> [String; 5] {
    let dash = || "–".to_owned();
    let memory = tier.bytes.map(|used| match tier.capacity_bytes {
        Some(capacity) => format!("{} / {}", bytes(used), bytes(capacity)),
        None => bytes(used),
    });
    [
        rate(tier.uses() as f64, seconds),
        tier.hit_ratio().map_or_else(dash, percent),
        tier.latency.quantile(0.99).map_or_else(dash, duration),
        tier.entries.map_or_else(dash, grouped),
        memory.unwrap_or_else(dash),
    ]
}

fn rate(count: f64, seconds: f64) -> String {
    match count / seconds.max(1e-3) {
        rate if rate >= 1e6 => format!("{:.1} M", rate / 1e6),
        rate if rate >= 1e4 => format!("{:.1} k", rate / 1e3),
        rate if rate >= 10.0 => format!("{rate:.0}"),
        rate => format!("{rate:.1}"),
    }
}

/// What the selected part says of itself, why its tiers missed, its figures, and what is used most.
fn details(part: &Part, seconds: f64) -> Paragraph<'static> {
    let mut lines = Vec::new();
    if !matches!(&*part.state, "running" | "degraded") {
        let failure = part.last_failure.as_deref().unwrap_or("the log has the reason");
        lines.push(Line::styled(format!("{}: {}", part.state, printable(failure)), ALARM));
    }
    for own in &part.degradations {
        let text = format!("degraded by {} for {}: {}", own.name, span(own.seconds), printable(&own.meaning));
        lines.push(Line::styled(text, WARNING));
    }
    lines.extend(part.notes.iter().map(|(name, text)| named(name, printable(text))));
    for tier in &part.tiers {
        let all: u64 = tier.miss_causes.values().sum();
        let mut causes: Vec<_> = tier.miss_causes.iter().filter(|(_, count)| **count > 0).collect();
        causes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        let shares = causes.iter().map(|(name, count)| {
            format!("{} {:.0} %", name.replace('_', " "), **count as f64 / all as f64 * 100.0)
        });
        if !causes.is_empty() {
            let shares: Vec<String> = shares.collect();
            lines.push(named(&format!("misses of {}", tier.tier), shares.join(", ")));
        }
    }
    for (title, entries) in &part.top {
        let shown =
            entries.iter().map(|own| format!("{} {} ± {}", printable(&own.name), own.count, own.error));
        lines.push(named(&format!("top {title}"), shown.collect::<Vec<_>>().join(", ")));
    }
    let figures: Vec<String> =
        part.figures.iter().filter_map(|figure| shown_figure(figure, seconds)).collect();
    if !figures.is_empty() {
        lines.push(named("figures", figures.join(", ")));
    }
    let block = Block::new().borders(Borders::TOP).title(printable(&part.part));
    Paragraph::new(lines).block(block).wrap(Wrap { trim: true })
}

fn named(name: &str, text: String) -> Line<'static> {
    Line::from(vec![Span::from(format!("{}: ", name.replace('_', " "))).bold(), Span::from(text)])
}

/// A figure that is not zero; of a total its rate.
fn shown_figure(figure: &Figure, seconds: f64) -> Option<String> {
    let name = figure.name.replace('_', " ");
    (figure.value != 0.0).then(|| match figure.total {
        true => format!("{name} {} per second", rate(figure.value, seconds)),
        false if figure.value.fract() == 0.0 => format!("{name} {}", figure.value),
        false => format!("{name} {:.2}", figure.value),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::remote::top::screen::Message;
    use crate::commands::remote::top::screen::tests::figures;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    /// The lines of a terminal of this size.
    fn drawn(screen: &Screen, width: u16, height: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, screen)).unwrap();
        let cells = terminal.backend().buffer().content();
        let line =
            |cells: &[ratatui::buffer::Cell]| cells.iter().map(|cell| cell.symbol()).collect::<String>();
        cells.chunks(usize::from(width)).map(|cells| line(cells).trim_end().to_owned()).collect()
    }

    fn screen() -> Screen {
        let mut screen = Screen::new("http://127.0.0.1:8081".to_owned());
        screen.take(Message::Figures(figures(100.0, 1_000)));
        screen.take(Message::Figures(figures(102.0, 1_100)));
        screen
    }

    #[test]
    fn screen_of_80_columns_has_the_tiers_and_the_selected_part() {
        let lines = drawn(&screen(), 80, 24);
        let expected = [
            "larder 1.2.3, up for 1 min 42 s, http://127.0.0.1:8081",
            "rates of the last 2 s",
            "part, tier            per sec     hits       p99   entries                memory",
            "links, memory             200   75.0 %   2.00 ms         7     2.0 KiB / 4.0 KiB",
            "links, redis               50        –         –         –                     –",
            "server",
            "links───────────────────────────────────────────────────────────────────────────",
            "degraded by redis for 1 min 15 s: Redis does not answer",
            "primaries: 10.0.0.1:6379 with 16384 slots",
            "misses of memory: evicted 75 %, first 25 %",
            "top slugs: evil\\u{1b}[31m 160 ± 9",
            "figures: evicted 500 per second, pending invalidations 4",
        ];
        assert_eq!(lines[..expected.len()], expected, "{lines:#?}");
        assert_eq!(lines[23], "q quit   ↑ ↓ select   p pause");
    }

    #[test]
    fn screen_of_any_size_is_drawn() {
        let screen = screen();
        for (width, height) in [(1, 1), (20, 3), (40, 8), (200, 60)] {
            let lines = drawn(&screen, width, height);
            assert_eq!(lines.len(), usize::from(height));
        }
        assert!(drawn(&screen, 40, 8).iter().any(|line| line.starts_with("links, memory")));
    }

    #[test]
    fn admin_port_that_cannot_be_reached_is_said_above_old_figures() {
        let mut screen = Screen::new("http://127.0.0.1:1".to_owned());
        assert_eq!(drawn(&screen, 80, 24)[1], "waiting for the first figures");
        let problem = || Message::Problem("cannot reach http://127.0.0.1:1: Connection refused".to_owned());
        screen.take(problem());
        let line = "trying again: cannot reach http://127.0.0.1:1: Connection refused";
        assert_eq!(drawn(&screen, 80, 24)[1], line);
        screen.take(Message::Figures(figures(1.0, 1)));
        screen.take(problem());
        let lines = drawn(&screen, 100, 24);
        assert!(lines[1].starts_with("trying again; the figures are old: cannot reach"), "{lines:?}");
        assert!(lines[3].starts_with("links, memory"), "{lines:?}");
    }
}
