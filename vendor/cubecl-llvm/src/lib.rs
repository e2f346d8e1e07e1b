//! Stand-in for `cubecl-llvm` 0.11.3: the items `cubecl-cuda` names, and no LLVM behind them.
//!
//! `cubecl-cuda` always links both of its compilers, CUDA C++ through NVRTC and LLVM, and picks one at
//! compile time. Kiln picks C++ (`cubecl/cuda-cpp`), so nothing here is ever called; it has to exist
//! because `cubecl-cuda` mentions it. The real crate's build script downloads a prebuilt LLVM from
//! outside the package registries, which this replacement avoids. `README.md` has the rest.
//!
//! The compiled form of a kernel and the PTX version are types without values, so the compiler proves that no LLVM kernel can
//! reach the driver. The one entry that can be reached, [`PlironCompiler::compile`], is an error that says
//! which feature is missing.
//!
//! Source: the uses of `cubecl_llvm` in `cubecl-cuda` 0.11.3 (`src/compiler.rs`, `src/runtime.rs`,
//! `src/compute/context.rs`). Not done here: anything `cubecl-cpu` or `cubecl-hip` would need.

use core::{convert::Infallible, ffi::c_char, fmt};

use cubecl_core::{Compiler, ir::nvidia::SmArch, prelude::KernelDefinition};
use cubecl_environment::backtrace::BackTrace;
use cubecl_runtime::{compiler::CompilationError, kernel::BufferIOAttr};

use crate::nvptx::ptx_version::PtxVersion;

/// What the compiler would emit code for; `cubecl-cuda` names only this one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LlvmTarget {
    /// NVIDIA's PTX.
    #[default]
    Nvptx,
}

/// The LLVM compiler that isn't there.
#[derive(Clone, Debug, Default)]
pub struct PlironCompiler {
    /// Kept because `cubecl-cuda` sets it.
    pub target: LlvmTarget,
}

/// Options of [`PlironCompiler`]; filled in by `cubecl-cuda`, read by nobody.
#[derive(Clone, Debug, Default)]
pub struct PlironOptions {
    /// Target architecture by name; `cubecl-cuda` passes `None`.
    pub arch: Option<&'static str>,
    /// Compute capability of the device.
    pub sm_arch: Option<SmArch>,
    /// Newest PTX version the driver loads.
    pub ptx_version: Option<PtxVersion>,
    /// Whether launch parameters travel as grid constants.
    pub grid_constants: bool,
}

/// A kernel compiled to PTX. Has no values: only LLVM could make one.
#[derive(Clone, Debug)]
pub struct NvptxModule {
    /// PTX text ending in a zero byte.
    pub ptx: Vec<c_char>,
    /// Name of the kernel function.
    pub entrypoint: String,
    /// LLVM IR, for logs.
    pub ir: String,
    /// Dynamic shared memory of a launch, bytes.
    pub shared_memory_size: usize,
    /// Which buffers the kernel reads and writes.
    pub io: Vec<BufferIOAttr>,
    never: Infallible,
}

/// What [`PlironCompiler`] would return. Has no values, like the module it holds.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PlironArtifact {
    /// A module for the CUDA driver.
    NvptxCode(NvptxModule),
}

impl fmt::Display for PlironArtifact {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::NvptxCode(module) = self;
        match module.never {}
    }
}

impl Compiler for PlironCompiler {
    type Representation = PlironArtifact;
    type CompilationOptions = PlironOptions;

    /// Always fails.
    ///
    /// # Errors
    /// [`CompilationError::Generic`], naming the feature that selects the compiler Kiln uses.
    fn compile(
        &mut self,
        _kernel: KernelDefinition,
        _options: &Self::CompilationOptions,
    ) -> Result<Self::Representation, CompilationError> {
        Err(CompilationError::Generic {
            reason: "this build replaces cubecl-llvm by a stand-in without LLVM; \
                     enable the feature `cuda-cpp` of the crate `cubecl`"
                .into(),
            backtrace: BackTrace::capture(),
        })
    }

    fn extension(&self) -> &'static str {
        "ll"
    }

    fn lang_tag(&self) -> &'static str {
        "llvm"
    }
}

/// The NVIDIA half of the real crate.
pub mod nvptx {
    /// Versions of the PTX language.
    pub mod ptx_version {
        use core::fmt;

        /// A PTX version LLVM could emit: none.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum PtxVersion {}

        impl PtxVersion {
            /// The newest version a driver loads; always `None`, which `cubecl-cuda` reads as "unknown".
            pub fn for_driver(_driver_version: i32) -> Option<Self> {
                None
            }
        }

        impl fmt::Display for PtxVersion {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                match *self {}
            }
        }
    }
}

/// What both LLVM targets of the real crate share.
pub mod shared {
    /// Which device features the LLVM path can honour.
    pub mod lowered_features {
        use cubecl_core::ir::DeviceProperties;

        /// The target whose features are asked for.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum GpuTarget {
            /// NVIDIA's PTX.
            Nvptx,
        }

        /// Leaves the properties alone: with no LLVM there is nothing to adapt them to.
        pub fn restrict_features(_properties: &mut DeviceProperties, _target: GpuTarget) {}
    }
}
