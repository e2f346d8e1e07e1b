//! What follows a failing device: less work at once, or the device opened again, and the run from its newest checkpoint.
//!
//! Out of memory outside of a step's own passes (the optimiser, or a device that reports late) and a device that was taken
//! away (a lid closed at night, a driver that crashed, the system's watchdog) leave nothing on the device to go on with.
//! A run that fails again and again at the same place ends with the device's error and the advice that belongs to it.

use super::{Run, Trainer};
use crate::checkpoint::ResumeFrom;
use crate::error::TrainError;
use crate::failure::{Failure, guarded};
use crate::position::Position;
use crate::report::{Notice, Observer};
use kiln_data::DataError;
use kiln_device::{DeviceError, OpenDevice, Trouble};

/// How often a run goes back to the same checkpoint before it gives up.
const MAX_RECOVERIES: usize = 3;

/// Opens the device again.
pub(super) type Reopen = Box<dyn Fn() -> Result<OpenDevice, DeviceError>>;

/// How often the run went back, and to where the last time.
#[derive(Debug, Default)]
pub(super) struct Recoveries {
    to: Option<Position>,
    times: usize,
}

impl Recoveries {
    /// Whether the run may go back to `position` once more.
    fn allow(&mut self, position: Option<Position>) -> bool {
        if self.to != position {
            *self = Self { to: position, times: 0 };
        }
        self.times += 1;
        self.times <= MAX_RECOVERIES
    }
}

impl Trainer {
    /// The run at its newest checkpoint, on a device that has room or was opened again.
    ///
    /// # Errors
    /// `error` itself, if it isn't about the device or nothing can be done.
    pub(super) fn recover(&mut self, error: TrainError, observer: &mut dyn Observer) -> Result<Run, TrainError> {
        let error = self.of_the_device(error);
        let TrainError::Device { trouble: Some(trouble), reason, .. } = &error else { return Err(error) };
        let position = self.saved.as_ref().map(|saved| saved.position);
        let failure = Failure { reason: reason.clone(), trouble: *trouble };
        if !self.recoveries.allow(position) || !self.ready_again(&failure, observer) {
            return Err(error);
        }
        self.resume = Some(ResumeFrom::Auto);
        let model = self.recipe.model.resnet(self.classes.len()).init(self.recipe.run.seed, &self.device);
        let run = match guarded(|| self.begin(model)) {
            Ok(run) => run?,
            // The device only seemed to be back.
            Err(_) => return Err(error),
        };
        if let Some(saved) = &self.saved {
            let notice = Notice::Recovered { reason: failure.reason, checkpoint: saved.path.clone() };
            tracing::info!("{notice}");
            observer.notice(&notice);
        }
        Ok(run)
    }

    /// An upload that the device refused is the device's error, not the data's.
    fn of_the_device(&self, error: TrainError) -> TrainError {
        let TrainError::Data(DataError::Worker { message, .. }) = &error else { return error };
        match Trouble::of(message) {
            Some(trouble) => self.failed(Failure { reason: message.clone(), trouble }),
            None => error,
        }
    }

    fn ready_again(&mut self, failure: &Failure, observer: &mut dyn Observer) -> bool {
        match failure.trouble {
            Trouble::OutOfMemory => {
                let batch_size = self.recipe.data.batch_size.min(self.train.num_samples());
                self.make_room(failure, batch_size, observer).is_ok()
            }
            Trouble::Lost | Trouble::TimedOut => match guarded(|| (self.reopen)()) {
                Ok(Ok(opened)) => {
                    self.device = opened.device.without_autodiff();
                    true
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "the device can't be opened again");
                    false
                }
                Err(failure) => {
                    tracing::warn!(reason = failure.reason, "the device can't be opened again");
                    false
                }
            },
            Trouble::LimitExceeded | Trouble::Compiler => false,
        }
    }

    /// The error of a failing device.
    pub(super) fn failed(&self, failure: Failure) -> TrainError {
        TrainError::Device {
            epoch: self.epoch,
            reason: failure.reason,
            trouble: Some(failure.trouble),
            checkpoint: self.saved.as_ref().map(|saved| saved.path.clone()),
        }
    }
}
