//! One file a subcommand: parse, call the crates, print.

pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod devices;
pub(crate) mod doctor;
pub(crate) mod eval;
pub(crate) mod export;
pub(crate) mod inspect;
pub(crate) mod lr_find;
pub(crate) mod models;
pub(crate) mod monitor;
pub(crate) mod pack;
pub(crate) mod predict;
pub(crate) mod preview;
pub(crate) mod recipes;
pub(crate) mod report;
pub(crate) mod resume;
pub(crate) mod train;
pub(crate) mod weights;
