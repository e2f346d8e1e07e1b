//! What can go wrong between a folder and a batch, each message with the file and the remedy.
//!
//! Variants are split by whose fault it is: the folder's ([`DataError::Layout`] ...), one file's
//! ([`DataError::Read`], [`DataError::Decode`]), the caller's ([`DataError::Config`]), ours
//! ([`DataError::Worker`]). Why a picture can't be decoded is [`DecodeError`](crate::DecodeError).
//!
//! The cause stands in the message, where the reader needs it, and in a typed field. It isn't `source` as well:
//! a program that prints the chain of causes would say it twice.

use std::io;
use std::path::PathBuf;

use crate::decode::DecodeError;

/// Every error of this crate, except the verdict on a single picture.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataError {
    /// A folder can't be listed.
    #[error("cannot list the folder {path:?}: {reason}")]
    ReadFolder {
        /// The folder.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// A folder isn't laid out in a way we know.
    #[error("cannot use {path:?} as an image data set: {problem}; {remedy}")]
    Layout {
        /// The folder.
        path: PathBuf,
        /// What was found.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// Class folders of which no file begins like a picture. They would shift the indices of all later classes.
    #[error(
        "no readable images in the class folder(s) {} of {path:?}; add images or remove the folder(s)",
        quoted(.classes)
    )]
    EmptyClasses {
        /// The folder of class folders.
        path: PathBuf,
        /// The class folders without images.
        classes: Vec<String>,
    },
    /// The validation split has classes that the training split doesn't define.
    #[error(
        "{path:?} has class(es) that the training split lacks: {}; the training split defines the classes: \
         {}; add training images for them or remove the folder(s)",
        quoted(.unknown), quoted(.known)
    )]
    UnknownClasses {
        /// The folder of the validation split.
        path: PathBuf,
        /// Classes found only there.
        unknown: Vec<String>,
        /// The classes of the training split.
        known: Vec<String>,
    },
    /// A tar file of samples is damaged, or isn't put together the way a data set must be.
    #[error("cannot use the shard {path:?}: at byte {offset}: {problem}; {remedy}")]
    Shard {
        /// The tar file.
        path: PathBuf,
        /// Where in it.
        offset: u64,
        /// What was found.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A folder can't take a packed data set.
    #[error("cannot pack into {path:?}: {problem}; {remedy}")]
    PackFolder {
        /// The folder, or a file in it.
        path: PathBuf,
        /// What is in the way.
        problem: String,
        /// What to do about it.
        remedy: String,
    },
    /// A picture was decoded and can't be stored in the form asked for.
    #[error("cannot encode {name:?} (sample {sample}): {reason}; remove it or pack without --strict")]
    Encode {
        /// Path within the data set.
        name: String,
        /// Index in the data set.
        sample: usize,
        /// Why not.
        reason: String,
    },
    /// A file of a data set can't be read.
    #[error("cannot read {name:?} (sample {sample}): {reason}")]
    Read {
        /// Path within the data set.
        name: String,
        /// Index in the data set.
        sample: usize,
        /// What the operating system said.
        reason: io::Error,
    },
    /// A file was read and isn't a usable picture.
    #[error("cannot decode {name:?} (sample {sample}): {verdict}; remove it or set on_error = \"skip\"")]
    Decode {
        /// Path within the data set.
        name: String,
        /// Index in the data set.
        sample: usize,
        /// The verdict.
        verdict: DecodeError,
    },
    /// Options that can't work, all of them at once.
    #[error("unusable {what}: {}", .problems.join("; "))]
    Config {
        /// Which options: "loader options", "augmentation", ...
        what: &'static str,
        /// One sentence a problem.
        problems: Vec<String>,
    },
    /// An epoch gave no batch at all because every file was skipped.
    #[error("all {num_skipped} images of the epoch were skipped, the first: {first}")]
    NothingLeft {
        /// Number of files skipped.
        num_skipped: usize,
        /// Name and reason of the first.
        first: String,
    },
    /// The embedded data set can't be written.
    #[error("cannot write {path:?}: {reason}; choose another cache folder with KILN_CACHE_DIR")]
    Write {
        /// File or folder that failed.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// A picture of ours can't be written.
    #[error("cannot write the picture {path:?}: {reason}; choose another path")]
    WritePicture {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        reason: io::Error,
    },
    /// The device didn't give a result back.
    #[error("cannot read the augmented images from the device: {message}")]
    Device {
        /// The device's words.
        message: String,
    },
    /// No folder to keep the embedded data set in.
    #[error(
        "no cache folder: none of KILN_CACHE_DIR, XDG_CACHE_HOME, HOME and LOCALAPPDATA is set; set KILN_CACHE_DIR"
    )]
    NoCacheFolder,
    /// A thread of the loader panicked or couldn't be started. A fault of Kiln or of a [`Dataset`](crate::Dataset).
    #[error("the {thread} thread failed: {message}")]
    Worker {
        /// Which thread.
        thread: &'static str,
        /// Panic message or reason.
        message: String,
    },
}

impl DataError {
    /// Says whether the error is about one file, so that the rest of the data set can still be used.
    pub fn is_about_one_file(&self) -> bool {
        matches!(self, Self::Read { .. } | Self::Decode { .. } | Self::Encode { .. })
    }

    /// The reason without the file's name, for lists that have the name beside it.
    pub(crate) fn reason_alone(&self) -> String {
        match self {
            Self::Read { reason, .. } => reason.to_string(),
            Self::Decode { verdict, .. } => verdict.to_string(),
            Self::Encode { reason, .. } => reason.clone(),
            other => other.to_string(),
        }
    }
}

/// `"a", "b" and 12 more`: at most five names, escaped.
fn quoted(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<_> = names.iter().take(SHOWN).map(|name| format!("{name:?}")).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{} and {more} more", shown.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_names_at_most_five_classes_and_counts_the_rest() {
        let classes = (0..7).map(|i| format!("c{i}")).collect();
        let message = DataError::EmptyClasses { path: "data/train".into(), classes }.to_string();
        assert_eq!(
            message,
            "no readable images in the class folder(s) \"c0\", \"c1\", \"c2\", \"c3\", \"c4\" and 2 more of \"data/train\"; \
             add images or remove the folder(s)"
        );
    }

    #[test]
    fn a_damaged_file_is_named_with_its_sample_and_a_remedy() {
        let error = DataError::Decode { name: "cat/7.jpg".into(), sample: 812, verdict: DecodeError::Empty };
        assert_eq!(
            error.to_string(),
            "cannot decode \"cat/7.jpg\" (sample 812): the file is empty; remove it or set on_error = \"skip\""
        );
        assert!(error.is_about_one_file());
    }
}
