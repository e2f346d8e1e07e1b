//! A trained network with all it takes to use it: its classes, and how a picture is prepared for it.
//!
//! In: a run folder, one of its checkpoints, or a weights file of Kiln's or another program's. Out: [`TrainedModel`].
//! A weights file of Kiln's says how its validation images were prepared; of other files the metadata's mean, standard
//! deviation and size count, and without them ImageNet's.
//! Not done here: what to do with the model (`predict.rs`, `evaluate.rs`, `grad_cam.rs`).

use crate::checkpoint::{EMA, MODEL, PREPARATION};
use crate::error::TrainError;
use crate::run_folder::RunFolder;
use burn::tensor::Device;
use kiln_data::Augment;
use kiln_model::{Arch, LoadOptions, Metadata, ResNet, WeightsFile};
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// Side of an image where a file doesn't say, ImageNet's.
const USUAL_SIDE: usize = 224;

/// A network ready to be asked.
#[derive(Clone, Debug)]
pub struct TrainedModel {
    /// The network, on a device without autodiff, so that its norms use what they learned.
    pub model: ResNet,
    /// The classes, in the order of the outputs; `None` if the file doesn't name them.
    pub classes: Option<Vec<String>>,
    /// How a picture is prepared: validation's way.
    pub augment: Augment,
    /// The file its weights came from.
    pub weights: PathBuf,
}

/// What a file may not say about itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenModel<'a> {
    /// The network, for files that don't say.
    pub arch: Option<Arch>,
    /// The key in the file under which the weights lie, instead of the likeliest.
    pub set: Option<&'a str>,
    /// Side of the images in pixels, instead of that of the training's validation.
    pub image_size: Option<usize>,
}

impl TrainedModel {
    /// Opens what is at `path`: of a run the best epoch's weights, or the newest checkpoint's if there is no best yet.
    ///
    /// # Errors
    /// [`TrainError::NoWeights`] if a folder holds none; [`TrainError::Model`] if the file can't be read, isn't a
    /// ResNet's, or doesn't say which.
    pub fn open(path: &Path, options: &OpenModel<'_>, device: &Device) -> Result<Self, TrainError> {
        let weights = weights_at(path)?;
        let file = WeightsFile::open(&weights)?;
        let model = file.config(options.arch, options.set)?.init(0, &device.clone().without_autodiff());
        let load = LoadOptions { set: options.set, ..LoadOptions::default() };
        let (model, _) = model.load_weights(&file, &load)?;
        let augment = preparation(file.metadata(), options.image_size);
        augment.validate().map_err(|problems| TrainError::UnusableWeights { path: weights.clone(), problems })?;
        Ok(Self { model, classes: file.classes(), augment, weights })
    }

    /// Number of outputs.
    pub fn num_classes(&self) -> usize {
        self.model.config().num_classes
    }

    /// What the class of an output is called: its name, or its number if the file has no names.
    pub fn class(&self, index: usize) -> String {
        let named = self.classes.as_ref().and_then(|classes| classes.get(index).cloned());
        named.unwrap_or_else(|| index.to_string())
    }
}

/// The weights file of a run, a checkpoint or a folder of checkpoints; a file is taken as it is.
fn weights_at(path: &Path) -> Result<PathBuf, TrainError> {
    if !path.is_dir() {
        return Ok(path.to_owned());
    }
    let run = RunFolder::new(path).checkpoints();
    let candidates = [run.best_model(), path.join("best.safetensors"), path.join(EMA), path.join(MODEL)];
    if let Some(found) = candidates.into_iter().find(|file| file.is_file()) {
        return Ok(found);
    }
    let newest = run.newest()?.map(|found| (!found.checkpoint.ema.is_empty(), found.path));
    let newest = newest.map(|(averaged, path)| path.join(if averaged { EMA } else { MODEL }));
    newest.ok_or_else(|| TrainError::NoWeights { path: path.to_owned() })
}

/// How images are prepared for weights with this metadata.
fn preparation(metadata: &Metadata, side: Option<usize>) -> Augment {
    let recorded: Option<Augment> = json(metadata, PREPARATION);
    let mut augment = match (side, recorded) {
        (None, Some(recorded)) => return recorded,
        (Some(side), Some(recorded)) => Augment { mean: recorded.mean, std: recorded.std, ..Augment::eval(side) },
        (side, None) => {
            let [height, width] = json(metadata, "input_size").unwrap_or([USUAL_SIDE; 2]);
            let square = Augment::eval(side.unwrap_or(height.min(width)));
            Augment { size: if side.is_some() { square.size } else { [height, width] }, ..square }
        }
    };
    augment.mean = json(metadata, "mean").unwrap_or(augment.mean);
    augment.std = json(metadata, "std").unwrap_or(augment.std);
    augment
}

fn json<T: DeserializeOwned>(metadata: &Metadata, key: &str) -> Option<T> {
    serde_json::from_str(metadata.get(key)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kiln_model::{ResNetConfig, save_safetensors};

    fn metadata(entries: &[(&str, &str)]) -> Metadata {
        entries.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn a_file_s_own_preparation_counts_before_anything_else() {
        let recorded = Augment { mean: [0.1, 0.2, 0.3], ..Augment::eval(48) };
        let text = serde_json::to_string(&recorded).expect("plain fields");
        let of_kiln = metadata(&[(PREPARATION, &text), ("mean", "[0.9,0.9,0.9]")]);
        assert_eq!(preparation(&of_kiln, None), recorded);
        let of_others = metadata(&[("mean", "[0.5,0.5,0.5]"), ("input_size", "[64,64]")]);
        assert_eq!(preparation(&of_others, None), Augment { mean: [0.5; 3], ..Augment::eval(64) });
        assert_eq!(preparation(&Metadata::new(), None), Augment::eval(224));
        assert_eq!(preparation(&Metadata::new(), Some(96)), Augment::eval(96));
    }

    #[test]
    fn a_folder_without_weights_says_what_was_looked_for() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let error = TrainedModel::open(folder.path(), &OpenModel::default(), &kiln_device::cpu());
        let message = error.expect_err("nothing there").to_string();
        assert!(message.contains("best.safetensors") && message.contains("kiln train"), "{message}");
    }

    #[test]
    fn a_weights_file_opens_with_its_classes_and_one_without_names_counts() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let device = kiln_device::cpu();
        let config = ResNetConfig { width: 4, num_classes: 2, ..ResNetConfig::new(Arch::ResNet18) };
        for (metadata, second) in [(metadata(&[("classes", r#"["cat","dog"]"#)]), "dog"), (Metadata::new(), "1")] {
            let path = folder.path().join("best.safetensors");
            save_safetensors(&path, &config.init(3, &device), &metadata).expect("written");
            let opened = TrainedModel::open(folder.path(), &OpenModel::default(), &device).expect("opened");
            assert_eq!((opened.num_classes(), opened.class(1).as_str()), (2, second));
            assert_eq!(opened.weights, path);
        }
    }
}
