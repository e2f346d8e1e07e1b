//! Finds the GPUs of a machine, picks one and says why, and opens it as a burn device.
//!
//! ```text
//! probe ──> inventory ──> choose ──> open ──> smoke test ──> OpenDevice
//! ```
//!
//! Each step is a value one can print: [`inventory`] lists the devices and the ways to reach them, [`choose`]
//! is a pure function from that list to a [`Choice`] in which every loser has its reason, [`open`] does it all
//! and hands out a device that has computed something right. `Display` of [`DeviceReport`] is the table of
//! `kiln devices`. [`doctor`] examines the whole way and says what is wrong, [`Monitor`] reads the cards while they
//! work, and [`measure`] tells how fast they are.
//!
//! ```
//! use kiln_device::{DeviceRequest, open};
//!
//! fn main() -> Result<(), kiln_device::DeviceError> {
//!     // Lets drivers be asked from a child process; first thing in `main`.
//!     kiln_device::probe_child();
//!     let request = DeviceRequest::from_env()?.unwrap_or(DeviceRequest::Cpu);
//!     let device = open(&request)?;
//!     println!("{}", device.summary());
//!     Ok(())
//! }
//! ```
//!
//! # What this crate does to the process
//! It loads driver libraries, and when it opens a CUDA device also NVRTC. It may set `XDG_RUNTIME_DIR` and
//! `CUDA_PATH`, makes links to CUDA headers in `~/.cache/kiln`, and wraps the panic hook, so that a backend
//! that panics while it is opened is a reason and not a backtrace. [`inventory`] and [`open`] say when.
//!
//! # Features
//! `cuda` (NVIDIA through CUDA C++ and NVRTC) and `wgpu` (Vulkan, DirectX 12 and Metal through WGSL) are on by
//! default; `vulkan` makes wgpu compile SPIR-V on Vulkan instead, for drivers that have what that needs.
//! Without any, only the processor is left.
//!
//! # Not done here
//! Tensors beyond the smoke test and [`measure`], and training.

mod attempt;
mod choose;
mod doctor;
mod environment;
mod error;
mod inventory;
#[cfg(test)]
mod machines;
mod measure;
mod monitor;
mod nvrtc;
mod open;
mod report;
mod request;
mod smoke;
mod trouble;

pub use burn::tensor::{Device, FloatDType};

pub use crate::{
    choose::{Candidate, Choice, Lost, choose},
    doctor::{Check, Chosen, Diagnosis, Machine, Status, Variable, Verdict, doctor},
    error::DeviceError,
    inventory::{
        Api, Backend, BusDevice, HardwareKind, Inventory, PciAddress, PcieLink, PhysicalDevice, Problem, Route,
        inventory, passive_inventory, probe::probe_child,
    },
    measure::{Measured, Speed, measure},
    monitor::{Glance, GpuProcess, GpuSample, GpuState, Monitor, Reading, throttle_names},
    open::{OpenDevice, cpu, open, open_from, parity_devices},
    report::DeviceReport,
    request::{DEVICE_VARIABLE, DeviceRequest},
    trouble::Trouble,
};
