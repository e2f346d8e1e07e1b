//! Random programs of up to twelve operations: the kernels against their scalar twin, on every device there is.

use burn::tensor::Tensor;
use proptest::prelude::*;

use super::*;
use crate::augment::color::posterize::PosterizeRange;
use crate::augment::geometric::affine::Affine;
use crate::augment::geometric::perspective::quadrangle_map;
use crate::augment::geometry::{Border, Fill, Filter};
use crate::augment::pixel_op::PixelOp;
use crate::augment::program::{Erased, Paint};

/// Levels are the same to the bit; normalising and weighing are a few roundings of f32 at values up to 2.7.
const TOLERANCE: f32 = 1e-5;

/// Height and width of the source images of a batch.
const SIZES: [[u32; 2]; 6] = [[1, 1], [1, 53], [37, 2], [24, 31], [64, 48], [150, 203]];

/// Numbers for a random program; a stream of its own for every image.
struct Chance(Draws);

impl Chance {
    fn below(&mut self, bound: u32) -> u32 {
        self.0.below(bound.into()) as u32
    }

    fn within(&mut self, low: f64, high: f64) -> f64 {
        self.0.uniform_in([low, high])
    }

    fn is_true(&mut self) -> bool {
        self.below(2) == 1
    }

    fn filter(&mut self) -> Filter {
        let filters = [
            Filter::Nearest,
            Filter::NearestExact,
            Filter::Bilinear,
            Filter::BilinearAntialiased,
            Filter::Bicubic,
            Filter::BicubicAntialiased,
        ];
        filters[self.below(6) as usize]
    }

    fn fill(&mut self) -> Fill {
        let color = [self.below(256) as u8, self.below(256) as u8, self.below(256) as u8];
        Fill::new(self.is_true().then_some(color))
    }

    fn border(&mut self) -> Option<Border> {
        [None, Some(Border::Edge), Some(Border::Reflect), Some(Border::Symmetric)][self.below(4) as usize]
    }

    fn pixel_op(&mut self) -> PixelOp {
        let factor = self.within(0.0, 2.5);
        match self.below(14) {
            0 => PixelOp::Brightness { factor },
            1 => PixelOp::Contrast { factor },
            2 => PixelOp::Saturation { factor },
            3 => PixelOp::Hue { turns: self.within(-0.5, 0.5) },
            4 => PixelOp::Grayscale,
            5 => PixelOp::Invert,
            6 => PixelOp::Solarize { threshold: self.within(0.0, 256.0) },
            7 => PixelOp::SolarizeAdd { addend: self.within(0.0, 110.0), threshold: 128.0 },
            8 => PixelOp::Posterize { bits: self.below(9), range: PosterizeRange::Bytes },
            9 => PixelOp::Autocontrast,
            10 => PixelOp::Equalize,
            11 => PixelOp::Gamma { gamma: self.within(0.3, 3.0), gain: self.within(0.5, 1.5) },
            12 => PixelOp::Sharpness { factor },
            _ => PixelOp::GaussianBlur {
                num_taps: [1 + 2 * self.below(4), 1 + 2 * self.below(4)],
                sigma: [self.within(0.1, 2.0), self.within(0.1, 2.0)],
            },
        }
    }

    fn affine(&mut self) -> Affine {
        Affine {
            angle_degrees: self.within(-180.0, 180.0),
            translate: [self.within(-9.0, 9.0), self.within(-9.0, 9.0)],
            scale: self.within(0.3, 2.0),
            shear_degrees: [self.within(-30.0, 30.0), self.within(-30.0, 30.0)],
        }
    }

    /// A step of geometry.
    fn move_pixels(&mut self, program: &mut Program) {
        let [height, width] = program.size();
        match self.below(8) {
            0 => program.flip_horizontally(),
            1 => program.flip_vertically(),
            2 => {
                program.crop([i64::from(self.below(20)) - 10, i64::from(self.below(20)) - 10], [1 + self.below(40); 2])
            }
            3 => {
                let (before, border) = ([self.below(9), self.below(9)], self.border());
                program.pad(before, [self.below(9), self.below(9)], border);
            }
            4 => {
                let (map, size) = self.affine().expanded([height, width]);
                // Limited, since a small scale of a large image is a very large one.
                let size = size.map(|side| side.min(300));
                program.warp(map, size, self.filter(), self.fill());
            }
            5 => {
                let map = self.affine().about([f64::from(width) / 2.0, f64::from(height) / 3.0]);
                program.warp(map, [height, width], self.filter(), self.fill());
            }
            6 => {
                let [right, bottom] = [f64::from(width), f64::from(height)];
                let corners = [[0.0, 0.0], [right, 0.0], [right, bottom], [0.0, bottom]];
                let moved =
                    corners.map(|[x, y]| [x + self.within(-0.4, 0.4) * right, y + self.within(-0.4, 0.4) * bottom]);
                if let Some(map) = quadrangle_map(moved, corners) {
                    program.warp(map, [height, width], self.filter(), self.fill());
                }
            }
            _ => program.resize([1 + self.below(60), 1 + self.below(60)], self.filter()),
        }
    }

    fn erased(&mut self, [height, width]: [u32; 2]) -> Erased {
        let [top, left] = [self.below(height), self.below(width)];
        let region = [top, left, top + 1 + self.below(height - top), left + 1 + self.below(width - left)];
        let paint = match self.is_true() {
            true => Paint::Noise { key: self.0.next_u64() },
            false => Paint::Constant([0, 1, 2].map(|_| self.within(-2.0, 2.0) as f32)),
        };
        Erased { region, paint }
    }

    /// A program of up to twelve operations for an image of `width` x `height`.
    fn program(&mut self, [height, width]: [u32; 2], output: [u32; 2]) -> Program {
        let mut program = Program::new(width, height);
        for _ in 0..self.below(13) {
            match self.below(10) {
                0..5 => program.push(self.pixel_op()),
                5..9 => self.move_pixels(&mut program),
                _ if program.layers.len() == 1 => {
                    let weight = self.within(0.0, 1.0);
                    program.split(&[weight, 1.0 - weight], |_, copy| copy.push(self.pixel_op()));
                }
                _ => {}
            }
        }
        program.resize(output, Filter::BilinearAntialiased);
        (0..self.below(3)).for_each(|_| program.erase(self.erased(output)));
        program
    }
}

fn run_programs(batch: &HostBatch, programs: &[Program], size: [usize; 2], device: &Device) -> Vec<f32> {
    let options = Augment { steps: Vec::new(), size, ..Augment::train(1) };
    let format = OutputFormat::new(size, options.mean, options.std, &LaunchCounter::default());
    let uploaded = batch_to_device(batch.clone(), &options, 0, device);
    let found = augment_as(DeviceBatch { programs: programs.to_vec(), ..uploaded }, format);
    Tensor::into_data(found.images).try_to_vec().expect("f32 images")
}

proptest! {
    #![proptest_config(property_config(32))]

    #[test]
    fn kernels_do_what_their_scalar_twin_does(seed: u64, height in 1u32..40, width in 1u32..40) {
        let batch = noise_batch(&SIZES, seed);
        let programs: Vec<Program> = (0..).zip(&batch.images)
            .map(|(image, slot)| {
                let mut chance = Chance(Draws::new(seed, 0, image, 0));
                chance.program([slot.height, slot.width], [height, width])
            })
            .collect();
        let size = [height as usize, width as usize];
        let twin = run_programs(&batch, &programs, size, &kiln_device::cpu());
        prop_assert!(twin.iter().all(|value| value.is_finite()), "{programs:#?}");
        for (name, device) in kiln_device::parity_devices() {
            let kernel = run_programs(&batch, &programs, size, &device);
            prop_assert_eq!(kernel.len(), twin.len());
            let differences = kernel.iter().zip(&twin).map(|(kernel, twin)| (kernel - twin).abs());
            let (index, difference) = differences.enumerate().fold((0, 0.0f32), |worst, it| if it.1 > worst.1 { it } else { worst });
            let image = index / (3 * size[0] * size[1]);
            prop_assert!(
                difference <= TOLERANCE,
                "{name}: value {index} is {difference:e} off, in the image of {:#?}", programs[image]
            );
        }
    }
}
