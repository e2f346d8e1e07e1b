use std::collections::HashSet;

use super::*;
use crate::{Augmentation, Mixing, RandAugment, RandomErasing, Sample};

/// Two classes of gradients of different sizes, some of them damaged.
struct Gradients {
    classes: Vec<String>,
    num_samples: usize,
    damaged: HashSet<usize>,
}

impl Gradients {
    fn new(num_samples: usize) -> Self {
        Self { classes: vec!["cats".into(), "dogs".into()], num_samples, damaged: HashSet::new() }
    }

    fn picture(&self, index: usize) -> RgbImage {
        let (width, height) = (40 + 10 * index as u32, 40);
        let pixel = |x: u32, y: u32| [(5 * y) as u8, (2 * x) as u8, (30 * index) as u8];
        let pixels = (0..height).flat_map(|y| (0..width).flat_map(move |x| pixel(x, y))).collect();
        RgbImage { width, height, pixels }
    }
}

impl Dataset for Gradients {
    fn len(&self) -> usize {
        self.num_samples
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn sample(&self, index: usize) -> Result<Sample, DataError> {
        let mut encoded = Vec::new();
        if !self.damaged.contains(&index) {
            let RgbImage { width, height, pixels } = self.picture(index);
            let mut encoder = image::codecs::bmp::BmpEncoder::new(&mut encoded);
            encoder.encode(&pixels, width, height, image::ExtendedColorType::Rgb8).expect("encoded");
        }
        Ok(Sample::encoded(encoded, self.label(index)))
    }

    fn name(&self, index: usize) -> String {
        format!("{index}.bmp")
    }

    fn label(&self, index: usize) -> u32 {
        index as u32 % 2
    }
}

/// Strong enough that no two draws are alike.
fn strong(size: [usize; 2]) -> Augment {
    let erasing = RandomErasing { probability: 1.0, ..Default::default() };
    let steps = vec![Augmentation::RandAugment(RandAugment::default()), Augmentation::RandomErasing(erasing)];
    Augment::new(steps, size)
}

fn grid(dataset: &Gradients, augment: &Augment, config: &PreviewConfig) -> Preview {
    preview_grid(dataset, augment, config, &kiln_device::cpu()).expect("a preview")
}

/// The pixels of the part of `picture` that begins at `[left, top]`.
fn part(picture: &RgbImage, [left, top]: [u32; 2], [width, height]: [u32; 2]) -> RgbImage {
    let row = |y: u32| {
        let at = 3 * (y as usize * picture.width as usize + left as usize);
        &picture.pixels[at..at + 3 * width as usize]
    };
    RgbImage { width, height, pixels: (top..top + height).flat_map(row).copied().collect() }
}

/// The layout that a preview of `samples` has.
fn layout(dataset: &Gradients, config: &PreviewConfig, size: [usize; 2]) -> Layout {
    let (rows, _) = rows::choose(dataset, config.images).expect("rows");
    Layout::new(&rows, config.draws, size).expect("a layout")
}

fn problem(dataset: &Gradients, augment: &Augment, config: &PreviewConfig) -> String {
    preview_grid(dataset, augment, config, &kiln_device::cpu()).expect_err("a problem").to_string()
}

#[test]
fn a_grid_has_a_row_an_image_and_a_column_a_draw() {
    let (dataset, augment) = (Gradients::new(6), strong([120, 130]));
    let small = PreviewConfig { images: 2, draws: 1, ..Default::default() };
    let preview = grid(&dataset, &augment, &small);
    assert_eq!(preview.samples, [0, 1], "one of each class");
    let size = |preview: &Preview| [preview.picture.width, preview.picture.height];
    let [width, height] = size(&preview);
    let larger = grid(&dataset, &augment, &PreviewConfig { images: 4, draws: 3, ..small });
    assert_eq!(larger.samples, [0, 2, 1, 3]);
    assert_eq!(size(&larger), [width + 2 * 138, height + 2 * 128], "130x120 and a gap of 8 each");
}

#[test]
fn the_cell_of_an_original_shows_the_image() {
    let (dataset, config) = (Gradients::new(2), PreviewConfig { images: 2, draws: 1, ..Default::default() });
    let augment = strong([120, 150]);
    let preview = grid(&dataset, &augment, &config);
    let layout = layout(&dataset, &config, augment.size);

    // 40x40 becomes 120x120 in the middle of 150x120.
    let [left, top] = layout.cell(0, 0);
    let shown = part(&preview.picture, [left + 15, top], [120, 120]);
    let original = dataset.picture(0);
    for (x, y) in [(0, 0), (20, 10), (39, 39)] {
        let pixel = |image: &RgbImage, x: u32, y: u32| {
            let at = 3 * (y * image.width + x) as usize;
            [0, 1, 2].map(|channel| i32::from(image.pixels[at + channel]))
        };
        let (expected, found) = (pixel(&original, x, y), pixel(&shown, 3 * x + 1, 3 * y + 1));
        let close = expected.iter().zip(found).all(|(a, b)| (a - b).abs() <= 2);
        assert!(close, "{expected:?} and {found:?} at {x}, {y}");
    }
    let beside = part(&preview.picture, [left, top], [15, 120]);
    assert!(beside.pixels.as_chunks::<3>().0.iter().all(|pixel| *pixel == beside.pixels[..3]), "an empty cell");
}

#[test]
fn an_image_of_the_size_of_its_cell_is_shown_as_it_is() {
    let (dataset, config) = (Gradients::new(9), PreviewConfig { images: 9, draws: 1, ..Default::default() });
    let augment = strong([40, 120]);
    let preview = grid(&dataset, &augment, &config);
    let row = preview.samples.iter().position(|&sample| sample == 8).expect("a row");
    let layout = layout(&dataset, &config, augment.size);
    assert_eq!(part(&preview.picture, layout.cell(row, 0), [120, 40]), dataset.picture(8));
}

#[test]
fn a_draw_is_what_augment_gives_for_its_seed_epoch_and_sample() {
    let config = PreviewConfig { images: 3, draws: 2, seed: 9, epoch: 4 };
    let dataset = Gradients::new(6);
    let augment = Augment { mean: [0.1, 0.5, 0.9], std: [0.2, 0.3, 1.5], ..strong([32, 48]) };
    for (name, device) in kiln_device::parity_devices() {
        let preview = preview_grid(&dataset, &augment, &config, &device).expect("a preview");
        let layout = layout(&dataset, &config, augment.size);
        assert_eq!(layout.scale, 3, "48 pixels are too few to see");
        for (row, &sample) in preview.samples.iter().enumerate() {
            for draw in 0..2 {
                // Alone, not among the others: nothing is mixed.
                let mut host = HostBatch::new(4 + draw);
                host.push(&dataset.picture(sample), dataset.label(sample), sample as u64);
                let batch = augmented(batch_to_device(host, &augment, 9, &device), &augment);
                let values = batch.images.into_data().try_to_vec::<f32>().expect("f32");
                let shown = part(&preview.picture, layout.cell(row, 1 + draw as usize), layout.cell_size);
                for (y, x) in [(0, 0), (7, 20), (31, 47), (16, 3)] {
                    for channel in 0..3 {
                        let value = values[(channel * 32 + y) * 48 + x] * augment.std[channel] + augment.mean[channel];
                        let expected = (255.0 * value).round().clamp(0.0, 255.0) as u8;
                        let at = 3 * ((3 * y + 1) * 144 + 3 * x + 2) + channel;
                        assert_eq!(shown.pixels[at], expected, "{name}, row {row}, draw {draw}, {y} {x} {channel}");
                    }
                }
            }
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let (dataset, augment) = (Gradients::new(6), strong([112, 112]));
    let config = PreviewConfig { images: 3, draws: 2, seed: 1, epoch: 0 };
    let first = grid(&dataset, &augment, &config);
    assert_eq!(first.picture, grid(&dataset, &augment, &config).picture);
    let layout = layout(&dataset, &config, augment.size);
    let cell = |preview: &Preview, draw| part(&preview.picture, layout.cell(0, draw), layout.cell_size);
    let other = grid(&dataset, &augment, &PreviewConfig { seed: 2, ..config });
    assert_eq!(cell(&first, 0), cell(&other, 0));
    assert_ne!(cell(&first, 1), cell(&other, 1));
    let later = grid(&dataset, &augment, &PreviewConfig { epoch: 1, ..config });
    assert_eq!(cell(&first, 2), cell(&later, 1), "the second draw is that of the next epoch");
}

#[test]
fn mixing_is_shown_within_a_column() {
    let dataset = Gradients::new(2);
    let mix = Some(Mixing { mixup_alpha: 50.0, ..Mixing::default() });
    let plain = Augment::new(Vec::new(), [120, 120]);
    let config = PreviewConfig { images: 2, draws: 1, ..Default::default() };
    let mixed = grid(&dataset, &Augment { mix, ..plain.clone() }, &config);
    let alone = grid(&dataset, &plain, &config);
    let layout = layout(&dataset, &config, plain.size);
    // Sample 0 has no blue, sample 1 has 30: of both about a half with so large an alpha.
    let blue = |preview: &Preview, row| part(&preview.picture, layout.cell(row, 1), layout.cell_size).pixels[2];
    assert_eq!([blue(&alone, 0), blue(&alone, 1)], [0, 30]);
    assert!((8..23).contains(&blue(&mixed, 0)) && (8..23).contains(&blue(&mixed, 1)), "{}", blue(&mixed, 0));
}

#[test]
fn a_damaged_file_gives_its_row_to_the_next_of_its_class() {
    let dataset = Gradients { damaged: [0].into(), ..Gradients::new(6) };
    let preview = grid(&dataset, &strong([112, 112]), &PreviewConfig { images: 2, draws: 1, ..Default::default() });
    assert_eq!(preview.samples, [2, 1]);
    assert_eq!(preview.skipped.len(), 1);
    assert_eq!((preview.skipped[0].name.as_str(), preview.skipped[0].reason.as_str()), ("0.bmp", "the file is empty"));
}

#[test]
fn what_cannot_be_shown_is_an_error_that_says_why() {
    let (augment, config) = (strong([112, 112]), PreviewConfig::default());
    let dataset = Gradients::new(6);
    assert_eq!(problem(&Gradients::new(0), &augment, &config), "unusable data set: it has no images");
    let damaged = Gradients { damaged: [0, 1].into(), ..Gradients::new(2) };
    assert!(problem(&damaged, &augment, &config).contains("0.bmp: the file is empty"));
    let none = PreviewConfig { images: 0, draws: 101, ..config };
    let message = problem(&dataset, &augment, &none);
    assert!(message.contains("images is 0") && message.contains("draws is 101"), "{message}");
    let message = problem(&dataset, &strong([60_000, 60_000]), &config);
    assert!(message.contains("fewer images"), "{message}");
    let message = problem(&dataset, &Augment { std: [0.0; 3], ..augment }, &config);
    assert!(message.starts_with("unusable augmentation: std"), "{message}");
    let last = PreviewConfig { epoch: u32::MAX, ..config };
    assert!(problem(&dataset, &strong([112, 112]), &last).contains("epoch"));
}

#[test]
fn a_picture_of_any_shape_is_fitted() {
    for (width, height, expected) in
        [(1, 20_000, [1, 50]), (20_000, 1, [60, 1]), (30, 30, [50, 50]), (120, 100, [60, 50])]
    {
        let image = RgbImage { width, height, pixels: vec![7; 3 * (width * height) as usize] };
        let fitted = fitted(&image, [60, 50]);
        assert_eq!([fitted.width, fitted.height], expected);
        assert!(fitted.pixels.iter().all(|&byte| byte == 7));
    }
}

#[test]
fn a_png_on_disk_has_the_pixels_of_the_picture_and_leaves_nothing_beside() {
    let preview = grid(&Gradients::new(2), &strong([112, 112]), &PreviewConfig { draws: 1, ..Default::default() });
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("grid.png");
    std::fs::write(&path, "an older one").expect("written");
    preview.write_png(&path).expect("written");
    let read = crate::rgb_from_bytes(&std::fs::read(&path).expect("a file"), &Default::default()).expect("a PNG");
    assert!(read == preview.picture);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1);

    let error = preview.write_png(&folder.path().join("missing/grid.png")).expect_err("no folder").to_string();
    assert!(error.contains("missing/grid.png") && error.contains("choose another path"), "{error}");
    assert!(preview.write_png(folder.path()).is_err(), "a folder is in the way");
}
