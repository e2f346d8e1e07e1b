//! Brings batches of bytes to a device, one ahead of the step that uses them.
//!
//! In: [`EpochBatches`]. Out: [`Batch`]es on the device.
//! Own thread: put the batch together, draw each image's program, copy the bytes. Consumer's thread: wait for
//! that, launch the augmentation. While the consumer works on one batch, the next one is made and lies ready
//! on the device; the one after it isn't begun, so two batches of bytes are on the device at once.
//!
//! The bytes travel as one flat tensor of `u32` words: WGSL has no `u8`, and CUDA would pad each row of three.
//! burn copies them once more on the host, because a `Vec<u8>` isn't aligned for words. On CUDA that copy lies in pinned
//! memory and the transfer doesn't wait, without our doing, for batches below 100 MB (cubecl-server's `STAGE_MAX`); wgpu has no
//! pinned memory to offer. burn's `Device::staging` would pin larger ones, but blocks the device's queue meanwhile.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use burn::tensor::{DType, Device, Int, IntDType, Tensor, TensorData};

use crate::augment::{Augment, augment};
use crate::batch::{Batch, DeviceBatch, HostBatch, ImageSlot};
use crate::decode::panic_message;
use crate::error::DataError;
use crate::loader::{EpochBatches, LoaderCounters, Queue, Skipped};

/// Draws the programs of a batch and copies its bytes to `device`.
///
/// A draw depends on `seed`, the epoch and the index of the sample alone; whom an image is mixed with depends on its
/// place in the batch. Of an image of which only a part was decoded the program is that of the whole picture, looking
/// through that part.
///
/// # Panics
/// If the bytes of `batch` aren't whole words; [`HostBatch::push`] pads them.
pub fn batch_to_device(batch: HostBatch, augment: &Augment, seed: u64, device: &Device) -> DeviceBatch {
    let HostBatch { pixels, images, labels, samples, draws, epoch } = batch;
    assert_eq!(pixels.len() % 4, 0, "{} bytes of pixels aren't whole words", pixels.len());
    let num_words = pixels.len() / 4;
    let words = TensorData::from_bytes_vec(pixels, [num_words], DType::U32);
    let pixels = Tensor::<1, Int>::from_data(words, (device, DType::U32));
    let (programs, mixes) = (vec![], vec![]);
    draw_batch(DeviceBatch { pixels, images, labels, samples, draws, epoch, programs, mixes }, augment, seed)
}

/// Takes images that are on a device already, all of one size, and draws their programs.
///
/// What [`batch_to_device`] does for bytes in host memory, for programs that decode or render on the device. A few small
/// launches pack the bytes into words; nothing is copied to the host.
///
/// # Shapes
/// `images`: int `[B, H, W, 3]` of any type the device can compute with, values 0–255; `labels` and `samples`: B each.
///
/// # Panics
/// If the last dimension isn't 3, or `labels` or `samples` differ in length from `images`.
pub fn batch_from_tensor(
    images: Tensor<4, Int>,
    labels: Vec<u32>,
    samples: Vec<u64>,
    epoch: u32,
    augment: &Augment,
    seed: u64,
) -> DeviceBatch {
    let [batch, height, width, channels] = images.dims();
    assert_eq!(channels, 3, "images of red, green and blue");
    assert_eq!([labels.len(), samples.len()], [batch, batch], "a label and an index for every image");
    let num_bytes = height * width * channels;
    let padded = num_bytes.next_multiple_of(4);
    let flat = images.cast(IntDType::I32).reshape([batch, num_bytes]);
    let padding = Tensor::zeros([batch, padded - num_bytes], (&flat.device(), DType::I32));
    let flat = if padded > num_bytes { Tensor::cat(vec![flat, padding], 1) } else { flat };
    let bytes = flat.reshape([batch * padded / 4, 4]);
    let byte = |index: usize| bytes.clone().narrow(1, index, 1).bitwise_left_shift_scalar(8 * index as i32);
    let pixels = byte(0).bitwise_or(byte(1)).bitwise_or(byte(2)).bitwise_or(byte(3)).reshape([-1]);
    let (width, height) = (width as u32, height as u32);
    let images = (0..batch).map(|index| ImageSlot::whole(index * padded, width, height)).collect();
    let (draws, programs, mixes) = (samples.clone(), vec![], vec![]);
    draw_batch(DeviceBatch { pixels, images, labels, samples, draws, epoch, programs, mixes }, augment, seed)
}

/// Draws what happens to each image of a batch that is on its device.
fn draw_batch(batch: DeviceBatch, augment: &Augment, seed: u64) -> DeviceBatch {
    let drawn = batch.images.iter().zip(&batch.draws);
    let draw = |(slot, &key): (&ImageSlot, &u64)| {
        let [width, height] = slot.view.picture;
        augment.draw(seed, batch.epoch, key, width, height).through(&slot.view, slot.width, slot.height)
    };
    let programs = drawn.map(draw).collect();
    let mixes = augment.draw_mixes(seed, batch.epoch, &batch.draws);
    DeviceBatch { programs, mixes, ..batch }
}

impl EpochBatches {
    /// Uploads the batches from a thread of its own, one ahead of the consumer. The workers learn here what each draw
    /// will look at, and decode no more (see [`DecodeOptions::fit_to_crop`](crate::DecodeOptions)).
    ///
    /// `seed` determines the random draws, together with the epoch and each sample's index. Options of
    /// `augment` that can't work are the first batch's error.
    pub fn upload(mut self, device: &Device, augment: &Augment, seed: u64) -> DeviceBatches {
        // Without room in the channel the thread holds the one finished batch until it is taken.
        let (sender, receiver) = sync_channel(0);
        let (queue, next_step) = (self.hand_over(), self.next_step());
        let (epoch, crop) = (self.number(), augment.clone());
        self.fit_to(Box::new(move |draw, width, height| crop.draw(seed, epoch, draw, width, height).window()));
        let (thread_device, thread_augment) = (device.clone(), augment.clone());
        let thread_queue = queue.clone();
        let work = move || send_batches(self, &thread_queue, &thread_device, &thread_augment, seed, &sender);
        let (thread, start_error) = match augment.validate() {
            Err(problems) => (None, Some(DataError::Config { what: "augmentation", problems })),
            Ok(()) => match thread::Builder::new().name("kiln-upload".into()).spawn(work) {
                Ok(thread) => (Some(thread), None),
                Err(error) => (None, Some(upload_error(error.to_string()))),
            },
        };
        DeviceBatches { receiver: Some(receiver), thread, queue, augment: augment.clone(), next_step, start_error }
    }
}

/// A batch on the device, and the step that follows it.
struct Uploaded {
    batch: DeviceBatch,
    num_bytes: usize,
    next_step: usize,
}

/// The thread's life. Ends with the epoch, after an error, or when nobody receives any more.
fn send_batches(
    mut batches: EpochBatches,
    queue: &Queue,
    device: &Device,
    augment: &Augment,
    seed: u64,
    sender: &SyncSender<Result<Uploaded, DataError>>,
) {
    while let Some(batch) = batches.next() {
        let next_step = batches.next_step();
        let uploaded = batch.map(|batch| {
            let (start, num_images, num_bytes) = (Instant::now(), batch.len(), batch.pixels.len());
            let batch = batch_to_device(batch, augment, seed, device);
            queue.costs().upload.add(num_images, num_bytes, start.elapsed());
            Uploaded { batch, num_bytes, next_step }
        });
        if sender.send(uploaded).is_err() {
            return;
        }
    }
}

/// Batches ready for the model, in the order of the epoch.
///
/// After an error the iterator ends. Dropping it stops all threads of the epoch.
pub struct DeviceBatches {
    /// `None` once the epoch is over.
    receiver: Option<Receiver<Result<Uploaded, DataError>>>,
    thread: Option<JoinHandle<()>>,
    queue: Arc<Queue>,
    augment: Augment,
    next_step: usize,
    start_error: Option<DataError>,
}

impl DeviceBatches {
    /// The batch that follows those returned so far: [`Loader::epoch_from`](crate::Loader::epoch_from) goes on with it.
    ///
    /// Counts batches as planned, so it is ahead of the number returned if damaged files left nothing of one. What the
    /// threads have made in advance isn't counted.
    pub fn next_step(&self) -> usize {
        self.next_step
    }

    /// Seconds that `next` has waited for the host: the time the training step could have used.
    pub fn wait_secs(&self) -> f64 {
        self.queue.costs().wait.now().secs
    }

    /// The files left out so far, in the order of the epoch. Complete when the iterator has ended; before,
    /// it may be a batch ahead.
    pub fn skipped(&self) -> Vec<Skipped> {
        self.queue.skipped()
    }

    /// What the host has spent on the epoch so far.
    pub fn counters(&self) -> LoaderCounters {
        self.queue.counters()
    }

    /// Waits for the next uploaded batch.
    fn receive(&mut self) -> Option<Result<Uploaded, DataError>> {
        if let Some(error) = self.start_error.take() {
            return Some(Err(error));
        }
        let start = Instant::now();
        let received = self.receiver.as_ref()?.recv();
        let (images, bytes) = match &received {
            Ok(Ok(uploaded)) => (uploaded.batch.images.len(), uploaded.num_bytes),
            _ => (0, 0),
        };
        self.queue.costs().wait.add(images, bytes, start.elapsed());
        match received {
            Ok(received) => Some(received),
            // The thread has hung up: at the end of the epoch, or because it panicked.
            Err(_) => self.stop().map(Err),
        }
    }

    /// Stops all threads; gives the error of an upload that panicked.
    fn stop(&mut self) -> Option<DataError> {
        self.queue.cancel();
        self.receiver = None;
        let ended = self.thread.take()?.join();
        ended.err().map(|panic| upload_error(panic_message(&*panic)))
    }
}

impl Iterator for DeviceBatches {
    type Item = Result<Batch, DataError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.receive()? {
            Ok(Uploaded { batch, next_step, .. }) => {
                self.next_step = next_step;
                Some(Ok(augment(batch, &self.augment)))
            }
            Err(error) => {
                let _ = self.stop();
                Some(Err(error))
            }
        }
    }
}

impl Drop for DeviceBatches {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

fn upload_error(message: String) -> DataError {
    DataError::Worker { thread: "upload", message }
}

#[cfg(test)]
mod tests;
