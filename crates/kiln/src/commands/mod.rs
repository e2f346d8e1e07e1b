//! One file a subcommand: parse, call the crates, print.

pub(crate) mod devices;
pub(crate) mod preview;
pub(crate) mod train;
