//! Where the libraries' events go: standard error, without colour where that isn't a terminal.

use std::io::IsTerminal;
use tracing_subscriber::EnvFilter;

/// Shows the libraries' warnings and errors, or what `KILN_LOG` asks for (`info`, `kiln_data=debug`, ...).
///
/// Call it once in a program.
pub fn log_to_stderr() {
    let filter =
        EnvFilter::try_from_env("KILN_LOG").unwrap_or_else(|_| EnvFilter::new("error,kiln=warn,kiln_data=error"));
    let colour = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}
