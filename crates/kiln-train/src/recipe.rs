//! The recipe: everything about a run that isn't the data, the device or the output folder.
//!
//! In and out: TOML with one table per subject, or the same struct in Rust; every key has a default.
//! An unknown key is an error that names the nearest valid one, so that a typing error can't silently train with a
//! default. The resolved recipe, every default written out, is stored beside the results and in each checkpoint.
//! Source of the defaults: He et al., arXiv 1812.01187 (ResNet-50 with warm-up, cosine, label smoothing, no decay on
//! norms and biases), shortened to 30 epochs.
//! Here are the keys, their meaning and their defaults; `recipe/text.rs` reads and writes them, `recipe/check.rs` judges them,
//! `recipe/build.rs` makes of them what the loop uses. None touches disk or clock.

mod average;
mod build;
mod check;
mod progressive;
mod text;
mod validation;

use crate::precision::Precision;
use crate::schedule::{Anneal, Phases, WarmupShape};
use kiln_data::{Augment, Augmentation, ByteSize, Mixing, OnError, Sampling};
use kiln_model::{Arch, Part, Stem};
use serde::{Deserialize, Serialize};

pub use average::{EmaConfig, SwaConfig};
pub use progressive::ProgressiveResize;
pub use text::Setting;
pub use validation::{BestBy, ValidationConfig};

/// Everything about a run that isn't the data, the device or the output folder.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipe {
    /// How long, from which seed.
    pub run: RunConfig,
    /// How batches are made of a data set.
    pub data: DataConfig,
    /// The network.
    pub model: ModelConfig,
    /// How weights change.
    pub optimizer: OptimizerConfig,
    /// The learning rate over the run.
    pub schedule: ScheduleConfig,
    /// What is minimised.
    pub loss: LossConfig,
    /// An exponential moving average of the weights.
    pub ema: EmaConfig,
    /// The mean of the weights at the ends of the last epochs.
    pub swa: SwaConfig,
    /// How an epoch is judged.
    pub validation: ValidationConfig,
    /// What happens to a picture. Last, since TOML wants tables after values.
    pub augment: AugmentConfig,
}

/// `[run]`: how long, from which seed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunConfig {
    /// Passes over the training images. Default 30.
    pub epochs: usize,
    /// Determines first weights, order and every draw. Default 0.
    pub seed: u64,
    /// Newest checkpoints kept, the best epoch's apart. Default 2: one to fall back on if the newest is damaged.
    pub keep_checkpoints: usize,
    /// Epochs between checkpoints; the best and the last epoch have theirs anyway. Default 1.
    pub checkpoint_epochs: usize,
    /// Minutes between checkpoints within an epoch; 0 is none. Default 10: what a crash may cost.
    pub checkpoint_minutes: f64,
    /// Images the device works on at once. The gradients of a step's parts are added up, each by its share of the images,
    /// so a step learns from `data.batch_size` images whatever fits; batch norms see the parts. 0, the default, is all.
    pub micro_batch_size: usize,
    /// The type convolutions compute in: `f32` (the default), `bf16` or `f16`. A device that can't be trusted with it
    /// goes on in f32 and says why.
    pub precision: Precision,
    /// `f16`: steps in a row that may be left out because their gradients overflowed, while the loss scale adapts.
    /// Default 20: the scale falls to a millionth meanwhile.
    pub max_skipped_steps: usize,
    /// Minutes without a step after which a warning says what the run waits for; 0 is never. Default 15: a GPU's first
    /// steps compile kernels for a few.
    pub watchdog_minutes: f64,
}

/// `[data]`: how batches are made of a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Images in a step. Default 64.
    pub batch_size: usize,
    /// Images in a validation batch; 0, the default, takes `batch_size`.
    pub val_batch_size: usize,
    /// Decoding threads; 0, the default, begins with one per core and adapts.
    pub workers: usize,
    /// Leave out a last training batch that isn't full, unless it is the only one. Default true: every step has the
    /// same shape, which a GPU tunes its kernels for once. The order changes each epoch, so no image is always left out.
    pub drop_last: bool,
    /// End a training epoch after this many batches; 0, the default, is never.
    pub limit_batches: usize,
    /// End validation after this many batches; 0, the default, is never.
    pub limit_val_batches: usize,
    /// Most bytes that decoded pictures may take while they wait, in MiB. Default 256.
    pub queue_mib: usize,
    /// Memory for decoded training pictures, which later epochs take from there instead of decoding them again, such as
    /// `"8GiB"`. Default 0.
    pub cache: ByteSize,
    /// Shrink pictures whose shorter side is longer than this many pixels right after decoding, which lets more of them
    /// into the cache and takes detail from the closest crops. 0, the default, leaves them as they are.
    pub shorter_side: u32,
    /// What to do with a damaged file: `skip` (the default) or `fail`.
    pub on_error: OnError,
    /// How training images are chosen: `every_sample` once an epoch (the default), `class_balanced` with replacement,
    /// `{ class_weights = [...] }` or `{ sample_weights = [...] }`.
    pub sampling: Sampling,
}

/// `[model]`: the network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ModelConfig {
    /// Which. Default `resnet50`.
    pub arch: Arch,
    /// Channels of the first stage. Default 64, the published nets'.
    pub width: usize,
    /// First layers: `conv7x7`, `deep3x3`, or `small` for images of about 32 px. Default: the published net's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stem: Option<Stem>,
    /// Start each residual branch at zero. Default true (Goyal et al., arXiv 1706.02677, section 5.1).
    pub zero_init_last_gamma: bool,
    /// Chance that training leaves the last block's residual branch out (stochastic depth); earlier blocks' grow to it.
    /// Default 0; ResNet-50's long recipes take 0.05.
    pub drop_path: f64,
    /// Blur before every stride (Zhang, arXiv 1904.11486). Default false.
    pub antialias: bool,
    /// Parts that don't change: `stem`, `layer1` … `layer4`, `fc`. Their batch norms keep their statistics. Default none;
    /// all but `fc` is a linear probe.
    pub freeze: Vec<Part>,
}

/// `[optimizer]`: how weights change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct OptimizerConfig {
    /// The rule. Default `sgd`.
    pub kind: OptimizerKind,
    /// Highest learning rate, for `lr_base_size` images a step. Default 0.05; published recipes use 0.1 for 256 images a
    /// step, and in proportion.
    pub lr: f64,
    /// Images a step that `lr` is meant for: the learning rate used is `lr * data.batch_size / lr_base_size` (Goyal et al.,
    /// arXiv 1706.02677, section 2.1). 0, the default, uses `lr` as it is.
    pub lr_base_size: usize,
    /// `sgd`, `rmsprop`, `lars`, `muon`: share of the momentum buffer kept from step to step. Default 0.9.
    pub momentum: f64,
    /// `sgd`, `lars`, `muon`: Nesterov's momentum. Default true.
    pub nesterov: bool,
    /// Weight decay of weights. Default 5e-5, of torchvision's and NVIDIA's tuned recipes (ResNet's paper: 1e-4).
    pub weight_decay: f64,
    /// Weight decay of norms' gammas and betas and of biases. Default 0.
    pub norm_bias_weight_decay: f64,
    /// `adam`, `adamw`, `lamb`, and what isn't a convolution in `muon`: shares kept of the gradient's running mean and of its square's. Default 0.9 and 0.999.
    pub betas: [f64; 2],
    /// Added to the denominator of every rule but `sgd`. Default 1e-8, PyTorch's; `lamb` 1e-6, timm's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub eps: Option<f64>,
    /// `adam`, `adamw`: divide by the largest running square so far (Reddi et al., arXiv 1904.09237). Default false.
    pub amsgrad: bool,
    /// `rmsprop`: share kept of the running square. Default 0.99, PyTorch's.
    pub alpha: f64,
    /// `lars`: a layer's step over its weights' norm. Default 0.001 (You et al., arXiv 1708.03888).
    pub trust_coefficient: f64,
    /// Largest value of a single gradient, either side of 0; 0, the default, is no limit.
    pub clip_grad_value: f64,
    /// Largest norm of all gradients taken together; longer ones are shortened to it. 0, the default, is no limit, and
    /// for `lamb` 1, timm's.
    pub clip_grad_norm: f64,
    /// Learning rate of a part over that of the part behind it, from `fc` back to `stem`. Default 1; fine-tuning takes
    /// about 0.7.
    pub layer_lr_decay: f64,
}

/// Update rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OptimizerKind {
    /// Stochastic gradient descent with momentum, PyTorch's numbers.
    #[default]
    Sgd,
    /// Adam with the decay added to the gradient (Kingma and Ba, arXiv 1412.6980).
    Adam,
    /// Adam with the decay apart from the gradient (Loshchilov and Hutter, arXiv 1711.05101).
    #[serde(rename = "adamw")]
    AdamW,
    /// RMSprop with momentum, PyTorch's.
    #[serde(rename = "rmsprop")]
    RmsProp,
    /// Adam's direction with a step in proportion to the layer's norm (You et al., arXiv 1904.00962), timm's numbers.
    Lamb,
    /// SGD with a step in proportion to the layer's norm (You et al., arXiv 1708.03888), timm's numbers.
    Lars,
    /// Momentum with the steps of convolutions made orthogonal (Jordan et al., 2024), AdamW for the rest; `lr` and
    /// `weight_decay` are what AdamW would take.
    Muon,
}

/// `[schedule]`: the learning rate over the run, by step. Lengths are in epochs, fractions allowed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Shape after the warm-up. Default `cosine`.
    pub kind: ScheduleKind,
    /// Length of the warm-up. Default 2.
    pub warmup_epochs: f64,
    /// First learning rate of the warm-up, as a share of the highest. Default 0.01, torchvision's.
    pub warmup_start: f64,
    /// Shape of the warm-up: `linear` (the default) or `constant`.
    pub warmup_shape: WarmupShape,
    /// Let the warm-up take the place of the beginning of the curve, as timm does by default, instead of coming before
    /// it. Default false.
    pub warmup_overlaps: bool,
    /// Learning rate at the end of `cosine`, `linear`, `polynomial` and `warm_restarts`, absolute. Default 0.
    pub final_lr: f64,
    /// `step`: epochs between drops. Default 30.
    pub step_epochs: f64,
    /// `multi_step`: epochs, counted from the end of the warm-up, at which to drop. Default none.
    pub milestones: Vec<f64>,
    /// `step`, `multi_step`: factor of a drop; `exponential`: factor of an epoch. Default 0.1.
    pub gamma: f64,
    /// `polynomial`: exponent; 1, the default, is a straight line.
    pub power: f64,
    /// `warm_restarts`: length of the first cycle. Default 10.
    pub cycle_epochs: f64,
    /// `warm_restarts`: length of a cycle over that of the one before. Default 2.
    pub cycle_growth: f64,
    /// `warm_restarts`: peak of a cycle over that of the one before. Default 1.
    pub cycle_decay: f64,
    /// `one_cycle`: share of the run spent rising. Default 0.3, PyTorch's.
    pub pct_start: f64,
    /// `one_cycle`: highest over first learning rate. Default 25, PyTorch's.
    pub div_factor: f64,
    /// `one_cycle`: first over last learning rate. Default 1e4, PyTorch's.
    pub final_div_factor: f64,
    /// `one_cycle`: shape of rise and fall, `cosine` (the default) or `linear`.
    pub anneal: Anneal,
    /// `one_cycle`: `two` (the default) or `three` stages.
    pub phases: Phases,
    /// `one_cycle`: lowest momentum, at the peak, and highest; the first of `betas` where the rule has no momentum.
    /// Default none: the momentum stays as `optimizer` says. PyTorch's own default is 0.85 and 0.95.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub momentum_range: Option<[f64; 2]>,
}

/// Shapes of a schedule; the formulas are in [`Curve`](crate::Curve).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScheduleKind {
    /// Half a cosine down to `final_lr`.
    #[default]
    Cosine,
    /// The highest learning rate throughout.
    Constant,
    /// A drop every `step_epochs`.
    Step,
    /// A drop at each of `milestones`.
    MultiStep,
    /// A factor of `gamma` each epoch.
    Exponential,
    /// A straight line down to `final_lr`.
    Linear,
    /// A power of the share left.
    Polynomial,
    /// Cosine cycles.
    WarmRestarts,
    /// One rise and one long fall, the warm-up included (Smith and Topin, arXiv 1708.07120).
    OneCycle,
}

/// `[loss]`: what is minimised. Validation reports the plain cross entropy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LossConfig {
    /// Which. Default `cross_entropy`.
    pub kind: LossKind,
    /// Share of the target given to all classes alike, of a mixed image's after mixing. Default 0.1 (Szegedy et al.,
    /// arXiv 1512.00567, section 7).
    pub label_smoothing: f64,
    /// A factor for each class, in the order of their names. Default none.
    pub class_weights: Vec<f64>,
    /// Weigh classes against their numbers of training images, so that rare ones count as much as common ones. Default
    /// false.
    pub balance_classes: bool,
    /// `bce`: targets above this become 1, the others 0, after mixing; 0, the default, leaves them as they are. timm's A
    /// recipes take 0.2.
    pub target_threshold: f64,
    /// `focal`: how much less an image counts that is nearly right. Default 2 (Lin et al., arXiv 1708.02002).
    pub focal_gamma: f64,
}

/// What is minimised; the formulas are in [`Loss`](crate::Loss).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LossKind {
    /// Cross entropy of the softmax: one class is right.
    #[default]
    CrossEntropy,
    /// Binary cross entropy: a yes or no for each class (Wightman et al., arXiv 2110.00476).
    Bce,
    /// Cross entropy that looks away from what is nearly right.
    Focal,
}

/// `[augment]`: what happens to a picture before the network sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AugmentConfig {
    /// Side of a training image in pixels. Default 224.
    pub image_size: usize,
    /// Side of a validation image in pixels; 0, the default, takes `image_size`.
    pub val_image_size: usize,
    /// Mean of each channel on the scale 0–1, subtracted. Default ImageNet's.
    pub mean: [f32; 3],
    /// Standard deviation of each channel on the scale 0–1, divided by. Default ImageNet's.
    pub std: [f32; 3],
    /// Training augmentations in order. Default: random resized crop and horizontal flip.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub train: Option<Vec<Augmentation>>,
    /// Validation steps in order. Default: resize the shorter side to 8/7 of the image size, crop the centre.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub val: Option<Vec<Augmentation>>,
    /// `[augment.progressive]`: smaller training images in early epochs. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub progressive: Option<ProgressiveResize>,
    /// `[augment.mix]`: mixup and cutmix of training images. Default none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mix: Option<Mixing>,
}

impl Default for RunConfig {
    fn default() -> Self {
        Self {
            epochs: 30,
            seed: 0,
            keep_checkpoints: 2,
            checkpoint_epochs: 1,
            checkpoint_minutes: 10.0,
            micro_batch_size: 0,
            precision: Precision::F32,
            max_skipped_steps: 20,
            watchdog_minutes: 15.0,
        }
    }
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            batch_size: 64,
            val_batch_size: 0,
            workers: 0,
            drop_last: true,
            limit_batches: 0,
            limit_val_batches: 0,
            queue_mib: 256,
            cache: ByteSize(0),
            shorter_side: 0,
            on_error: OnError::Skip,
            sampling: Sampling::EverySample,
        }
    }
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            arch: Arch::ResNet50,
            width: 64,
            stem: None,
            zero_init_last_gamma: true,
            drop_path: 0.0,
            antialias: false,
            freeze: Vec::new(),
        }
    }
}

impl Default for OptimizerConfig {
    fn default() -> Self {
        Self {
            kind: OptimizerKind::Sgd,
            lr: 0.05,
            lr_base_size: 0,
            momentum: 0.9,
            nesterov: true,
            weight_decay: 5e-5,
            norm_bias_weight_decay: 0.0,
            betas: [0.9, 0.999],
            eps: None,
            amsgrad: false,
            alpha: 0.99,
            trust_coefficient: 0.001,
            clip_grad_value: 0.0,
            clip_grad_norm: 0.0,
            layer_lr_decay: 1.0,
        }
    }
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self {
            kind: ScheduleKind::Cosine,
            warmup_epochs: 2.0,
            warmup_start: 0.01,
            warmup_shape: WarmupShape::Linear,
            warmup_overlaps: false,
            final_lr: 0.0,
            step_epochs: 30.0,
            milestones: Vec::new(),
            gamma: 0.1,
            power: 1.0,
            cycle_epochs: 10.0,
            cycle_growth: 2.0,
            cycle_decay: 1.0,
            pct_start: 0.3,
            div_factor: 25.0,
            final_div_factor: 1e4,
            anneal: Anneal::Cosine,
            phases: Phases::Two,
            momentum_range: None,
        }
    }
}

impl Default for LossConfig {
    fn default() -> Self {
        Self {
            kind: LossKind::CrossEntropy,
            label_smoothing: 0.1,
            class_weights: Vec::new(),
            balance_classes: false,
            target_threshold: 0.0,
            focal_gamma: 2.0,
        }
    }
}

impl Default for AugmentConfig {
    fn default() -> Self {
        let Augment { mean, std, .. } = Augment::eval(224);
        Self { image_size: 224, val_image_size: 0, mean, std, train: None, val: None, progressive: None, mix: None }
    }
}

#[cfg(test)]
mod tests;
