//! Picking an installation, and the line that remedies its absence.

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
