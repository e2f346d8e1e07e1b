//! Where a network looked: heat maps of how much each place of an image spoke for a class (Grad-CAM).
//!
//! In: pictures and a [`TrainedModel`]. Out: for each picture the probabilities and a [`HeatMap`] of its likeliest class.
//! Source: Selvaraju et al., arXiv 1610.02391, equations 1 and 2: the last stage's channels, each weighed by the mean of the
//! class's logit's gradient over the channel, summed, negative values cut off. The gradient is burn's autodiff; it goes
//! no further back than the last stage, so the network itself runs without a tape.

use crate::error::TrainError;
use crate::predict::probabilities;
use crate::trained_model::TrainedModel;
use burn::tensor::activation::relu;
use burn::tensor::{Tensor, TensorData};
use kiln_data::{Augment, RgbImage, rgb_from_values};

/// What a network saw, and how much each place spoke for the class it took it for.
#[derive(Clone, Debug)]
pub struct HeatMap {
    /// The picture as the network saw it.
    pub seen: RgbImage,
    /// The class.
    pub class: usize,
    /// Height and width of `heat`: the last stage's.
    pub size: [usize; 2],
    /// 0–1, row by row; 1 is the place that spoke most for the class. All 0 if none did.
    pub heat: Vec<f32>,
}

impl TrainedModel {
    /// [`predict`](Self::predict), and where the network looked for its first guess. Waits for the device.
    ///
    /// # Errors
    /// [`TrainError::Asking`] if the device doesn't answer.
    ///
    /// # Panics
    /// If there are no pictures.
    pub fn explain(&self, pictures: &[RgbImage]) -> Result<(Vec<Vec<f32>>, Vec<HeatMap>), TrainError> {
        let images = self.prepare(pictures);
        let features = self.model.features(images.clone());
        let Cam { probabilities, classes, heat } = grad_cam(features, |features| self.model.classify(features))?;
        let [.., height, width] = heat.dims();
        let heat = heat.try_into_vec_as::<f32>().map_err(TrainError::asking)?;
        let seen = images.try_into_vec_as::<f32>().map_err(TrainError::asking)?;
        let values = 3 * self.augment.size[0] * self.augment.size[1];
        let maps = classes.iter().zip(seen.chunks_exact(values)).zip(heat.chunks_exact(height * width));
        let map = |((&class, seen), heat): ((&usize, &[f32]), &[f32])| {
            heat_map(seen, &self.augment, class, [height, width], heat)
        };
        Ok((probabilities, maps.map(map).collect()))
    }
}

/// What a batch's features say.
struct Cam {
    /// Of every class, for each image.
    probabilities: Vec<Vec<f32>>,
    /// The likeliest class of each image.
    classes: Vec<usize>,
    /// float `[B, h, w]`: that class's map, not yet scaled.
    heat: Tensor<3>,
}

fn grad_cam(features: Tensor<4>, classify: impl Fn(Tensor<4>) -> Tensor<2>) -> Result<Cam, TrainError> {
    let leaf = features.clone().autodiff().require_grad();
    let logits = classify(leaf.clone());
    let probabilities = probabilities(logits.clone().inner())?;
    let classes: Vec<usize> = probabilities.iter().map(|row| crate::predict::top_k(row, 1)[0].class).collect();
    // Images don't meet in a network that is evaluated, so one backward pass serves the whole batch.
    let gradients = (logits * one_hot(&classes, probabilities[0].len(), &features)).sum().backward();
    let gradient = leaf.grad(&gradients).ok_or_else(|| TrainError::Internal("no gradient of the features".into()))?;
    let weights = gradient.mean_dim(3).mean_dim(2);
    let heat = relu((features * weights).sum_dim(1));
    Ok(Cam { probabilities, classes, heat: heat.squeeze_dim(1) })
}

/// float `[B, K]` on the device of `like`: 1 at each image's class.
fn one_hot(classes: &[usize], num_classes: usize, like: &Tensor<4>) -> Tensor<2> {
    let mut values = vec![0f32; classes.len() * num_classes];
    for (row, class) in classes.iter().enumerate() {
        values[row * num_classes + class] = 1.0;
    }
    Tensor::from_data(TensorData::new(values, [classes.len(), num_classes]), &like.device())
}

fn heat_map(seen: &[f32], how: &Augment, class: usize, size: [usize; 2], heat: &[f32]) -> HeatMap {
    let most = heat.iter().copied().fold(0.0, f32::max);
    let scale = if most > 0.0 { 1.0 / most } else { 0.0 };
    HeatMap { seen: rgb_from_values(seen, how), class, size, heat: heat.iter().map(|value| value * scale).collect() }
}

/// Colours of heat from none to most: dark blue, violet, orange, yellow. Brightness rises throughout, so that they also
/// tell places apart in print and for eyes that don't tell red from green.
const COLORS: [[f32; 3]; 5] =
    [[13.0, 8.0, 70.0], [110.0, 20.0, 130.0], [205.0, 60.0, 90.0], [250.0, 150.0, 40.0], [250.0, 240.0, 130.0]];

/// How much of the heat's colour covers the picture.
const COVER: f32 = 0.55;

/// Smaller images are enlarged by a whole factor, so that a person sees something.
const LEAST_SIDE: u32 = 224;

impl HeatMap {
    /// The picture as the network saw it, and the same under the heat's colours to its right; both at least 224 pixels wide.
    pub fn picture(&self) -> RgbImage {
        let RgbImage { width, height, pixels } = &self.seen;
        let factor = LEAST_SIDE.div_ceil(*width);
        let (wide, high) = (width * factor, height * factor);
        let mut out = Vec::with_capacity(6 * (wide * high) as usize);
        for y in 0..high {
            let seen = |x: u32| &pixels[3 * (y / factor * width + x / factor) as usize..][..3];
            out.extend((0..wide).flat_map(seen));
            for x in 0..wide {
                let (pixel, color) = (seen(x), color(self.heat_at([x, y], [wide, high])));
                out.extend((0..3).map(|c| (f32::from(pixel[c]) * (1.0 - COVER) + color[c] * COVER).round() as u8));
            }
        }
        RgbImage { width: 2 * wide, height: high, pixels: out }
    }

    /// The heat at a pixel of an image of `width` × `height`, bilinear between the centres of the map's cells.
    fn heat_at(&self, [x, y]: [u32; 2], [width, height]: [u32; 2]) -> f32 {
        let [rows, columns] = self.size;
        let along = |at: u32, pixels: u32, cells: usize| {
            let place = ((at as f32 + 0.5) / pixels as f32 * cells as f32 - 0.5).clamp(0.0, cells as f32 - 1.0);
            let first = place as usize;
            (first, (first + 1).min(cells - 1), place - first as f32)
        };
        let (left, right, to_right) = along(x, width, columns);
        let (top, bottom, to_bottom) = along(y, height, rows);
        let between = |row: usize| {
            let [a, b] = [left, right].map(|column| self.heat[row * columns + column]);
            a + (b - a) * to_right
        };
        let (above, below) = (between(top), between(bottom));
        above + (below - above) * to_bottom
    }
}

fn color(heat: f32) -> [f32; 3] {
    let place = heat.clamp(0.0, 1.0) * (COLORS.len() - 1) as f32;
    let first = (place as usize).min(COLORS.len() - 2);
    let share = place - first as f32;
    std::array::from_fn(|c| COLORS[first][c] * (1.0 - share) + COLORS[first + 1][c] * share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_model::{Arch, ResNetConfig};
    use std::path::PathBuf;

    /// Two channels of 2×2, and a classifier that is the mean of each channel times a weight.
    fn scaled_means(features: Tensor<4>) -> Tensor<2> {
        let means: Tensor<2> = features.flatten::<3>(2, 3).mean_dim(2).squeeze_dim(2);
        means * Tensor::from_data(TensorData::new(vec![1f32, -2.0], [1, 2]), &kiln_device::cpu())
    }

    #[test]
    fn a_map_is_the_channels_weighed_by_the_mean_of_their_gradient() {
        let values = vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0];
        let features = Tensor::<4>::from_data(TensorData::new(values, [1, 2, 2, 2]), &kiln_device::cpu());
        let Cam { probabilities, classes, heat } = grad_cam(features, scaled_means).expect("computed");
        // Logits are 2.5 and -13: class 0, whose gradient is 1/4 at each place of channel 0 and nothing in channel 1.
        assert_eq!(classes, [0]);
        assert!(probabilities[0][0] > 0.999);
        assert_eq!(heat.try_into_vec_as::<f32>().expect("read"), [0.25, 0.5, 0.75, 1.0]);
    }

    #[test]
    fn with_a_mean_and_a_linear_layer_on_top_it_is_the_class_s_weights_over_the_features() {
        let config =
            ResNetConfig { width: 8, num_classes: 3, zero_init_last_gamma: false, ..ResNetConfig::new(Arch::ResNet18) };
        let model = config.init(1, &kiln_device::cpu());
        let images = Tensor::<4>::ones([1, 3, 64, 64], &kiln_device::cpu());
        let features = model.features(images);
        let [_, channels, height, width] = features.dims();
        let Cam { classes, heat, .. } = grad_cam(features.clone(), |x| model.classify(x)).expect("computed");
        let state = model.state();
        let (_, weights) = state.iter().find(|(name, _)| name == "fc.weight").expect("the last layer");
        let weights = weights.as_slice::<f32>().expect("floats");
        let features = features.try_into_vec_as::<f32>().expect("read");
        let places = height * width;
        for (place, heat) in heat.try_into_vec_as::<f32>().expect("read").into_iter().enumerate() {
            let sum: f32 =
                (0..channels).map(|c| weights[classes[0] * channels + c] * features[c * places + place]).sum();
            let expected = (sum / places as f32).max(0.0);
            assert!((heat - expected).abs() < 1e-5, "place {place}: {heat}, not {expected}");
        }
    }

    #[test]
    fn a_picture_and_its_heat_stand_side_by_side_and_the_hottest_place_is_the_brightest() {
        let seen = RgbImage { width: 4, height: 4, pixels: vec![100; 48] };
        let map = HeatMap { seen, class: 0, size: [2, 2], heat: vec![0.0, 0.0, 0.0, 1.0] };
        let picture = map.picture();
        assert_eq!((picture.width, picture.height, picture.pixels.len()), (448, 224, 448 * 224 * 3));
        let brightness =
            |x: usize, y: usize| picture.pixels[3 * (448 * y + x)..][..3].iter().map(|&c| u32::from(c)).sum::<u32>();
        assert_eq!(brightness(223, 223), 300, "the left half is untouched");
        assert!(brightness(447, 223) > brightness(330, 120) && brightness(330, 120) > brightness(224, 0));
    }

    #[test]
    fn explaining_gives_the_probabilities_of_predicting_and_a_map_in_range() {
        let config = ResNetConfig { width: 8, num_classes: 3, ..ResNetConfig::new(Arch::ResNet18) };
        let model = config.init(1, &kiln_device::cpu());
        let model = TrainedModel { model, classes: None, augment: Augment::eval(64), weights: PathBuf::new() };
        let pictures =
            [RgbImage { width: 70, height: 64, pixels: (0..70 * 64 * 3).map(|at| (at % 255) as u8).collect() }];
        let (probabilities, maps) = model.explain(&pictures).expect("explained");
        assert_eq!(probabilities, model.predict(&pictures).expect("predicted"));
        assert_eq!((maps[0].size, maps[0].seen.width), ([2, 2], 64));
        assert!(maps[0].heat.iter().all(|heat| (0.0..=1.0).contains(heat)));
    }
}
