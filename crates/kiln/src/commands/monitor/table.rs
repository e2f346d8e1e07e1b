//! The live table: a row a GPU, and below it the processes on it and what a person should know.

use super::View;
use super::line::{memory, power, state_word};
use super::screen::Screen;
use kiln_device::{GpuSample, GpuState, Reading};
use ratatui::Terminal;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Paragraph, Row, Table as Grid, Widget, Wrap};
use std::io;

pub(super) struct Table {
    terminal: Terminal<Screen>,
}

impl Table {
    pub(super) fn new() -> io::Result<Self> {
        Ok(Self { terminal: Terminal::new(Screen::new()?)? })
    }
}

impl View for Table {
    fn show(&mut self, reading: &Reading) -> io::Result<()> {
        self.terminal.draw(|frame| render(reading, frame.area(), frame.buffer_mut()))?;
        Ok(())
    }
}

const HEADER: [&str; 9] = ["GPU", "BUSY", "MEMORY", "TEMP", "POWER", "CLOCK", "STATE", "PCIE", "TRAFFIC"];
const WIDTHS: [Constraint; 9] = [
    Constraint::Min(18),
    Constraint::Length(6),
    Constraint::Length(15),
    Constraint::Length(6),
    Constraint::Length(11),
    Constraint::Length(9),
    Constraint::Length(7),
    Constraint::Length(15),
    Constraint::Length(14),
];

/// Draws `reading` into `area`.
fn render(reading: &Reading, area: Rect, buffer: &mut Buffer) {
    let num_rows = reading.gpus.len() as u16 + 1;
    let [title, grid, _, below] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(num_rows),
        Constraint::Length(1),
        Constraint::Min(0),
    ])
    .areas(area);
    let dim = Style::new().add_modifier(Modifier::DIM);
    Paragraph::new(format!("kiln monitor  {:.0} s  Ctrl-C ends", reading.elapsed_secs))
        .style(dim)
        .render(title, buffer);
    let rows = reading.gpus.iter().map(row);
    let header = Row::new(HEADER).style(Style::new().add_modifier(Modifier::BOLD));
    Widget::render(Grid::new(rows, WIDTHS).header(header), grid, buffer);
    Paragraph::new(below_lines(reading)).wrap(Wrap { trim: false }).render(below, buffer);
}

fn row(gpu: &GpuSample) -> Row<'static> {
    let cell = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let state = match gpu.state {
        GpuState::Active => cell(gpu.pstate.map(|state| format!("P{state}"))),
        state => state_word(state).split(',').next().unwrap_or_default().to_owned(),
    };
    let traffic = gpu.pcie_rx_mib_s.zip(gpu.pcie_tx_mib_s).map(|(rx, tx)| format!("{rx:.0}/{tx:.0} MiB/s"));
    let cells = [
        gpu.name.clone(),
        cell(gpu.util.map(|util| format!("{util:.0} %"))),
        cell(memory(gpu)),
        cell(gpu.temp_c.map(|temp| format!("{temp:.0} °C"))),
        cell(power(gpu)),
        cell(gpu.clock_mhz.map(|clock| format!("{clock} MHz"))),
        state,
        cell(gpu.pcie.clone()),
        cell(traffic),
    ];
    let style = if gpu.alerts.is_empty() { Style::new() } else { Style::new().fg(Color::Yellow) };
    Row::new(cells).style(style)
}

fn below_lines(reading: &Reading) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if reading.gpus.is_empty() {
        lines.push(Line::raw("no GPU; `kiln doctor` says more"));
    }
    for gpu in &reading.gpus {
        for alert in &gpu.alerts {
            lines.push(Line::styled(format!("{}: {alert}", gpu.name), Style::new().fg(Color::Yellow)));
        }
        for process in gpu.processes.iter().flatten() {
            let name = process.name.as_deref().unwrap_or("a process");
            let memory = process.mem_mib.map_or_else(String::new, |mib| format!(", {mib} MiB"));
            lines.push(Line::raw(format!("{}: {name} ({}){memory}", gpu.name, process.pid)));
        }
    }
    lines.extend(reading.notes.iter().map(|note| Line::styled(note.clone(), Style::new().fg(Color::Red))));
    lines
}

#[cfg(test)]
mod tests {
    use super::{Buffer, Reading, Rect, render};
    use kiln_device::GpuSample;

    fn drawn(reading: &Reading) -> String {
        let area = Rect::new(0, 0, 120, 8);
        let mut buffer = Buffer::empty(area);
        render(reading, area, &mut buffer);
        let line = |y| (0..area.width).map(|x| buffer[(x, y)].symbol().to_owned()).collect::<String>();
        (0..area.height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_row_shows_what_is_known_and_a_dash_for_the_rest() {
        let mut gpu = GpuSample::default();
        gpu.name = "AMD Radeon 780M".to_owned();
        gpu.util = Some(7.0);
        gpu.temp_c = Some(47.0);
        gpu.alerts = vec!["47 °C is hot".to_owned()];
        let mut reading = Reading::default();
        reading.gpus = vec![gpu];
        let text = drawn(&reading);
        let row = text.lines().find(|line| line.starts_with("AMD Radeon 780M ")).expect("a row");
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells[3..], ["7", "%", "-", "47", "°C", "-", "-", "-", "-", "-"]);
        assert!(text.contains("AMD Radeon 780M: 47 °C is hot"), "{text}");
    }

    #[test]
    fn a_machine_without_a_gpu_says_so() {
        assert!(drawn(&Reading::default()).contains("no GPU"));
    }
}
