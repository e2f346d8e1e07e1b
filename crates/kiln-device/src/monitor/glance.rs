//! One reading of one card, taken in a thread of its own, for a program that must not wait for a driver.

use std::{sync::mpsc, thread};

use super::{Monitor, alerts::judge_once};
use crate::inventory::PciAddress;

/// A reading under way. Dropping it gives it up.
pub struct Glance(mpsc::Receiver<Vec<String>>);

impl Glance {
    /// Starts reading the card at `address`, which should be at work: it isn't left asleep.
    pub fn at(address: PciAddress) -> Self {
        let (sender, receiver) = mpsc::channel();
        // Without a thread there is no reading, which is no reason to stop.
        let _ = thread::Builder::new().name("kiln-glance".to_owned()).spawn(move || {
            let reading = Monitor::new().read();
            let card = reading.gpus.iter().find(|gpu| gpu.pci_address == Some(address));
            // Whoever asked may be gone.
            let _ = sender.send(card.map(judge_once).unwrap_or_default());
        });
        Self(receiver)
    }

    /// What a person should know about the card; nothing if there has been no answer yet.
    pub fn alerts(&self) -> Vec<String> {
        self.0.try_recv().unwrap_or_default()
    }
}
