//! `kiln completions` and `kiln man`: what shells and manual pages know of the command, made from its own options.

use clap::{Args, Command};
use clap_complete::Shell;
use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln completions bash > ~/.local/share/bash-completion/completions/kiln
  kiln completions zsh > ~/.zfunc/_kiln          with fpath+=~/.zfunc before compinit
  kiln completions fish > ~/.config/fish/completions/kiln.fish
  kiln completions powershell >> $PROFILE

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Prints what a shell needs to complete Kiln's commands and options.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

const MAN_EXAMPLES: &str = "\
Examples:
  kiln man | man -l -                            read it
  kiln man --output ~/.local/share/man/man1      install it, with a page for every subcommand

Exit code: 0 if all went well, 1 if not, 2 for a mistyped command line.";

/// Prints the manual page.
#[derive(Args)]
#[command(after_help = MAN_EXAMPLES)]
pub(crate) struct Man {
    /// Write the page and one for every subcommand into this folder instead
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub(crate) fn run(args: &Completions, mut command: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "kiln", &mut script);
    std::io::stdout().lock().write_all(&script)?;
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn man(args: &Man, command: Command) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match &args.output {
        Some(folder) => {
            std::fs::create_dir_all(folder)
                .and_then(|()| clap_mangen::generate_to(command, folder))
                .map_err(|error| anyhow::anyhow!("cannot write manual pages to {}: {error}", folder.display()))?;
            writeln!(out, "{}", folder.join("kiln.1").display())?;
        }
        None => {
            let mut page = Vec::new();
            clap_mangen::Man::new(command).render(&mut page)?;
            out.write_all(&page)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}
