//! One step's gradients: the batch goes through the network, in as many parts as the device needs.

use super::faults::Phase;
use super::{Run, Trainer};
use crate::error::TrainError;
use crate::failure::{Failure, guarded};
use crate::loss_scale::{LossScale, unscaled};
use crate::metrics::StepId;
use crate::micro_batch;
use crate::precision::Precision;
use crate::report::{Notice, Observer};
use burn::tensor::{Gradients, Tensor};
use kiln_data::Batch;
use kiln_device::Trouble;
use kiln_model::ResNet;

/// What a batch's way through the network and back gives.
pub(super) struct Pass {
    /// Of the batch's mean loss, for every parameter that learns.
    pub(super) gradients: Gradients,
    /// The mean loss, float `[1]`.
    pub(super) loss: Tensor<1>,
    /// Float `[B, K]`.
    pub(super) logits: Tensor<2>,
}

impl Trainer {
    /// Forward, loss and backward. A device that runs out of memory gets smaller parts, and the model is as it was.
    pub(super) fn pass(
        &mut self,
        run: &mut Run,
        batch: &Batch,
        observer: &mut dyn Observer,
    ) -> Result<Pass, TrainError> {
        loop {
            // Batch norms count along in a forward pass; this shares the weights and keeps the counts.
            let before = run.model.clone();
            let failure = match guarded(|| self.parts_of_pass(run, batch)) {
                Ok(pass) => return Ok(pass),
                Err(failure) => failure,
            };
            run.model = before;
            self.make_room(&failure, batch.labels.len(), observer).map_err(|failure| self.failed(failure))?;
        }
    }

    fn parts_of_pass(&self, run: &Run, batch: &Batch) -> Pass {
        // Of two labels where images are mixed; the loss smooths them.
        let targets = batch.soft_targets(self.classes.len(), 0.0);
        let num_images = batch.labels.len();
        let (mut gradients, mut losses, mut logits) = (None, Vec::new(), Vec::new());
        for part in micro_batch::parts(num_images, self.micro_batch) {
            let share = part.len() as f64 / num_images as f64;
            let whole = part.len() == num_images;
            let cut =
                |images: &Tensor<4>| if whole { images.clone() } else { images.clone().slice_dim(0, part.clone()) };
            let part_targets = if whole { targets.clone() } else { targets.clone().slice_dim(0, part.clone()) };

            self.faults.strike(Phase::Forward, run.num_steps_done, part.len());
            let part_logits = run.model.forward(self.precision.of(cut(&batch.images)));
            let loss = run.loss.of(part_logits.clone(), part_targets);
            let loss = if whole { loss } else { loss.mul_scalar(share) };
            losses.push(loss.clone().inner());
            let loss = if let Some(LossScale { scale, .. }) = run.loss_scale { loss.mul_scalar(scale) } else { loss };
            self.faults.strike(Phase::Backward, run.num_steps_done, part.len());
            gradients = Some(micro_batch::add(&run.model, gradients, loss.backward()));
            logits.push(part_logits.inner());
        }
        Pass {
            gradients: gradients.expect("a batch has at least one part"),
            loss: joined(losses).sum(),
            logits: joined(logits),
        }
    }

    /// The gradients the optimiser is to use; `None` if they overflowed f16 and the step is left out.
    ///
    /// # Errors
    /// [`TrainError::NonFinite`] if that happens too often in a row to be the scale's fault.
    pub(super) fn usable(
        &self,
        run: &mut Run,
        gradients: Gradients,
        id: StepId,
        observer: &mut dyn Observer,
    ) -> Result<Option<Gradients>, TrainError> {
        let Some(mut loss_scale) = run.loss_scale else { return Ok(Some(gradients)) };
        let unscaled = unscaled(&run.model, gradients, loss_scale.scale);
        match unscaled {
            Some(_) => loss_scale.passed(),
            None => loss_scale.overflowed(),
        }
        run.loss_scale = Some(loss_scale);
        if unscaled.is_some() {
            return Ok(unscaled);
        }
        if loss_scale.skipped_steps > self.recipe.run.max_skipped_steps {
            let what = format!("the gradients aren't finite, after {} steps left out", loss_scale.skipped_steps - 1);
            return Err(self.not_finite(run, what));
        }
        let notice = Notice::SkippedStep { epoch: self.epoch, step: id.step, scale: loss_scale.scale };
        tracing::info!("{notice}");
        observer.notice(&notice);
        Ok(None)
    }

    /// Takes the recipe's type for convolutions, or f32 with the reason.
    pub(super) fn settle_precision(&mut self, observer: &mut dyn Observer) {
        self.precision = self.recipe.run.precision;
        if let Err(reason) = self.precision.check(&self.device) {
            let notice = Notice::FellBackToF32 { precision: self.precision, reason };
            tracing::info!("{notice}");
            observer.notice(&notice);
            self.precision = Precision::F32;
        }
    }

    /// Logits of images that nothing is learnt from, in as many parts as the device needs.
    pub(super) fn logits(
        &mut self,
        model: &ResNet,
        images: &Tensor<4>,
        observer: &mut dyn Observer,
    ) -> Result<Tensor<2>, Failure> {
        let num_images = images.dims()[0];
        loop {
            let parts = micro_batch::parts(num_images, self.micro_batch);
            let forward = |part: &std::ops::Range<usize>| {
                self.faults.strike(Phase::Validation, 0, part.len());
                let whole = part.len() == num_images;
                let images = if whole { images.clone() } else { images.clone().slice_dim(0, part.clone()) };
                self.judge(model, self.precision.of(images))
            };
            match guarded(|| joined(parts.iter().map(forward).collect())) {
                Ok(logits) => return Ok(logits),
                Err(failure) => self.make_room(&failure, num_images, observer)?,
            }
        }
    }

    /// Logits of validation images, with the recipe's `flip` of them and their mirror images together.
    pub(super) fn judge(&self, model: &ResNet, images: Tensor<4>) -> Tensor<2> {
        match self.recipe.validation.flip {
            true => (model.forward(images.clone()) + model.forward(images.flip([3]))).div_scalar(2.0),
            false => model.forward(images),
        }
    }

    /// After running out of memory: smaller parts. Any other failure, and parts that can't be smaller, come back.
    pub(super) fn make_room(
        &mut self,
        failure: &Failure,
        num_images: usize,
        observer: &mut dyn Observer,
    ) -> Result<(), Failure> {
        let now = if self.micro_batch == 0 { num_images } else { self.micro_batch.min(num_images) };
        let smaller = now.div_ceil(2);
        if failure.trouble != Trouble::OutOfMemory || smaller == now || smaller < self.smallest_part {
            return Err(failure.clone());
        }
        self.micro_batch = smaller;
        self.device.memory_cleanup();
        let batch_size = self.recipe.data.batch_size;
        let notice = Notice::SmallerMicroBatch { micro_batch_size: smaller, batch_size };
        tracing::info!("{notice}");
        observer.notice(&notice);
        Ok(())
    }
}

/// Tensors along their first axis; one alone is taken as it is.
fn joined<const D: usize>(mut tensors: Vec<Tensor<D>>) -> Tensor<D> {
    if tensors.len() == 1 { tensors.remove(0) } else { Tensor::cat(tensors, 0) }
}
