//! Our transforms against torchvision's, on everything of ours that the golden folder's manifest lists.
//!
//! The folder is `KILN_GOLDEN_DIR`, or the small subset in `tests/golden` of this crate, made by
//! `tools/golden/subset_transforms.py`. Inputs, parameters and tolerances come from the manifest.

use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use crate::augment::center_crop::CenterCrop;
use crate::augment::geometry::{Axis, Filter};
use crate::augment::program::{ImageRecord, Program};
use crate::augment::resize::{Resize, ResizeTo};
use crate::augment::run::{LaunchCounter, OutputFormat, run_on_host};
use crate::batch::ImageSlot;

/// Operations in the manifest that Kiln doesn't have yet; the augmentation issue (3) empties this list.
const NOT_YET: [&str; 57] = [
    "adjust_brightness",
    "adjust_contrast",
    "adjust_gamma",
    "adjust_hue",
    "adjust_saturation",
    "adjust_sharpness",
    "affine",
    "autocontrast",
    "equalize",
    "erase",
    "gaussian_blur",
    "invert",
    "kornia adjust_brightness on u8/255",
    "kornia adjust_contrast on u8/255",
    "kornia adjust_contrast_mean on u8/255",
    "kornia adjust_hue on u8/255",
    "kornia adjust_saturation on u8/255",
    "kornia equalize on u8/255",
    "kornia gaussian_blur2d on u8/255",
    "kornia posterize on u8/255",
    "kornia rotate on u8/255",
    "kornia sharpness on u8/255",
    "kornia solarize on u8/255",
    "label mix",
    "label mix with lam_adjusted",
    "pad",
    "perspective",
    "posterize",
    "resize bicubic",
    "resize nearest",
    "resize nearest-exact",
    "resized_crop bicubic",
    "resized_crop nearest",
    "rgb_to_grayscale",
    "rotate",
    "solarize",
    "timm Mixup batch mode: x*lam + flip(x,0)*(1-lam)",
    "timm cutmix: box from flip(x,0)",
    "timm mixup_target smoothing=0.1",
    "torchvision autoaugment _apply_op AutoContrast",
    "torchvision autoaugment _apply_op Brightness",
    "torchvision autoaugment _apply_op Color",
    "torchvision autoaugment _apply_op Contrast",
    "torchvision autoaugment _apply_op Equalize",
    "torchvision autoaugment _apply_op Identity",
    "torchvision autoaugment _apply_op Invert",
    "torchvision autoaugment _apply_op Posterize",
    "torchvision autoaugment _apply_op Rotate",
    "torchvision autoaugment _apply_op Sharpness",
    "torchvision autoaugment _apply_op ShearX",
    "torchvision autoaugment _apply_op ShearY",
    "torchvision autoaugment _apply_op Solarize",
    "torchvision autoaugment _apply_op TranslateX",
    "torchvision autoaugment _apply_op TranslateY",
    "v2.CutMix: inside box pixels come from roll(x,1,0)",
    "v2.MixUp: out = x*lam + roll(x,1,dim=0)*(1-lam); on u8/255",
    "vertical_flip",
];

/// A folder of golden files.
pub(super) struct Golden {
    folder: PathBuf,
}

impl Golden {
    pub(super) fn open() -> Self {
        let own = || concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden").into();
        Self { folder: std::env::var_os("KILN_GOLDEN_DIR").unwrap_or_else(own).into() }
    }

    pub(super) fn describe(&self) -> String {
        self.folder.display().to_string()
    }

    pub(super) fn json(&self, name: &str) -> Value {
        serde_json::from_slice(&self.bytes(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// A golden tensor: bytes stay 0–255, in `[N, C, H, W]`.
struct Array {
    shape: [usize; 4],
    values: Vec<f32>,
    is_u8: bool,
}

fn array(file: &SafeTensors, key: &str) -> Array {
    let view = file.tensor(key).unwrap_or_else(|error| panic!("{key}: {error}"));
    let is_u8 = view.dtype() == Dtype::U8;
    let values = match view.dtype() {
        Dtype::U8 => view.data().iter().map(|&byte| f32::from(byte)).collect(),
        Dtype::F32 => view.data().as_chunks().0.iter().map(|&bytes| f32::from_le_bytes(bytes)).collect(),
        other => panic!("{key} is {other:?}"),
    };
    let shape = view.shape().try_into().unwrap_or_else(|_| panic!("{key} has shape {:?}", view.shape()));
    Array { shape, values, is_u8 }
}

/// What a case computes: the program, and how its output is scaled.
struct Plan {
    program: Program,
    mean: [f32; 3],
    std: [f32; 3],
    /// Resized as bytes and only then made floats, so that the reference carries the rounding to bytes.
    rounds_to_bytes: bool,
}

#[test]
fn transforms_match_torchvision() {
    let golden = Golden::open();
    let manifest = golden.json("manifest.json");
    let (mut num_run, mut skipped) = (0, Vec::new());
    for (name, entry) in manifest["files"].as_object().expect("files by name") {
        if !name.starts_with("transforms") {
            continue;
        }
        let bytes = golden.bytes(name);
        let file = SafeTensors::deserialize(&bytes).unwrap_or_else(|error| panic!("{name}: {error}"));
        for case in entry["cases"].as_array().expect("cases") {
            let key = text(&case["key"]);
            if text(&case["backend"]).contains("PIL") {
                continue; // Informative, says the manifest: PIL rounds between its two passes.
            }
            match plan(case, || array(&file, text(&case["input"])).shape) {
                Ok(plan) => {
                    check(key, &plan, &array(&file, text(&case["input"])), &array(&file, key), &entry["tolerance"]);
                    num_run += 1;
                }
                Err(operation) => skipped.push(operation),
            }
        }
    }
    let is_listed =
        |name: &&String| NOT_YET.iter().any(|listed| *listed == **name || name.starts_with(&format!("{listed} ")));
    let unknown: Vec<_> = skipped.iter().filter(|name| !is_listed(name)).collect();
    assert!(unknown.is_empty(), "operations that are neither ours nor in the list: {unknown:?}");
    assert!(num_run >= 10, "{num_run} cases run, {} skipped in {}", skipped.len(), golden.describe());
}

/// The plan of a case, or the name under which the operation is missing.
fn plan(case: &Value, input_shape: impl Fn() -> [usize; 4]) -> Result<Plan, String> {
    let (operation, params) = (text(&case["op"]), &case["params"]);
    let filter = params["interpolation"].as_str().unwrap_or("bilinear");
    let name = if filter == "bilinear" { operation.to_owned() } else { format!("{operation} {filter}") };
    // First, since some of these have no images as input.
    if NOT_YET.contains(&operation) || NOT_YET.contains(&name.as_str()) {
        return Err(name);
    }
    let antialias = params["antialias"].as_bool().unwrap_or(true);
    let [_, _, height, width] = input_shape();
    let mut program = Program::new(width as u32, height as u32);
    let geometry = &mut program.geometry;
    let crop_corner = || [integer(&params["top"]), integer(&params["left"])];
    let crop_size = || [integer(&params["height"]) as u32, integer(&params["width"]) as u32];
    let mut rounds_to_bytes = false;
    match operation {
        "horizontal_flip" => geometry.flip_horizontally(),
        "crop" => geometry.crop(crop_corner(), crop_size()),
        "resized_crop" if filter == "bilinear" => {
            geometry.crop(crop_corner(), crop_size());
            geometry.resize(pair(&params["size"]), Filter::bilinear(antialias));
        }
        "resize" if filter == "bilinear" => {
            let size = match params["size"].as_array().map(Vec::as_slice) {
                Some([side]) => ResizeTo::ShorterSide(integer(side) as u32),
                _ => ResizeTo::Exactly(pair(&params["size"])),
            };
            let max_size = params["max_size"].as_u64().map(|side| side as u32);
            Resize { size, max_size, antialias }.apply(&mut program);
        }
        "kornia resize_bilinear_noaa on u8/255" => geometry.resize(pair(&params["size"]), Filter::Bilinear),
        "center_crop" => CenterCrop { size: Some(pair(&params["output_size"])) }.apply(&mut program, [0, 0]),
        "to_dtype(float32, scale=True)" | "to_dtype then normalize" | "kornia normalize on u8/255" => {}
        chain if chain.contains("->") => {
            rounds_to_bytes = true;
            chain.split("->").for_each(|step| apply_chained(step, &mut program));
        }
        _ => return Err(name),
    }
    let constants = |name: &str, default| match params[name].as_array() {
        Some(values) => [0, 1, 2].map(|channel| values[channel].as_f64().expect("a constant") as f32),
        None => [default; 3],
    };
    Ok(Plan { program, mean: constants("mean", 0.0), std: constants("std", 1.0), rounds_to_bytes })
}

/// `resize(72,aa)` and the like.
fn apply_chained(step: &str, program: &mut Program) {
    let (name, arguments) = step.split_once('(').unwrap_or((step, ""));
    let side = || arguments.trim_end_matches(')').split(',').next().and_then(|side| side.parse().ok());
    match name {
        "resize" => Resize::new(ResizeTo::ShorterSide(side().expect("a side"))).apply(program),
        "center_crop" => CenterCrop { size: side().map(|side| [side; 2]) }.apply(program, [0, 0]),
        "to_dtype" | "normalize" => {}
        other => panic!("{other} in a chain"),
    }
}

/// Runs the plan on every image of the input and compares with what torchvision gave.
fn check(key: &str, plan: &Plan, input: &Array, want: &Array, tolerance: &Value) {
    let [num_images, channels, height, width] = input.shape;
    assert_eq!(channels, 3, "{key}: RGB");
    let size = plan.program.size();
    assert_eq!(want.shape, [num_images, 3, size[0] as usize, size[1] as usize], "{key}: shape");
    // In bytes where the reference is bytes.
    let as_bytes = want.is_u8 || plan.rounds_to_bytes;
    let (mean, std) = if as_bytes { ([0.0; 3], [1.0 / 255.0; 3]) } else { (plan.mean, plan.std) };
    let format = OutputFormat::new(size.map(|side| side as usize), mean, std, &LaunchCounter::default());
    let found: Vec<f32> = (0..num_images)
        .flat_map(|image| {
            let planes = &input.values[image * 3 * height * width..][..3 * height * width];
            let pixels: Vec<u8> =
                (0..height * width * 3).map(|i| planes[(i % 3) * height * width + i / 3] as u8).collect();
            let slot = ImageSlot { offset: 0, width: width as u32, height: height as u32 };
            run_on_host(&pixels, &ImageRecord::new(&slot, &plan.program).to_words(), &format)
        })
        .collect();
    let copies = |axis: &Axis| axis.step.abs() == 1.0;
    let copies = copies(&plan.program.geometry.rows) && copies(&plan.program.geometry.columns);
    if as_bytes {
        let plane = size[0] as usize * size[1] as usize;
        let to_byte = |(i, &value): (usize, &f32)| {
            let channel = i / plane % 3;
            if want.is_u8 { value } else { ((value * plan.std[channel] + plan.mean[channel]) * 255.0).round() }
        };
        let want: Vec<f32> = want.values.iter().enumerate().map(to_byte).collect();
        check_bytes(key, &found, &want, copies, text(&tolerance["u8"]));
    } else {
        let kind = if copies { "pointwise" } else { "interpolation" };
        check_floats(key, &found, &want.values, tolerance_of(kind, text(&tolerance["f32"])));
    }
}

/// `u8` of the manifest: copies are exact, of resampled pixels a share may differ by more than a little.
fn check_bytes(key: &str, found: &[f32], want: &[f32], copies: bool, tolerance: &str) {
    let (allowed, share) =
        if copies { (0.0, 1.0) } else { (number_after("|d|<=", tolerance), number_after(">=", tolerance) / 100.0) };
    let difference = |(found, want): (&f32, &f32)| f64::from((found.round() - want).abs());
    let num_within = found.iter().zip(want).map(difference).filter(|&difference| difference <= allowed).count();
    let largest = found.iter().zip(want).map(difference).fold(0.0, f64::max);
    let found_share = num_within as f64 / want.len() as f64;
    assert!(found_share >= share, "{key}: {found_share} of the bytes within {allowed}, largest difference {largest}");
}

fn check_floats(key: &str, found: &[f32], want: &[f32], tolerance: f64) {
    let differences = found.iter().zip(want).map(|(found, want)| f64::from((found - want).abs()));
    let (index, largest) = differences.enumerate().fold((0, 0.0), |worst, it| if it.1 > worst.1 { it } else { worst });
    let (found, want) = (found[index], want[index]);
    assert!(largest <= tolerance, "{key}: value {index} is {found}, torchvision has {want}: {largest:e} apart");
}

/// The number before the first clause about `kind`: `1e-5 pointwise ops, 1e-4 interpolation/...`.
fn tolerance_of(kind: &str, tolerance: &str) -> f64 {
    let clause = tolerance.split([',', ';']).find(|clause| clause.contains(kind));
    let number = clause.and_then(|clause| clause.split_whitespace().next()?.parse().ok());
    number.unwrap_or_else(|| panic!("no tolerance for {kind} in {tolerance:?}"))
}

fn number_after(sign: &str, tolerance: &str) -> f64 {
    let rest = tolerance.split_once(sign).map(|(_, rest)| rest);
    let end = |rest: &str| rest.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(rest.len());
    let number = rest.and_then(|rest| rest[..end(rest)].parse().ok());
    number.unwrap_or_else(|| panic!("no number after {sign} in {tolerance:?}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string"))
}

fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no integer"))
}

fn pair(value: &Value) -> [u32; 2] {
    [0, 1].map(|index| integer(&value[index]) as u32)
}
