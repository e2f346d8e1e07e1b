//! Pixel operations: what a program does to the values of an image after its geometry, in order.
//!
//! In and out: fixed-point levels, see `levels.rs`. Most operations are functions of one pixel. Some need a statistic
//! of the whole image as the operations before have left it ([`Encoded::statistic`]), some the neighbours of a pixel
//! ([`Encoded::is_neighbourhood`]); both cost a launch of their own, because no thread sees what others write.
//! An operation's arithmetic, scalar and on a device, is in its own file; here is the list, and the numbers by which
//! a record names it.

use crate::augment::color::autocontrast::{self, autocontrast};
use crate::augment::color::brightness::brightness;
use crate::augment::color::contrast::contrast;
use crate::augment::color::equalize::{self, equalizing, nearest_byte};
use crate::augment::color::gamma::{self, apply_curve, curve};
use crate::augment::color::grayscale::grayscale;
use crate::augment::color::hue::{hue, sextants};
use crate::augment::color::invert::invert;
use crate::augment::color::posterize::{self, PosterizeRange, posterize};
use crate::augment::color::saturation::saturation;
use crate::augment::color::solarize::{solarize, solarize_add};
use crate::augment::levels::{self, Levels, WHITE, clamp};
use crate::augment::neighbourhood::gaussian_blur::{blur_weights, gaussian_blur};
use crate::augment::neighbourhood::kept;
use crate::augment::neighbourhood::sharpness::sharpness;
use crate::augment::statistics::mean_gray;

/// One operation. Factors are 0 or more; levels are 0–255; `torchvision`'s functions of the same names say the rest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum PixelOp {
    /// 1 is the image.
    Brightness { factor: f64 },
    /// 1 is the image.
    Contrast { factor: f64 },
    /// 1 is the image.
    Saturation { factor: f64 },
    /// Once around is 1; torchvision allows -0.5 to 0.5.
    Hue { turns: f64 },
    /// All channels alike.
    Grayscale,
    /// White less the image.
    Invert,
    /// Inverts from `threshold` on, a level.
    Solarize { threshold: f64 },
    /// Adds levels below `threshold`, a level.
    SolarizeAdd { addend: f64, threshold: f64 },
    /// Bits that stay of eight.
    Posterize { bits: u32, range: PosterizeRange },
    /// From black to white.
    Autocontrast,
    /// A flat histogram.
    Equalize,
    /// `gain * v^gamma` for v of 0–1.
    Gamma { gamma: f64, gain: f64 },
    /// 0 is smoothed, 1 the image, more is sharper.
    Sharpness { factor: f64 },
    /// Odd numbers of taps and standard deviations in pixels, along columns (y), then along rows (x).
    GaussianBlur { num_taps: [u32; 2], sigma: [f64; 2] },
}

/// What an operation has to know of the whole image first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Statistic {
    /// The mean of the grey values.
    MeanGray,
    /// What stretches each channel to the full range.
    Range,
    /// What flattens the histogram of each channel.
    Histogram,
}

impl Statistic {
    /// u32 words of the result.
    pub(crate) fn num_words(self) -> usize {
        match self {
            Self::MeanGray => 1,
            Self::Range => autocontrast::NUM_WORDS,
            Self::Histogram => equalize::NUM_WORDS,
        }
    }
}

/// Numbers of the operations in a record.
pub(crate) mod code {
    pub(crate) const BRIGHTNESS: u32 = 1;
    pub(crate) const CONTRAST: u32 = 2;
    pub(crate) const SATURATION: u32 = 3;
    pub(crate) const HUE: u32 = 4;
    pub(crate) const GRAYSCALE: u32 = 5;
    pub(crate) const INVERT: u32 = 6;
    pub(crate) const SOLARIZE: u32 = 7;
    pub(crate) const SOLARIZE_ADD: u32 = 8;
    pub(crate) const POSTERIZE: u32 = 9;
    pub(crate) const AUTOCONTRAST: u32 = 10;
    pub(crate) const EQUALIZE: u32 = 11;
    pub(crate) const GAMMA: u32 = 12;
    pub(crate) const SHARPNESS: u32 = 13;
    pub(crate) const GAUSSIAN_BLUR: u32 = 14;
}

/// Parameters of an operation in a record.
pub(crate) const NUM_PARAMETERS: usize = 4;

/// An operation as a record holds it, but for where its statistic, its neighbours or its table lie.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Encoded {
    /// Of [`code`].
    pub(crate) code: u32,
    /// Meaning by operation.
    pub(crate) parameters: [u32; NUM_PARAMETERS],
    /// Weights or a curve, stored beside the records.
    pub(crate) table: Vec<u32>,
}

impl PixelOp {
    /// The operation in whole numbers.
    pub(crate) fn encode(&self) -> Encoded {
        let encoded = |code, parameters: &[u32], table: Vec<u32>| {
            let mut all = [0; NUM_PARAMETERS];
            all[..parameters.len()].copy_from_slice(parameters);
            Encoded { code, parameters: all, table }
        };
        let plain = |code, parameters: &[u32]| encoded(code, parameters, Vec::new());
        let (factor, level) = (levels::factor, |value| levels::level(value) as u32);
        match *self {
            Self::Brightness { factor: by } => plain(code::BRIGHTNESS, &[factor(by)]),
            Self::Contrast { factor: by } => plain(code::CONTRAST, &[factor(by)]),
            Self::Saturation { factor: by } => plain(code::SATURATION, &[factor(by)]),
            Self::Hue { turns } => plain(code::HUE, &[sextants(turns)]),
            Self::Grayscale => plain(code::GRAYSCALE, &[]),
            Self::Invert => plain(code::INVERT, &[]),
            Self::Solarize { threshold } => plain(code::SOLARIZE, &[threshold_level(threshold)]),
            Self::SolarizeAdd { addend, threshold } => {
                plain(code::SOLARIZE_ADD, &[level(addend), threshold_level(threshold)])
            }
            Self::Posterize { bits, range } => {
                plain(code::POSTERIZE, &posterize::steps(bits, range).map(|number| number as u32))
            }
            Self::Autocontrast => plain(code::AUTOCONTRAST, &[]),
            Self::Equalize => plain(code::EQUALIZE, &[]),
            Self::Gamma { gamma, gain } => {
                encoded(code::GAMMA, &[], curve(gamma, gain).map(|level| level as u32).to_vec())
            }
            Self::Sharpness { factor: by } => plain(code::SHARPNESS, &[factor(by)]),
            Self::GaussianBlur { num_taps, sigma } => {
                let [rows, columns] = [0, 1].map(|axis| blur_weights(num_taps[axis], sigma[axis]));
                let parameters = [rows.len() as u32, columns.len() as u32];
                encoded(code::GAUSSIAN_BLUR, &parameters, [rows, columns].concat())
            }
        }
    }
}

impl Encoded {
    /// What the operation needs to know of the whole image.
    pub(crate) fn statistic(&self) -> Option<Statistic> {
        match self.code {
            code::CONTRAST => Some(Statistic::MeanGray),
            code::AUTOCONTRAST => Some(Statistic::Range),
            code::EQUALIZE => Some(Statistic::Histogram),
            _ => None,
        }
    }

    /// Reads an operation back from its record; `place` leads to its table, if it has one.
    pub(crate) fn from_record(code: u32, place: u32, parameters: [u32; NUM_PARAMETERS], words: &[u32]) -> Self {
        let table = |first: u32, count: usize| words[first as usize..][..count].to_vec();
        let table = match code {
            code::GAMMA => table(place, gamma::NUM_WORDS),
            code::GAUSSIAN_BLUR => table(parameters[NUM_PARAMETERS - 1], (parameters[0] + parameters[1]) as usize),
            _ => Vec::new(),
        };
        Self { code, parameters, table }
    }

    /// Whether the operation reads the pixels around each pixel.
    pub(crate) fn is_neighbourhood(&self) -> bool {
        matches!(self.code, code::SHARPNESS | code::GAUSSIAN_BLUR)
    }
}

/// A threshold beyond white is never reached.
fn threshold_level(threshold: f64) -> u32 {
    let beyond = (WHITE + 1) as u32;
    if threshold > 255.0 { beyond } else { levels::level(threshold) as u32 }
}

/// Runs the operation on a whole image, `[height, width]` pixels: the scalar twin of what launches do.
pub(crate) fn apply(op: &Encoded, image: &mut [Levels], [height, width]: [usize; 2]) {
    let [a, b, ..] = op.parameters;
    let mut each = |function: &dyn Fn(Levels) -> Levels| {
        image.iter_mut().for_each(|rgb| *rgb = function(*rgb));
    };
    match op.code {
        code::BRIGHTNESS => each(&|rgb| brightness(rgb, a)),
        code::CONTRAST => {
            let mean = mean_gray(image);
            image.iter_mut().for_each(|rgb| *rgb = contrast(*rgb, mean, a));
        }
        code::SATURATION => each(&|rgb| saturation(rgb, a)),
        code::HUE => each(&|rgb| hue(rgb, a)),
        code::GRAYSCALE => each(&grayscale),
        code::INVERT => each(&invert),
        code::SOLARIZE => each(&|rgb| solarize(rgb, a as i32)),
        code::SOLARIZE_ADD => each(&|rgb| solarize_add(rgb, a as i32, b as i32)),
        code::POSTERIZE => each(&|rgb| posterize(rgb, [a as i32, b as i32])),
        code::AUTOCONTRAST => {
            for channel in 0..3 {
                let values = || image.iter().map(|rgb| rgb[channel]);
                let (least, most) = (values().min().unwrap_or(0), values().max().unwrap_or(0));
                let (least, factor) = autocontrast::stretch(least, most);
                image.iter_mut().for_each(|rgb| rgb[channel] = autocontrast(rgb[channel], least, factor));
            }
        }
        code::EQUALIZE => {
            for channel in 0..3 {
                let mut histogram = [0; 256];
                image.iter().for_each(|rgb| histogram[nearest_byte(rgb[channel])] += 1);
                let map = equalizing(&histogram);
                let equalized = |value| map[nearest_byte(value)] as i32 * levels::LEVEL;
                image.iter_mut().for_each(|rgb| rgb[channel] = equalized(rgb[channel]));
            }
        }
        code::GAMMA => each(&|rgb| apply_curve(rgb, |index| op.table[index] as i32)),
        code::SHARPNESS => {
            let before = kept(image);
            for (index, rgb) in image.iter_mut().enumerate() {
                *rgb = sharpness(&before, [height, width], [index / width, index % width], a);
            }
        }
        code::GAUSSIAN_BLUR => {
            let before = kept(image);
            let (rows, columns) = op.table.split_at(a as usize);
            for (index, rgb) in image.iter_mut().enumerate() {
                *rgb = gaussian_blur(&before, [height, width], [index / width, index % width], [rows, columns]);
            }
        }
        other => unreachable!("operation {other} of a record that we wrote"),
    }
}

/// What the first operation begins with: a cubic filter can leave the range of bytes.
pub(crate) fn clamp_image(image: &mut [Levels]) {
    image.iter_mut().for_each(|rgb| *rgb = rgb.map(clamp));
}

#[cfg(feature = "cube")]
pub(crate) mod device {
    //! The operations of one pixel on a device; `neighbourhood.rs` has the others.

    use cubecl::prelude::*;

    use super::code;
    use crate::augment::color::autocontrast::device::autocontrast;
    use crate::augment::color::brightness::device::brightness;
    use crate::augment::color::contrast::device::contrast;
    use crate::augment::color::equalize::device::nearest_byte;
    use crate::augment::color::gamma::device::apply_curve;
    use crate::augment::color::grayscale::device::grayscale;
    use crate::augment::color::hue::device::hue;
    use crate::augment::color::invert::device::invert;
    use crate::augment::color::posterize::device::posterize;
    use crate::augment::color::saturation::device::saturation;
    use crate::augment::color::solarize::device::{solarize, solarize_add};
    use crate::augment::levels::LEVEL;
    use crate::augment::levels::device::Rgb;
    use crate::augment::record::{OP_PARAMETERS, OP_PLACE};

    /// Applies the operation whose record begins at word `op`. Its statistic is in `statistics`.
    #[cube]
    pub(crate) fn apply(rgb: &Rgb, words: &[u32], statistics: &[u32], op: usize) -> Rgb {
        let number = words[op];
        let place = words[op + OP_PLACE] as usize;
        let a = words[op + OP_PARAMETERS];
        let b = words[op + OP_PARAMETERS + 1];
        let mut result = Rgb { red: rgb.red, green: rgb.green, blue: rgb.blue };
        if number == code::BRIGHTNESS {
            result = brightness(rgb, a);
        } else if number == code::CONTRAST {
            result = contrast(rgb, i32::reinterpret(statistics[place]), a);
        } else if number == code::SATURATION {
            result = saturation(rgb, a);
        } else if number == code::HUE {
            result = hue(rgb, a);
        } else if number == code::GRAYSCALE {
            result = grayscale(rgb);
        } else if number == code::INVERT {
            result = invert(rgb);
        } else if number == code::SOLARIZE {
            result = solarize(rgb, i32::reinterpret(a));
        } else if number == code::SOLARIZE_ADD {
            result = solarize_add(rgb, i32::reinterpret(a), i32::reinterpret(b));
        } else if number == code::POSTERIZE {
            result = posterize(rgb, i32::reinterpret(a), i32::reinterpret(b));
        } else if number == code::AUTOCONTRAST {
            result = Rgb {
                red: stretched(rgb.red, statistics, place),
                green: stretched(rgb.green, statistics, place + 2),
                blue: stretched(rgb.blue, statistics, place + 4),
            };
        } else if number == code::EQUALIZE {
            result = Rgb {
                red: equalized(rgb.red, statistics, place),
                green: equalized(rgb.green, statistics, place + 256),
                blue: equalized(rgb.blue, statistics, place + 512),
            };
        } else if number == code::GAMMA {
            result = apply_curve(rgb, words, place);
        }
        result
    }

    #[cube]
    fn stretched(value: i32, statistics: &[u32], place: usize) -> i32 {
        autocontrast(value, i32::reinterpret(statistics[place]), statistics[place + 1])
    }

    #[cube]
    fn equalized(value: i32, statistics: &[u32], place: usize) -> i32 {
        i32::reinterpret(statistics[place + nearest_byte(value) as usize]) * LEVEL
    }
}
