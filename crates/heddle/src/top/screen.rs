//! Draws what [`Top`] holds. A state is told by a word and a sign, and a colour only repeats it.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Sparkline, Table, TableState};
use serde_json::Value;

use super::columns::{self, Column, count, duration};
use super::state::{Top, View, samples, traffic, verdict};

const HELP: &[&str] = &[
    "1 … 6        the views",
    "up, down     choose a row; PgUp, PgDn, Home, End",
    "<  >         sort by the column beside;  r  the other way round",
    "/            filter; Enter keeps it, Esc clears it",
    "k            end the chosen session;  c  only its statement",
    "p            pause, and go on",
    "q            quit",
];

const FOOT: &str = "1-6 views  / filter  < > sort  r turn  k kill  p pause  ? keys  q quit";

/// Draws everything, and tells the state how many rows fit.
pub fn draw(frame: &mut Frame<'_>, top: &mut Top) {
    let sparks = match top.view {
        View::Overview => 4,
        _ => 0,
    };
    let [head, tabs, numbers, spark, body, foot] = Layout::vertical([
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(sparks),
        Constraint::Min(3),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_verdict(frame, top, head);
    draw_tabs(frame, top, tabs);
    frame.render_widget(Paragraph::new(numbers_of(&top.picture)), numbers);
    if sparks > 0 {
        draw_sparks(frame, top, spark);
    }
    top.page = usize::from(body.height.saturating_sub(1)).max(1);
    draw_rows(frame, top, body);
    frame.render_widget(Paragraph::new(foot_of(top)), foot);
    if top.helps {
        draw_help(frame);
    }
}

fn style_of(severity: &str) -> Style {
    match severity {
        "down" => Style::new().fg(Color::White).bg(Color::Red),
        "hurt" => Style::new().fg(Color::Black).bg(Color::Yellow),
        _ => Style::new().fg(Color::Black).bg(Color::Green),
    }
}

fn draw_verdict(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let (severity, text) = match (top.silence.is_empty(), top.picture.is_null()) {
        (false, _) => (
            "down",
            format!("this router does not answer: {}", top.silence),
        ),
        (true, true) => ("hurt", "asking the router…".to_owned()),
        (true, false) => verdict(&top.picture),
    };
    let sign = match severity {
        "down" => "■",
        "hurt" => "▲",
        _ => "●",
    };
    let state = match top.paused {
        true => " PAUSED ",
        false => "",
    };
    let style = style_of(severity).add_modifier(Modifier::BOLD);
    let line = Line::from(vec![
        Span::styled(format!(" {sign} {text} "), style),
        Span::raw(" "),
        Span::styled(state, Style::new().add_modifier(Modifier::REVERSED)),
    ]);
    frame.render_widget(Paragraph::new(line), area);
}

fn draw_tabs(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let tabs = View::ALL.iter().zip(1..).map(|(view, number)| {
        let style = match *view == top.view {
            true => Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
            false => Style::new(),
        };
        Span::styled(format!(" {number} {} ", view.name()), style)
    });
    frame.render_widget(Paragraph::new(Line::from_iter(tabs)), area);
}

/// What the router serves, in one line.
fn numbers_of(picture: &Value) -> String {
    let last = traffic(picture);
    let number = |field: &str| last[field].as_f64().map_or("-".to_owned(), count);
    let time = |field: &str| last[field].as_f64().map_or("-".to_owned(), duration);
    format!(
        " {}/s statements  {}/s errors  p50 {}  p99 {}  {} clients  {} wait  {} in doubt",
        number("statements"),
        number("errors"),
        time("p50_ms"),
        time("p99_ms"),
        number("sessions"),
        number("held"),
        picture["farm"]["in_doubt"]
            .as_f64()
            .map_or("-".to_owned(), count),
    )
}

fn draw_sparks(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let halves = Layout::horizontal([Constraint::Percentage(50), Constraint::Percentage(50)]);
    let [left, right] = halves.areas(area);
    let samples = samples(&top.picture);
    for (area, field, title) in [
        (left, "statements", " statements/s "),
        (right, "p99_ms", " p99, ms "),
    ] {
        let block = Block::new().title(title);
        let width = usize::from(area.width);
        let last = &samples[samples.len().saturating_sub(width)..];
        let data: Vec<u64> = last
            .iter()
            .map(|(_, sample)| sample[field].as_f64().unwrap_or_default().round() as u64)
            .collect();
        frame.render_widget(Sparkline::default().block(block).data(&data), area);
    }
}

fn draw_rows(frame: &mut Frame<'_>, top: &Top, area: Rect) {
    let columns = top.view.columns();
    let (sorted, descending) = top.order();
    let titles = columns.iter().enumerate().map(|(at, column)| {
        let sign = match (at == sorted, descending) {
            (false, _) => "",
            (true, true) => "▼",
            (true, false) => "▲",
        };
        aligned(column, format!("{}{sign}", column.title))
    });
    let head =
        Row::new(titles).style(Style::new().add_modifier(Modifier::BOLD | Modifier::UNDERLINED));
    let shown = top.shown();
    // Only rows in sight are made.
    let first = top.chosen.saturating_sub(top.page.saturating_sub(1));
    let seen = shown.iter().skip(first).take(top.page);
    let rows = seen.map(|row| {
        let cells = columns
            .iter()
            .map(|column| aligned(column, column.text(row)));
        Row::new(cells).style(match row["severity"].as_str() {
            Some("down") => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            Some("hurt") => Style::new().fg(Color::Yellow),
            _ => Style::new(),
        })
    });
    let widths = columns.iter().map(|column| match column.width {
        0 => Constraint::Min(8),
        width => Constraint::Length(width),
    });
    let table = Table::new(rows, widths)
        .header(head)
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let chosen = (!shown.is_empty()).then(|| top.chosen - first);
    let mut state = TableState::default().with_selected(chosen);
    frame.render_stateful_widget(table, area, &mut state);
}

/// Numbers stand at the right of their column.
fn aligned(column: &Column, text: String) -> Line<'static> {
    match column.is_number() {
        true => Line::from(text).right_aligned(),
        false => Line::from(text),
    }
}

fn foot_of(top: &Top) -> Line<'static> {
    if let Some(question) = &top.question {
        let what = match question.query {
            true => "the statement of session",
            false => "session",
        };
        let text = format!(" end {what} {} ({})? y/n ", question.id, question.who);
        return Line::styled(
            text,
            Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD),
        );
    }
    if top.types {
        return Line::raw(format!(
            " filter: {}_",
            columns::plain(&top.filter.as_str().into())
        ));
    }
    let filter = match top.filter.as_str() {
        "" => String::new(),
        filter => format!(
            "  [{}: {} rows]",
            columns::plain(&filter.into()),
            top.shown().len()
        ),
    };
    match top.note.as_str() {
        "" => Line::raw(format!(" {FOOT}{filter}")),
        note => Line::styled(
            format!(" {}", columns::plain(&note.into())),
            Style::new().add_modifier(Modifier::BOLD),
        ),
    }
}

fn draw_help(frame: &mut Frame<'_>) {
    let lines: Vec<Line<'_>> = HELP
        .iter()
        .map(|line| Line::raw(format!(" {line} ")))
        .collect();
    let area = frame.area();
    let height = (HELP.len() as u16 + 2).min(area.height);
    let width = 66.min(area.width);
    let place = Rect::new(
        (area.width - width) / 2,
        (area.height - height) / 2,
        width,
        height,
    );
    frame.render_widget(Clear, place);
    let block = Block::bordered().title(" keys; any key closes this ");
    frame.render_widget(Paragraph::new(lines).block(block), place);
}
