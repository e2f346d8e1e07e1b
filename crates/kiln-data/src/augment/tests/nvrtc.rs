//! Every kernel of ours through NVIDIA's run-time compiler, for the oldest and a recent architecture; no GPU needed.
//!
//! The text is the one that burn's CUDA backend would compile. NVRTC is looked for in the Python on the path: it comes
//! with PyTorch, or by `pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12`. Without it the test says so,
//! and fails if `KILN_REQUIRE_NVRTC` is set, as CI does.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use burn::backend::cubecl::dtype_to_storage_type;
use burn::tensor::DType;
use cubecl::Compiler;
use cubecl::ir::features::Features;
use cubecl::ir::{DeviceIdentity, DeviceProperties, HardwareProperties, MemoryDeviceProperties, VectorSize};
use cubecl::prelude::*;
use cubecl_cpp::shared::{CompilationOptions, CppCompiler, CppSupportedFeatures};
use libloading::{Library, Symbol};

use crate::augment::neighbourhood::device::keep_kernel;
use crate::augment::run::device::{CUBE_DIM, augment_kernel};
use crate::augment::statistics::device::{NUM_THREADS, statistics_kernel};

/// Turing, the oldest card with tensor cores, and Hopper.
const ARCHITECTURES: [&str; 2] = ["sm_75", "sm_90"];

#[test]
fn every_kernel_compiles_for_nvidia() {
    let sources = [
        cuda_source(augment_definition(true, false, DType::F32)),
        cuda_source(augment_definition(false, true, DType::F32)),
        cuda_source(augment_definition(false, false, DType::F16)),
        cuda_source(augment_definition(false, false, DType::BF16)),
        cuda_source(statistics_definition()),
        cuda_source(keep_definition()),
    ];
    let Some(nvrtc) = Nvrtc::find() else {
        return skip("no NVRTC in the Python on the path; pip install nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12");
    };
    for (source, architecture) in sources.iter().flat_map(|source| ARCHITECTURES.map(|it| (source, it))) {
        assert!(source.contains("__global__"), "{source}");
        let ptx = nvrtc.compile(source, architecture).unwrap_or_else(|log| panic!("{architecture}: {log}\n{source}"));
        assert!(ptx.contains(&format!(".target {architecture}")), "{architecture}: {ptx}");
    }
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see that one did nothing")]
fn skip(reason: &str) {
    assert!(std::env::var_os("KILN_REQUIRE_NVRTC").is_none(), "KILN_REQUIRE_NVRTC is set: {reason}");
    eprintln!("skipped: {reason}");
}

/// The kernels as a launch would define them.
fn augment_definition(is_plain: bool, is_channels_last: bool, dtype: DType) -> impl CubeKernel {
    let three = || SequenceCompilationArg { values: [(); 3].into_iter().collect() };
    augment_kernel::AugmentKernel::new(
        settings(CUBE_DIM),
        offline_properties(),
        Arc::default(),
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        (),
        (),
        (),
        three(),
        three(),
        is_plain,
        is_channels_last,
        dtype_to_storage_type(dtype),
    )
}

fn statistics_definition() -> impl CubeKernel {
    statistics_kernel::StatisticsKernel::new(
        settings(CubeDim::new_1d(NUM_THREADS)),
        offline_properties(),
        Arc::default(),
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        (),
        (),
        (),
        8,
    )
}

fn keep_definition() -> impl CubeKernel {
    keep_kernel::KeepKernel::new(
        settings(CUBE_DIM),
        offline_properties(),
        Arc::default(),
        buffer(),
        buffer(),
        buffer(),
        buffer(),
        (),
        (),
        (),
    )
}

fn settings(cube_dim: CubeDim) -> KernelSettings {
    KernelSettings::new(cube_dim.into(), ExecutionMode::Checked, AddressType::U32)
}

fn buffer() -> BufferCompilationArg {
    BufferCompilationArg { inplace: None }
}

/// The CUDA C++ of a kernel.
fn cuda_source(kernel: impl CubeKernel) -> String {
    let definition = cubecl::define_kernel(&kernel).expect("a kernel that can be defined");
    let features = CppSupportedFeatures { fast_math: true, dp4a: true, grid_constants: true, ..Default::default() };
    let options = CompilationOptions { warp_size: 32, supports_features: features, ..Default::default() };
    let mut compiler = CppCompiler::<cubecl_cpp::target::Cuda>::default();
    compiler.compile(definition, &options).expect("CUDA C++").to_string()
}

/// As much of an NVIDIA card as it takes to define a kernel.
fn offline_properties() -> Arc<DeviceProperties> {
    let hardware = HardwareProperties {
        load_width: 128,
        vector_register_count: None,
        plane_size_min: 32,
        plane_size_max: 32,
        max_bindings: 1024,
        max_shared_memory_size: 49152,
        max_cube_count: (i32::MAX as u32, u16::MAX as u32, u16::MAX as u32),
        max_units_per_cube: 1024,
        max_cube_dim: (1024, 1024, 64),
        num_streaming_multiprocessors: None,
        num_tensor_cores: None,
        min_tensor_cores_dim: None,
        num_cpu_cores: None,
        last_level_cache_size: None,
        max_vector_size: VectorSize::MAX,
        cube_mma_reserved_shared_memory: 0,
    };
    let identity = DeviceIdentity { name: "offline".into(), fingerprint: "offline".into(), physical: None };
    let memory = MemoryDeviceProperties::new(u64::MAX, 512);
    let timing = cubecl::profile::TimingMethod::Device;
    let mut properties = DeviceProperties::new(Features::default(), memory, hardware, timing, identity);
    cubecl_cpp::register_supported_types(&mut properties);
    Arc::new(properties)
}

/// NVIDIA's run-time compiler and the headers that our text includes.
struct Nvrtc {
    library: Library,
    headers: PathBuf,
}

impl Nvrtc {
    /// Looks into the folders where `python3` finds its packages.
    fn find() -> Option<Self> {
        let script = "import sys; print('\\n'.join(sys.path))";
        let found = Command::new("python3").args(["-c", script]).output().ok()?;
        let folders = String::from_utf8(found.stdout).ok()?;
        folders.lines().map(|folder| Path::new(folder).join("nvidia")).find_map(|folder| {
            // The layouts of the wheels for CUDA 12 and for CUDA 13.
            let layouts = [("cuda_nvrtc/lib", "cuda_runtime/include"), ("cu13/lib", "cu13/include")];
            layouts.iter().find_map(|(lib, include)| {
                let names = std::fs::read_dir(folder.join(lib)).ok()?.flatten().map(|entry| entry.path());
                let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
                let library = names.into_iter().find(|path| {
                    name(path).is_some_and(|name| name.starts_with("libnvrtc.so") || name.starts_with("nvrtc64"))
                })?;
                #[expect(unsafe_code, reason = "loading a library runs its initialisers")]
                // SAFETY: NVRTC's initialisers set up its own memory only.
                let library = unsafe { Library::new(library) }.ok()?;
                Some(Self { library, headers: folder.join(include) })
            })
        })
    }

    /// Compiles `source` to PTX; the compiler's log if it can't.
    fn compile(&self, source: &str, architecture: &str) -> Result<String, String> {
        type Program = *mut c_void;
        type Strings = *const *const c_char;
        type Create =
            unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int;
        type Compile = unsafe extern "C" fn(Program, c_int, Strings) -> c_int;
        type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
        type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
        type Destroy = unsafe extern "C" fn(*mut Program) -> c_int;

        let source = CString::new(source).expect("text without zeros");
        let headers = format!("--include-path={}", self.headers.display());
        let options = [format!("--gpu-architecture={architecture}"), headers];
        let options = options.map(|option| CString::new(option).expect("text without zeros"));
        let options = options.each_ref().map(|option| option.as_ptr());
        #[expect(unsafe_code, reason = "NVRTC has a C interface")]
        // SAFETY: the signatures are those of nvrtc.h; all pointers live until the calls return, and each buffer is as
        // large as NVRTC asked for.
        unsafe {
            let text = |program: Program, size: &[u8], get: &[u8]| {
                let size: Symbol<Size> = self.library.get(size).expect("a function of NVRTC");
                let get: Symbol<Text> = self.library.get(get).expect("a function of NVRTC");
                let mut length = 0;
                assert_eq!(size(program, &mut length), 0, "the size of a text of NVRTC");
                let mut buffer = vec![0u8; length.max(1)];
                assert_eq!(get(program, buffer.as_mut_ptr().cast()), 0, "a text of NVRTC");
                CStr::from_bytes_until_nul(&buffer).expect("text that ends").to_string_lossy().into_owned()
            };
            let create: Symbol<Create> = self.library.get(b"nvrtcCreateProgram\0").expect("a function of NVRTC");
            let compile: Symbol<Compile> = self.library.get(b"nvrtcCompileProgram\0").expect("a function of NVRTC");
            let destroy: Symbol<Destroy> = self.library.get(b"nvrtcDestroyProgram\0").expect("a function of NVRTC");
            let mut program = std::ptr::null_mut();
            let none = std::ptr::null();
            let created = create(&mut program, source.as_ptr(), c"kernel.cu".as_ptr(), 0, none, none);
            assert_eq!(created, 0, "a program of NVRTC");
            let result = match compile(program, options.len() as c_int, options.as_ptr()) {
                0 => Ok(text(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")),
                _ => Err(text(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0")),
            };
            destroy(&mut program);
            result
        }
    }
}
