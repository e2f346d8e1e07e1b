//! What can go wrong between a request for a device and an open device.
//!
//! Messages are written for the person who typed the request: what was asked, what was found, what to do.

use crate::request::DeviceRequest;

/// Why a device couldn't be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// The text isn't a device name.
    #[error(
        "\"{name}\" is not a device name{}; valid are auto, cuda, cuda:N, wgpu, wgpu:N, wgpu:software and cpu \
         (`kiln devices` lists what this machine has)",
        suggestion(*nearest)
    )]
    UnknownName {
        /// The text as given.
        name: String,
        /// The valid name it probably stands for.
        nearest: Option<&'static str>,
    },
    /// The program was compiled without the backend that was asked for.
    #[error("device \"{request}\" needs the Cargo feature `{feature}`, and this program was built without it")]
    NotBuilt {
        /// What was asked for.
        request: DeviceRequest,
        /// The Cargo feature that brings it.
        feature: &'static str,
    },
    /// The machine has no such device.
    #[error("this machine has no device \"{request}\"; it has {}{}", available.join(", "), notes(why))]
    NotFound {
        /// What was asked for.
        request: DeviceRequest,
        /// Every device that can be asked for, `request (name)`.
        available: Vec<String>,
        /// What the inventory says about missing devices.
        why: Vec<String>,
    },
    /// The device exists and can't be used.
    #[error("device \"{request}\" ({name}) can't be used: {reason}{}", remedy_text(remedy))]
    Unusable {
        /// What was asked for.
        request: DeviceRequest,
        /// The device's own name.
        name: String,
        /// What was found.
        reason: String,
        /// What to do about it, if known.
        remedy: Option<String>,
    },
    /// The device doesn't compute in a float type.
    #[error("device \"{request}\" ({name}) can't be used in {float}: {reason}; train in f32 instead")]
    NoFloat {
        /// The device.
        request: DeviceRequest,
        /// Its own name.
        name: String,
        /// The type, such as `bf16`.
        float: String,
        /// What was found.
        reason: String,
    },
}

fn suggestion(nearest: Option<&str>) -> String {
    nearest.map_or_else(String::new, |name| format!(" (did you mean \"{name}\"?)"))
}

fn notes(why: &[String]) -> String {
    if why.is_empty() {
        return String::new();
    }
    format!(" ({})", why.join("; "))
}

fn remedy_text(remedy: &Option<String>) -> String {
    remedy.as_ref().map_or_else(String::new, |remedy| format!("; to fix it: {remedy}"))
}
