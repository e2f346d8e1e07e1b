//! A terminal that ratatui draws on, in the escape sequences every terminal knows (ECMA-48).
//!
//! ratatui's own backends would bring a second library for terminals beside `console`, which the progress bar uses. The
//! monitor reads no keys, so writing cells is all it needs. Colour and attributes are left out where `NO_COLOR` is set.

use console::Term;
use ratatui::backend::{Backend, ClearType, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};
use ratatui::style::{Color, Modifier};
use std::io::{self, Write};

/// Standard output as a screen of its own; dropping it brings back what was there.
pub(super) struct Screen {
    term: Term,
    pending: String,
    coloured: bool,
}

impl Screen {
    /// Takes over the terminal.
    pub(super) fn new() -> io::Result<Self> {
        let coloured = std::env::var_os("NO_COLOR").is_none();
        let mut screen = Self { term: Term::stdout(), pending: String::new(), coloured };
        // The alternate screen, without a cursor.
        screen.pending.push_str("\x1b[?1049h\x1b[?25l");
        screen.flush()?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.pending.push_str("\x1b[0m\x1b[?25h\x1b[?1049l");
        // Nobody is left to tell.
        let _ = self.flush();
    }
}

impl Backend for Screen {
    type Error = io::Error;

    fn draw<'a, I>(&mut self, content: I) -> io::Result<()>
    where
        I: Iterator<Item = (u16, u16, &'a Cell)>,
    {
        for (x, y, cell) in content {
            self.pending.push_str(&format!("\x1b[{};{}H", y + 1, x + 1));
            self.pending.push_str(&self.style(cell));
            self.pending.push_str(cell.symbol());
        }
        self.pending.push_str("\x1b[0m");
        Ok(())
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.pending.push_str("\x1b[?25l");
        Ok(())
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.pending.push_str("\x1b[?25h");
        Ok(())
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        // It is hidden, and nothing depends on where it is.
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        let Position { x, y } = position.into();
        self.pending.push_str(&format!("\x1b[{};{}H", y + 1, x + 1));
        Ok(())
    }

    fn clear(&mut self) -> io::Result<()> {
        self.clear_region(ClearType::All)
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.pending.push_str(match region {
            ClearType::All => "\x1b[2J",
            ClearType::AfterCursor => "\x1b[0J",
            ClearType::BeforeCursor => "\x1b[1J",
            ClearType::CurrentLine => "\x1b[2K",
            ClearType::UntilNewLine => "\x1b[0K",
        });
        Ok(())
    }

    fn size(&self) -> io::Result<Size> {
        let (rows, columns) = self.term.size();
        Ok(Size::new(columns, rows))
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        Ok(WindowSize { columns_rows: self.size()?, pixels: Size::ZERO })
    }

    fn flush(&mut self) -> io::Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.term.write_all(pending.as_bytes())?;
        self.term.flush()
    }
}

impl Screen {
    /// The sequence that sets a cell's attributes. Only those that the table uses are known.
    fn style(&self, cell: &Cell) -> String {
        let mut codes = vec!["0"];
        if self.coloured {
            if cell.modifier.contains(Modifier::BOLD) {
                codes.push("1");
            }
            if cell.modifier.contains(Modifier::DIM) {
                codes.push("2");
            }
            codes.extend(match cell.fg {
                Color::Red => Some("31"),
                Color::Yellow => Some("33"),
                _ => None,
            });
        }
        format!("\x1b[{}m", codes.join(";"))
    }
}
