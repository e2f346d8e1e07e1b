//! A PNG on disk that is the old one or the new one, never half of either.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::Path;
use std::process;

use image::codecs::png::PngEncoder;
use image::{ExtendedColorType, ImageEncoder};

use crate::decode::RgbImage;
use crate::error::DataError;

/// Writes `picture` beside `path`, then gives it the name.
pub(crate) fn write(picture: &RgbImage, path: &Path) -> Result<(), DataError> {
    write_aside(picture, path).map_err(|reason| DataError::WritePicture { path: path.to_path_buf(), reason })
}

fn write_aside(picture: &RgbImage, path: &Path) -> io::Result<()> {
    let name = path.file_name().ok_or_else(|| io::Error::new(ErrorKind::InvalidInput, "it names no file"))?;
    let aside = path.with_file_name(format!(".{}.{}.tmp", name.to_string_lossy(), process::id()));
    let written = encode(picture, &aside).and_then(|()| fs::rename(&aside, path));
    if written.is_err() {
        // The error that matters is the first one.
        let _ = fs::remove_file(&aside);
    }
    written
}

fn encode(picture: &RgbImage, path: &Path) -> io::Result<()> {
    let mut file = BufWriter::new(File::create(path)?);
    let encoder = PngEncoder::new(&mut file);
    encoder
        .write_image(&picture.pixels, picture.width, picture.height, ExtendedColorType::Rgb8)
        .map_err(io::Error::other)?;
    file.flush()?;
    file.get_ref().sync_all()
}
