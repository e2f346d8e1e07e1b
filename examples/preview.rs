//! What the model sees, as a picture: pictures of the embedded set beside draws of a list of augmentations.
//!
//! `cargo run --release --example preview` writes `preview.png`; `kiln preview` does it for a recipe and your own folder.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use kiln::data::{
    Augment, Augmentation, Mixing, PreviewConfig, RandAugment, RandomErasing, RandomResizedCrop, preview_grid, scenes,
};
use std::path::Path;

fn main() -> anyhow::Result<()> {
    let splits = scenes::open_or_create(None, &scenes::ScenesConfig::default())?;
    let steps = vec![
        Augmentation::RandomResizedCrop(RandomResizedCrop { scale: [0.5, 1.0], ..Default::default() }),
        Augmentation::RandAugment(RandAugment::default()),
        Augmentation::RandomErasing(RandomErasing::default()),
    ];
    let mix = Some(Mixing { cutmix_alpha: 1.0, probability: 0.5, ..Mixing::default() });
    let augment = Augment { mix, ..Augment::new(steps, [160, 160]) };

    let config = PreviewConfig { images: 10, draws: 5, ..PreviewConfig::default() };
    let preview = preview_grid(splits.train.as_ref(), &augment, &config, &kiln::device::cpu())?;
    preview.write_png(Path::new("preview.png"))?;
    println!("wrote preview.png: {}x{} pixels", preview.picture.width, preview.picture.height);
    Ok(())
}
