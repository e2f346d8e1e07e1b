//! Where a device may fail in a step: the points at which tests make it fail.
//!
//! A fault is a panic with the text that a backend gives, raised where the backend would raise it; what follows is the code
//! that a real failure runs. Outside of tests nothing is ever planned and nothing is compiled in.

/// A stretch of work on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// The network's forward pass.
    Forward,
    /// The backward pass.
    Backward,
    /// The optimiser's step.
    Optimizer,
    /// A validation batch.
    Validation,
}

/// The failures planned for a run.
#[derive(Debug, Default)]
pub(super) struct Faults {
    #[cfg(test)]
    planned: std::sync::Mutex<Vec<Fault>>,
}

/// A failure in `phase` of the first step from `step` on, counted from 0 over the run, that has at least `min_images`.
#[cfg(test)]
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) phase: Phase,
    pub(super) step: u64,
    pub(super) min_images: usize,
    pub(super) text: String,
    /// How often it happens.
    pub(super) times: usize,
}

impl Faults {
    #[cfg(test)]
    pub(super) fn plan(faults: Vec<Fault>) -> Self {
        Self { planned: std::sync::Mutex::new(faults) }
    }

    #[cfg(test)]
    pub(super) fn strike(&self, phase: Phase, step: u64, images: usize) {
        let mut planned = self.planned.lock().expect("no one panics while it is held");
        let due = |fault: &&mut Fault| {
            fault.phase == phase && step >= fault.step && images >= fault.min_images && fault.times > 0
        };
        let Some(fault) = planned.iter_mut().find(due) else { return };
        fault.times -= 1;
        let text = fault.text.clone();
        drop(planned);
        panic!("{text}");
    }

    #[cfg(not(test))]
    #[inline]
    pub(super) fn strike(&self, _phase: Phase, _step: u64, _images: usize) {}
}
