//! What a device's error means for the person whose run it ended.
//!
//! In: the text a backend reports; the variants behind it differ between backends and are often wrapped in several
//! layers of text by the time they arrive. Out: what happened, and what to do. The texts are those of CUDA
//! (`CUDA_ERROR_*`), Vulkan (`VK_ERROR_*`), DirectX (`DXGI_ERROR_*`) and cubecl.

/// What happened to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It was taken away: by the system's watchdog, a driver that crashed, or a plug that was pulled.
    Lost,
    /// It ran out of memory.
    OutOfMemory,
    /// A kernel ran longer than the system allows.
    TimedOut,
    /// A launch exceeds what the device can do.
    LimitExceeded,
    /// The run-time compiler failed.
    Compiler,
}

impl Trouble {
    /// Reads an error's text; `None` if it is of another kind.
    pub fn of(text: &str) -> Option<Self> {
        let text = text.to_ascii_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| text.contains(word));
        // A lost device is often reported as out of memory by whoever asks it next: so it is looked for first.
        if has(&["launch_timeout", "launch timed out", "device_hung", "tdr", "watchdog"]) {
            return Some(Self::TimedOut);
        }
        if has(&[
            "device lost",
            "device is lost",
            "devicelost",
            "device_lost",
            "device_removed",
            "job timeout",
            "gpu is lost",
            "fallen off",
            "poisoned",
        ]) {
            return Some(Self::Lost);
        }
        if has(&[
            "out of memory",
            "out-of-memory",
            "outofmemory",
            "out_of_memory",
            "out_of_device_memory",
            "out of device memory",
            "buffertoobig",
            "too big",
        ]) {
            return Some(Self::OutOfMemory);
        }
        if has(&["nvrtc"]) {
            return Some(Self::Compiler);
        }
        has(&["too many storage buffers", "max_compute", "exceeds the limit", "workgroup", "invocations"])
            .then_some(Self::LimitExceeded)
    }

    /// What to do.
    pub fn advice(self) -> &'static str {
        match self {
            Self::Lost => {
                "the driver took the device away; --resume goes on from the last checkpoint. If it happens again: a \
                 smaller --batch-size makes shorter kernels, `sudo dmesg` (Linux) or the event log (Windows) has the \
                 driver's reason, and a newer driver often cures it"
            }
            Self::OutOfMemory => {
                "the device ran out of memory; --resume with a smaller --batch-size or --image-size goes on from the \
                 last checkpoint, and `kiln monitor` shows what else uses the device"
            }
            Self::TimedOut => {
                "the system stops kernels that run too long (Windows after 2 s, TdrDelay); --resume with a smaller \
                 --batch-size goes on from the last checkpoint"
            }
            Self::LimitExceeded => {
                "the device's driver allows less than the kernel needs (`kiln doctor` lists its limits); use a \
                 smaller --batch-size or --image-size, or another --device"
            }
            Self::Compiler => {
                "CUDA's run-time compiler failed; `kiln doctor` shows which one is used and what it lacks"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble;

    #[test]
    fn errors_of_all_backends_are_recognised() {
        for (text, trouble) in [
            ("CUDA_ERROR_OUT_OF_MEMORY", Trouble::OutOfMemory),
            ("can't allocate buffer of size 4294967296: OutOfMemory", Trouble::OutOfMemory),
            ("ERROR_OUT_OF_DEVICE_MEMORY", Trouble::OutOfMemory),
            ("An out-of-memory error happened during launch\nCaused by:\n  full", Trouble::OutOfMemory),
            ("out of device memory allocating 1024 bytes\n0: main", Trouble::OutOfMemory),
            ("The device was poisoned during launch\nCaused by:\n  Unknown: reset", Trouble::Lost),
            ("Parent device is lost", Trouble::Lost),
            ("VK_ERROR_DEVICE_LOST", Trouble::Lost),
            ("DXGI_ERROR_DEVICE_REMOVED", Trouble::Lost),
            ("CUDA_ERROR_LAUNCH_TIMEOUT: the launch timed out and was terminated", Trouble::TimedOut),
            ("DXGI_ERROR_DEVICE_HUNG", Trouble::TimedOut),
            ("too many storage buffers in stage compute, 9 of 8", Trouble::LimitExceeded),
            ("NVRTC_ERROR_BUILTIN_OPERATION_FAILURE", Trouble::Compiler),
        ] {
            assert_eq!(Trouble::of(text), Some(trouble), "{text}");
        }
        assert_eq!(Trouble::of("the file is not a picture"), None);
    }

    #[test]
    fn a_lost_device_that_says_out_of_memory_is_lost() {
        let text = "Out of memory (nouveau: job timeout, channel killed, device lost)";
        assert_eq!(Trouble::of(text), Some(Trouble::Lost));
    }
}
