//! Picking an installation, and the line that remedies its absence.

use std::ffi::{CStr, CString, c_char, c_void};

use super::*;
use crate::machines::cuda_card;

const DRIVER_12_4: Option<CudaVersion> = Some(CudaVersion { major: 12, minor: 4 });

fn version(major: u32, minor: u32) -> CudaVersion {
    CudaVersion { major, minor }
}

/// An installation whose headers lie in `folder`; `headers` are written there.
fn installation(version: CudaVersion, folder: &Path, headers: &[&str]) -> Installation {
    for header in headers {
        let path = folder.join(header);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
        std::fs::write(path, "").expect("a written file");
    }
    Installation {
        library: folder.join("libnvrtc.so"),
        version,
        architectures: vec![75, 80, 86, 87, 89, 90],
        includes: vec![folder.to_owned()],
    }
}

const BASIC: [&str; 3] = ["cuda_runtime.h", "cuda_fp16.h", "mma.h"];
const FULL: [&str; 4] = ["cuda_runtime.h", "cuda_fp16.h", "mma.h", "crt/mma.h"];

fn problem_text(result: Result<Installation, Problem>) -> String {
    result.expect_err("nothing fits").reason
}

#[test]
fn nothing_installed_is_a_problem_with_a_remedy() {
    let card = cuda_card("a card", "", (8, 6));
    let problem = pick(&[], &[], DRIVER_12_4, &card).expect_err("nothing there");
    assert!(problem.reason.contains("NVRTC"), "{}", problem.reason);
    assert_eq!(
        problem.remedy.as_deref(),
        Some(
            "pip install \"nvidia-cuda-nvrtc-cu12<12.5\" \"nvidia-cuda-runtime-cu12<12.5\" \
             \"nvidia-cuda-nvcc-cu12<12.5\""
        )
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_compiler_newer_than_the_driver_or_ignorant_of_the_card_does_not_fit() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let fit = installation(version(12, 4), folder.path(), &FULL);
    let new = installation(version(12, 6), folder.path(), &FULL);
    let card = cuda_card("a card", "", (8, 6));
    let picked = pick(&[new.clone(), fit.clone()], &[], DRIVER_12_4, &card).expect("one fits");
    assert_eq!(picked, fit);

    let text = problem_text(pick(&[new], &[], DRIVER_12_4, &card));
    assert!(text.contains("newer than the driver (CUDA 12.4)"), "{text}");
    let blackwell = cuda_card("a newer card", "", (12, 0));
    let text = problem_text(pick(&[fit], &[], DRIVER_12_4, &blackwell));
    assert!(text.contains("compute capability 12.0"), "{text}");
}

#[cfg(target_os = "linux")]
#[test]
fn headers_are_needed_and_those_for_tensor_cores_preferred() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bare = installation(version(12, 4), &folder.path().join("bare"), &[]);
    let basic = installation(version(12, 4), &folder.path().join("basic"), &BASIC);
    let full = installation(version(12, 2), &folder.path().join("full"), &FULL);
    let card = cuda_card("a card", "", (8, 6));
    let text = problem_text(pick(std::slice::from_ref(&bare), &[], DRIVER_12_4, &card));
    assert!(text.contains("lacks the CUDA headers"), "{text}");

    let picked = pick(&[bare, basic.clone(), full.clone()], &[], DRIVER_12_4, &card);
    assert_eq!(picked.expect("two fit"), full);
    let warning = header_warning(&basic, DRIVER_12_4, &card).expect("crt/mma.h is missing");
    assert!(warning.contains("nvidia-cuda-nvcc-cu12"), "{warning}");
    assert_eq!(header_warning(&full, DRIVER_12_4, &card), None);
    let pascal = cuda_card("an old card", "", (6, 1));
    assert_eq!(header_warning(&basic, DRIVER_12_4, &pascal), None);
    let hopper = cuda_card("a server's card", "", (9, 0));
    let warning = header_warning(&full, DRIVER_12_4, &hopper).expect("cuda/barrier is missing");
    assert!(warning.contains("cuda/barrier") && warning.contains("cccl"), "{warning}");
}

#[test]
fn an_old_driver_is_a_problem_of_its_own() {
    let card = cuda_card("a card", "", (8, 6));
    let problem = pick(&[], &[], Some(version(11, 4)), &card).expect_err("too old");
    assert!(problem.reason.contains("CUDA 11.4"), "{}", problem.reason);
    assert!(problem.remedy.expect("a remedy").contains("525.60.13"));
}

#[test]
fn a_library_that_does_not_load_is_named() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let library = folder.path().join("libnvrtc.so.12");
    std::fs::write(&library, "not a library").expect("a written file");
    let (installations, broken) = inspect_all(vec![Found { library, includes: Vec::new() }]);
    assert!(installations.is_empty());
    assert!(broken[0].contains("libnvrtc.so.12 does not load"), "{}", broken[0]);
}

/// A kernel that needs a header, for the newest architecture all wheels know.
const KERNEL: &CStr =
    c"#include <cuda_fp16.h>\nextern \"C\" __global__ void f(__half *x) { x[threadIdx.x] = __float2half(1.0f); }";

#[test]
fn a_wheel_s_compiler_and_headers_are_found_without_cuda_path_and_compile_a_kernel() {
    let places = Places::from_variables(&|name| (name == "PATH").then(|| std::env::var_os("PATH")).flatten());
    let in_wheels = |found: &Found| found.library.components().any(|part| part.as_os_str() == "site-packages");
    let found = places.installations().into_iter().filter(in_wheels).collect();
    let (installations, _) = inspect_all(found);
    let Some(installation) = installations.iter().find(|installation| installation.has_headers()) else {
        return skip("no NVRTC with headers in the Python on the path");
    };
    assert!(installation.architectures.contains(&75), "{installation:?}");
    let ptx = compile(installation, KERNEL, "compute_75").unwrap_or_else(|log| panic!("{log}"));
    assert!(ptx.contains(".target sm_75") && ptx.contains(".entry f"), "{ptx}");
}

#[expect(clippy::print_stderr, reason = "whoever runs the tests is to see that one did nothing")]
fn skip(reason: &str) {
    assert!(std::env::var_os("KILN_REQUIRE_NVRTC").is_none(), "KILN_REQUIRE_NVRTC is set: {reason}");
    eprintln!("skipped: {reason}");
}

/// Compiles with the library and the headers of `installation`; the compiler's log if it can't.
fn compile(installation: &Installation, source: &CStr, architecture: &str) -> Result<String, String> {
    type Program = *mut c_void;
    type Strings = *const *const c_char;
    type Create = unsafe extern "C" fn(*mut Program, *const c_char, *const c_char, c_int, Strings, Strings) -> c_int;
    type Compile = unsafe extern "C" fn(Program, c_int, Strings) -> c_int;
    type Size = unsafe extern "C" fn(Program, *mut usize) -> c_int;
    type Text = unsafe extern "C" fn(Program, *mut c_char) -> c_int;
    let includes = installation.includes.iter().map(|folder| format!("--include-path={}", folder.display()));
    let options = includes.chain([format!("--gpu-architecture={architecture}")]);
    let options: Vec<CString> = options.map(|option| CString::new(option).expect("text without zeros")).collect();
    let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
    // SAFETY: the signatures are those of nvrtc.h; all pointers live until the calls return, and each buffer is as
    // large as NVRTC asked for.
    #[expect(unsafe_code, reason = "NVRTC has a C interface")]
    unsafe {
        let library = Library::new(&installation.library).expect("loaded before");
        let text = |program: Program, size: &[u8], get: &[u8]| {
            let size = library.get::<Size>(size).expect("a function of NVRTC");
            let get = library.get::<Text>(get).expect("a function of NVRTC");
            let mut length = 0;
            assert_eq!(size(program, &mut length), 0);
            let mut buffer = vec![0_u8; length.max(1)];
            assert_eq!(get(program, buffer.as_mut_ptr().cast()), 0);
            CStr::from_bytes_until_nul(&buffer).expect("text that ends").to_string_lossy().into_owned()
        };
        let create = library.get::<Create>(b"nvrtcCreateProgram\0").expect("a function of NVRTC");
        let run = library.get::<Compile>(b"nvrtcCompileProgram\0").expect("a function of NVRTC");
        let (mut program, none) = (std::ptr::null_mut(), std::ptr::null());
        assert_eq!(create(&mut program, source.as_ptr(), c"f.cu".as_ptr(), 0, none, none), 0);
        match run(program, pointers.len() as c_int, pointers.as_ptr()) {
            0 => Ok(text(program, b"nvrtcGetPTXSize\0", b"nvrtcGetPTX\0")),
            _ => Err(text(program, b"nvrtcGetProgramLogSize\0", b"nvrtcGetProgramLog\0")),
        }
    }
}

#[test]
fn the_remedy_fits_driver_and_card() {
    for (driver, capability, expected) in [
        ((12, 2), (8, 6), "\"nvidia-cuda-nvrtc-cu12<12.3\""),
        ((12, 9), (8, 6), "nvidia-cuda-nvrtc-cu12 nvidia-cuda-runtime-cu12 nvidia-cuda-nvcc-cu12"),
        ((13, 0), (7, 5), "nvidia-cuda-nvcc-cu12"),
        ((13, 0), (9, 0), "nvidia-cuda-cccl-cu12"),
        ((13, 0), (11, 0), "\"nvidia-cuda-nvrtc<13.1\""),
    ] {
        let driver = Some(version(driver.0, driver.1));
        let line = remedy(driver, Some(capability));
        assert!(line.contains(expected), "{driver:?} {capability:?}: {line}");
    }
}
