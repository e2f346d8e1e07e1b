//! What is told about a packed data set, and what its bytes depend on: the content of `pack.json`.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{PackConfig, PackForm};
use crate::dataset::Opened;
use crate::loader::Skipped;

/// Grows when the same options give other bytes, so that an old half isn't completed with a new one.
const VERSION: u32 = 1;

/// What was packed, and how: the content of `pack.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackReport {
    /// What the bytes depend on.
    pub plan: PackPlan,
    /// Shards of the training set.
    pub train: Vec<PackedShard>,
    /// Shards of the validation set.
    pub val: Vec<PackedShard>,
}

/// What the packed bytes depend on: options, and the data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackPlan {
    /// Version of the packing itself.
    pub version: u32,
    /// [`PackConfig::short_side`].
    pub short_side: u32,
    /// [`PackConfig::form`].
    pub form: PackForm,
    /// [`PackConfig::shard_bytes`].
    pub shard_bytes: u64,
    /// [`PackConfig::seed`].
    pub seed: u64,
    /// The format of the data set packed.
    pub source_format: String,
    /// Number of classes.
    pub classes: usize,
    /// Training samples in the data set.
    pub train_samples: usize,
    /// Validation samples in the data set.
    pub val_samples: usize,
    /// SHA-256 over classes, names and labels of the data set.
    pub source_sha256: String,
}

/// One shard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PackedShard {
    /// The tar file's name.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// Its checksum.
    pub sha256: String,
    /// The checksum of its index.
    pub index_sha256: String,
    /// The position after the last one it covers.
    pub end_position: usize,
    /// Files stored as they were.
    pub kept: usize,
    /// Pictures encoded, made smaller or not.
    pub encoded: usize,
    /// Bytes of the sources of both.
    pub source_bytes: u64,
    /// Bytes of both as they are stored.
    pub picture_bytes: u64,
    /// What was left out.
    pub skipped: Vec<Skipped>,
}

impl PackedShard {
    /// Samples in it.
    pub fn samples(&self) -> usize {
        self.kept + self.encoded
    }
}

impl PackPlan {
    pub(super) fn new(opened: &Opened, config: &PackConfig) -> Self {
        let PackConfig { short_side, form, shard_bytes, seed, .. } = *config;
        let (train, val) = (&*opened.splits.train, &*opened.splits.val);
        let mut hash = Sha256::new();
        for text in train.classes() {
            hash.update(format!("{text:?}\n"));
        }
        for dataset in [train, val] {
            for index in 0..dataset.len() {
                hash.update(format!("{:?} {}\n", dataset.name(index), dataset.label(index)));
            }
            hash.update("\n");
        }
        Self {
            version: VERSION,
            short_side,
            form,
            shard_bytes,
            seed,
            source_format: opened.format.into(),
            classes: train.classes().len(),
            train_samples: train.len(),
            val_samples: val.len(),
            source_sha256: hex(&hash.finalize()),
        }
    }

    /// Says whether two plans differ in nothing but their data.
    pub(super) fn has_options_of(&self, other: &Self) -> bool {
        let options = |plan: &Self| (plan.version, plan.short_side, plan.form, plan.shard_bytes, plan.seed);
        options(self) == options(other)
    }
}

/// Lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
