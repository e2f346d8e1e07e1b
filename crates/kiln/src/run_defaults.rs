//! What a run looks like when nothing is said: small where a processor trains, the real thing where a GPU does.
//!
//! In: the device and whether the data is the embedded set. Out: a recipe, and what it was sized for. A
//! recipe file or an option overrules any of it.

use kiln_data::{Augmentation, RandomHorizontalFlip, RandomResizedCrop};
use kiln_device::OpenDevice;
use kiln_train::Recipe;

/// A recipe chosen for the device, and why it looks as it does.
#[derive(Clone, Debug, PartialEq)]
pub struct RunDefaults {
    /// The recipe.
    pub recipe: Recipe,
    /// Whom it suits, for the person who started the run.
    pub why: String,
}

/// Smallest share of a picture that a crop keeps in a run of few epochs: 0.08, the default, is meant for runs long
/// enough to see every part of every picture.
const SHORT_RUN_CROP: f64 = 0.7;

/// Weight decay for a thousand pictures; the recipe's default is for a million.
const SMALL_SET_WEIGHT_DECAY: f64 = 5e-4;

impl RunDefaults {
    /// The defaults for `device`; `embedded` says that the data is Kiln's own small set of 160 px pictures.
    pub fn for_device(device: &OpenDevice, embedded: bool) -> Self {
        let (image_size, batch_size, epochs, lr, sized_for) = match (device.is_gpu(), device.software, embedded) {
            (true, _, true) => (128, 32, 30, 0.02, "a GPU and the small embedded set"),
            (true, _, false) => (224, 64, 30, 0.05, "a GPU"),
            (false, true, _) => (32, 4, 1, 0.01, "software Vulkan, which is for tests"),
            (false, false, _) => (48, 16, 12, 0.01, "a processor; a GPU gets larger images and 30 epochs"),
        };
        let mut recipe = Recipe::default();
        recipe.augment.image_size = image_size;
        recipe.data.batch_size = batch_size;
        recipe.run.epochs = epochs;
        recipe.optimizer.lr = lr;
        recipe.schedule.warmup_epochs = recipe.schedule.warmup_epochs.min(epochs as f64 / 10.0);
        if embedded {
            recipe.optimizer.weight_decay = SMALL_SET_WEIGHT_DECAY;
        }
        if embedded || !device.is_gpu() {
            let crop = RandomResizedCrop { scale: [SHORT_RUN_CROP, 1.0], ..RandomResizedCrop::default() };
            recipe.augment.train = Some(vec![
                Augmentation::RandomResizedCrop(crop),
                Augmentation::RandomHorizontalFlip(RandomHorizontalFlip::default()),
            ]);
        }
        Self { recipe, why: format!("defaults for {sized_for}") }
    }
}
