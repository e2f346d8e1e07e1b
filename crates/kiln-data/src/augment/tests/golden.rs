//! Our transforms against torchvision's, on everything of ours that the golden folder's manifest lists.
//!
//! The folder is `KILN_GOLDEN_DIR`, or the small subset in `tests/golden` of this crate, made by
//! `tools/golden/subset_transforms.py`. Inputs, parameters and tolerances come from the manifest.

use std::path::PathBuf;

use safetensors::{Dtype, SafeTensors};
use serde_json::Value;

use super::golden_mixing;
use crate::augment::color::posterize::PosterizeRange;
use crate::augment::geometric::affine::Affine;
use crate::augment::geometric::center_crop::CenterCrop;
use crate::augment::geometric::perspective::quadrangle_map;
use crate::augment::geometric::resize::{Resize, ResizeTo};
use crate::augment::geometry::{Border, Fill, Filter};
use crate::augment::pixel_op::PixelOp;
use crate::augment::policy::Sampling;
use crate::augment::policy::operation::Operation;
use crate::augment::program::{Erased, Paint, Program};
use crate::augment::record::Records;
use crate::augment::run::{LaunchCounter, OutputFormat, run_on_host};
use crate::batch::ImageSlot;

/// Operations in the manifest that are no business of the geometry and pixel operations tested here, or not ours.
const ELSEWHERE: [&str; 8] = [
    "kornia adjust_brightness on u8/255", // Additive.
    "kornia adjust_contrast on u8/255",   // Towards black.
    "kornia adjust_contrast_mean on u8/255",
    "kornia adjust_saturation on u8/255", // In HSV.
    "kornia equalize on u8/255",
    "kornia posterize on u8/255",
    "kornia rotate on u8/255", // With corners aligned.
    "kornia sharpness on u8/255",
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

    pub(super) fn bytes(&self, name: &str) -> Vec<u8> {
        let path = self.folder.join(name);
        std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }
}

/// A golden tensor: bytes stay 0–255, in `[N, C, H, W]`.
pub(super) struct Array {
    pub(super) shape: [usize; 4],
    pub(super) values: Vec<f32>,
    is_u8: bool,
}

pub(super) fn array(file: &SafeTensors, key: &str) -> Array {
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

impl Array {
    /// One channel three times.
    fn with_three_channels(&self) -> Self {
        let [num_images, channels, height, width] = self.shape;
        let copies = 3 / channels;
        let values = self.values.chunks(channels * height * width).flat_map(|image| image.repeat(copies)).collect();
        Self { shape: [num_images, 3, height, width], values, is_u8: self.is_u8 }
    }
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
    let unknown: Vec<_> = skipped.iter().filter(|name| !is_elsewhere(name)).collect();
    assert!(unknown.is_empty(), "operations that are neither ours nor in the list: {unknown:?}");
    assert!(num_run >= 10, "{num_run} cases run, {} skipped in {}", skipped.len(), golden.describe());
}

fn is_elsewhere(operation: &str) -> bool {
    ELSEWHERE.contains(&operation) || golden_mixing::OPERATIONS.contains(&operation)
}

/// The plan of a case, or the name under which the operation is missing.
fn plan(case: &Value, input_shape: impl Fn() -> [usize; 4]) -> Result<Plan, String> {
    let (operation, params) = (text(&case["op"]), &case["params"]);
    // First, since some of these have no images as input.
    if is_elsewhere(operation) {
        return Err(operation.to_owned());
    }
    let is_float = !text(&case["backend"]).contains("uint8");
    let [_, _, height, width] = input_shape().map(|side| side as u32);
    let mut program = Program::new(width, height);
    let number = |name: &str| params[name].as_f64().unwrap_or_else(|| panic!("{name} of {case}"));
    let crop_corner = || [integer(&params["top"]), integer(&params["left"])];
    let crop_size = || [integer(&params["height"]) as u32, integer(&params["width"]) as u32];
    let filter = filter(params);
    let turn_filter = if params["interpolation"] == "nearest" { Filter::NearestExact } else { Filter::Bilinear };
    let fill = fill(&params["fill"]);
    let mut rounds_to_bytes = false;
    let middle = [f64::from(width) / 2.0, f64::from(height) / 2.0];
    match operation {
        "horizontal_flip" => program.flip_horizontally(),
        "vertical_flip" => program.flip_vertically(),
        "crop" => program.crop(crop_corner(), crop_size()),
        "resized_crop" => {
            program.crop(crop_corner(), crop_size());
            program.resize(pair(&params["size"]), filter);
        }
        "resize" => {
            let size = match params["size"].as_array().map(Vec::as_slice) {
                Some([side]) => ResizeTo::ShorterSide(integer(side) as u32),
                _ => ResizeTo::Exactly(pair(&params["size"])),
            };
            let max_size = params["max_size"].as_u64().map(|side| side as u32);
            let size = Resize { max_size, ..Resize::new(size) }.output_size([height, width]);
            program.resize(size, filter);
        }
        "kornia resize_bilinear_noaa on u8/255" => program.resize(pair(&params["size"]), Filter::Bilinear),
        "center_crop" => CenterCrop { size: Some(pair(&params["output_size"])) }.apply(&mut program, [0, 0]),
        "pad" => {
            let [left, top, right, bottom] = [0, 1, 2, 3].map(|side| integer(&params["padding"][side]) as u32);
            let border = match text(&params["padding_mode"]) {
                "edge" => Some(Border::Edge),
                "reflect" => Some(Border::Reflect),
                "symmetric" => Some(Border::Symmetric),
                _ => None,
            };
            program.set_fill(fill);
            program.pad([top, left], [bottom, right], border);
        }
        "rotate" => {
            let turn = Affine { angle_degrees: -number("angle"), ..Affine::IDENTITY };
            let center =
                params["center"].as_array().map(|center| [0, 1].map(|axis| center[axis].as_f64().expect("x, y")));
            let (map, size) = match params["expand"].as_bool() {
                Some(true) => turn.expanded([height, width]),
                _ => (turn.about(center.unwrap_or(middle)), [height, width]),
            };
            program.warp(map, size, turn_filter, fill);
        }
        "affine" => {
            let pair = |name: &str| [0, 1].map(|axis| params[name][axis].as_f64().expect("x, y"));
            let affine = Affine {
                angle_degrees: number("angle"),
                translate: pair("translate"),
                scale: number("scale"),
                shear_degrees: pair("shear"),
            };
            program.warp(affine.about(middle), [height, width], turn_filter, fill);
        }
        "perspective" => {
            let points = |name: &str| {
                [0, 1, 2, 3].map(|point| [0, 1].map(|axis| params[name][point][axis].as_f64().expect("x, y")))
            };
            let map = quadrangle_map(points("endpoints"), points("startpoints")).expect("a quadrangle");
            program.warp(map, [height, width], turn_filter, fill);
        }
        "adjust_brightness" => program.push(PixelOp::Brightness { factor: number("brightness_factor") }),
        "adjust_contrast" => program.push(PixelOp::Contrast { factor: number("contrast_factor") }),
        "adjust_saturation" => program.push(PixelOp::Saturation { factor: number("saturation_factor") }),
        "adjust_hue" => program.push(PixelOp::Hue { turns: number("hue_factor") }),
        "kornia adjust_hue on u8/255" => {
            program.push(PixelOp::Hue { turns: number("factor_radians") / std::f64::consts::TAU });
        }
        "adjust_gamma" => program.push(PixelOp::Gamma { gamma: number("gamma"), gain: number("gain") }),
        "rgb_to_grayscale" => program.push(PixelOp::Grayscale),
        "invert" => program.push(PixelOp::Invert),
        "solarize" | "kornia solarize on u8/255" => {
            let threshold = number("threshold") * if is_float { 255.0 } else { 1.0 };
            program.push(PixelOp::Solarize { threshold });
        }
        "posterize" => {
            let range = if is_float { PosterizeRange::Fractions } else { PosterizeRange::Bytes };
            program.push(PixelOp::Posterize { bits: number("bits") as u32, range });
        }
        "autocontrast" => program.push(PixelOp::Autocontrast),
        "equalize" => program.push(PixelOp::Equalize),
        "adjust_sharpness" => program.push(PixelOp::Sharpness { factor: number("sharpness_factor") }),
        "gaussian_blur" => {
            let axes = |name: &str| [1, 0].map(|axis| params[name][axis].as_f64().expect("x, y"));
            let num_taps = axes("kernel_size").map(|taps| taps as u32);
            program.push(PixelOp::GaussianBlur { num_taps, sigma: axes("sigma") });
        }
        "kornia gaussian_blur2d on u8/255" => {
            let axes = |name: &str| [0, 1].map(|axis| params[name][axis].as_f64().expect("y, x"));
            program
                .push(PixelOp::GaussianBlur { num_taps: axes("kernel").map(|taps| taps as u32), sigma: axes("sigma") });
        }
        "erase" => {
            let [top, left, height, width] = ["i", "j", "h", "w"].map(|name| integer(&params[name]) as u32);
            let value =
                |channel: usize| params["v"][channel].as_f64().or(params["v"].as_f64()).expect("a value") as f32;
            let paint = Paint::Constant([0, 1, 2].map(value));
            program.erase(Erased { region: [top, left, top + height, left + width], paint });
        }
        "to_dtype(float32, scale=True)" | "to_dtype then normalize" | "kornia normalize on u8/255" => {}
        chain if chain.contains("->") => {
            rounds_to_bytes = true;
            chain.split("->").for_each(|step| apply_chained(step, &mut program));
        }
        policy if policy.starts_with("torchvision autoaugment _apply_op ") => {
            let name = policy.rsplit(' ').next().unwrap_or_default();
            let operation = Operation::named(name).ok_or_else(|| name.to_owned())?;
            let argument = operation.argument(number("magnitude"));
            operation.apply(argument, Sampling { filter: turn_filter, fill }, &mut program);
        }
        other => return Err(other.to_owned()),
    }
    let constants = |name: &str, default| match params[name].as_array() {
        Some(values) => [0, 1, 2].map(|channel| values[channel].as_f64().expect("a constant") as f32),
        None => [default; 3],
    };
    Ok(Plan { program, mean: constants("mean", 0.0), std: constants("std", 1.0), rounds_to_bytes })
}

/// The filter of a resize.
fn filter(params: &Value) -> Filter {
    let is_antialiased = params["antialias"].as_bool().unwrap_or(true);
    match (params["interpolation"].as_str().unwrap_or("bilinear"), is_antialiased) {
        ("nearest", _) => Filter::Nearest,
        ("nearest-exact", _) => Filter::NearestExact,
        ("bicubic", true) => Filter::BicubicAntialiased,
        ("bicubic", false) => Filter::Bicubic,
        (_, is_antialiased) => Filter::bilinear(is_antialiased),
    }
}

/// Nothing, one number for all channels, or three.
fn fill(value: &Value) -> Fill {
    let color = |channel: usize| value[channel].as_f64().or(value.as_f64());
    match [0, 1, 2].map(color) {
        [Some(red), Some(green), Some(blue)] => Fill { color: [red, green, blue], is_named: true },
        _ => Fill::BLACK,
    }
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
    let want = &want.with_three_channels();
    assert_eq!(want.shape, [num_images, 3, size[0] as usize, size[1] as usize], "{key}: shape");
    // In bytes where the reference is bytes.
    let as_bytes = want.is_u8 || plan.rounds_to_bytes;
    let (mean, std) = if as_bytes { ([0.0; 3], [1.0 / 255.0; 3]) } else { (plan.mean, plan.std) };
    let side = size.map(|side| side as usize);
    let format = OutputFormat::new(side, mean, std, &LaunchCounter::default());
    let found: Vec<f32> = (0..num_images)
        .flat_map(|image| {
            let planes = &input.values[image * 3 * height * width..][..3 * height * width];
            let pixels: Vec<u8> =
                (0..height * width * 3).map(|i| planes[(i % 3) * height * width + i / 3] as u8).collect();
            let slot = ImageSlot::whole(0, width as u32, height as u32);
            let records = Records::new(&[slot], std::slice::from_ref(&plan.program), &[], side);
            run_on_host(&pixels, &records.words, &OutputFormat { plan: records.plan, ..format.clone() })
        })
        .collect();
    let class = Class::of(&plan.program);
    if as_bytes {
        let plane = size[0] as usize * size[1] as usize;
        let to_byte = |(i, &value): (usize, &f32)| {
            let channel = i / plane % 3;
            if want.is_u8 { value } else { ((value * plan.std[channel] + plan.mean[channel]) * 255.0).round() }
        };
        let want: Vec<f32> = want.values.iter().enumerate().map(to_byte).collect();
        let found: Vec<f32> = found.iter().map(|value| value.round().clamp(0.0, 255.0)).collect();
        check_share(key, &found, &want, class.of_bytes(text(&tolerance["u8"])));
    } else {
        check_share(key, &found, &want.values, class.of_floats(text(&tolerance["f32"])));
    }
}

/// What the manifest's tolerances distinguish.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    /// Pixels are moved, or change in whole levels.
    Exact,
    /// Pixels are moved, where to is rounded.
    NearestWarp,
    /// Each pixel by itself.
    Pointwise,
    /// Of several pixels, or by way of HSV.
    Interpolation,
}

impl Class {
    fn of(program: &Program) -> Self {
        let layer = &program.layers[0];
        let geometry = &layer.geometry;
        let is_moved = geometry.rows.step.abs() == 1.0 && geometry.columns.step.abs() == 1.0;
        let is_blurred = |op: &PixelOp| matches!(op, PixelOp::GaussianBlur { .. } | PixelOp::Hue { .. });
        let is_exact =
            |op: &PixelOp| matches!(op, PixelOp::Invert | PixelOp::Posterize { .. } | PixelOp::Solarize { .. });
        match &geometry.warp {
            Some(_) if geometry.filter <= Filter::NearestExact => Self::NearestWarp,
            Some(_) => Self::Interpolation,
            None if !is_moved || layer.ops.iter().any(is_blurred) => Self::Interpolation,
            None if layer.ops.iter().all(is_exact) => Self::Exact,
            None => Self::Pointwise,
        }
    }

    /// How much a byte may differ, and the share of bytes that must keep to it.
    fn of_bytes(self, tolerance: &str) -> [f64; 2] {
        match self {
            Self::Exact => [0.0, 1.0],
            Self::NearestWarp => [0.0, 1.0 - number_after("<=", tolerance.rsplit(';').next().unwrap_or("")) / 100.0],
            _ => [number_after("|d|<=", tolerance), number_after(">=", tolerance) / 100.0],
        }
    }

    /// Likewise for values of 0–1.
    fn of_floats(self, tolerance: &str) -> [f64; 2] {
        let pointwise = tolerance_of("pointwise", tolerance);
        match self {
            Self::NearestWarp => [pointwise, 1.0 - number_after("<=", tolerance) / 100.0],
            Self::Exact | Self::Pointwise => [pointwise, 1.0],
            Self::Interpolation => [tolerance_of("interpolation", tolerance), 1.0],
        }
    }
}

/// Asserts that `share` of the values differ by at most `allowed`.
pub(super) fn check_share(key: &str, found: &[f32], want: &[f32], [allowed, share]: [f64; 2]) {
    let differences = found.iter().zip(want).map(|(found, want)| f64::from((found - want).abs()));
    let num_within = differences.clone().filter(|difference| *difference <= allowed).count();
    let found_share = num_within as f64 / want.len() as f64;
    let (index, _) = differences.enumerate().fold((0, 0.0), |worst, it| if it.1 > worst.1 { it } else { worst });
    let [found, want] = [found[index], want[index]];
    assert!(
        found_share >= share,
        "{key}: {found_share} of the values within {allowed:e}; value {index} is {found}, should be {want}"
    );
}

/// The number before the first clause about `kind`: `1e-5 pointwise ops, 1e-4 interpolation/...`.
pub(super) fn tolerance_of(kind: &str, tolerance: &str) -> f64 {
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

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("{value} is no string"))
}

pub(super) fn integer(value: &Value) -> i64 {
    value.as_i64().unwrap_or_else(|| panic!("{value} is no integer"))
}

fn pair(value: &Value) -> [u32; 2] {
    [0, 1].map(|index| integer(&value[index]) as u32)
}
