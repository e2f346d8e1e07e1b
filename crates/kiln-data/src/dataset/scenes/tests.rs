use super::*;
use std::collections::HashMap;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn small() -> ScenesConfig {
    ScenesConfig { train_images: 30, val_images: 10, size: 24, seed: 3 }
}

fn made(cache: &tempfile::TempDir) -> Splits {
    open_or_create(Some(cache.path()), &small()).expect("the data set")
}

/// The one file of validation class 0.
fn a_file(cache: &tempfile::TempDir) -> PathBuf {
    cache.path().join(small().folder_name()).join("val/bicycle/00000.jpg")
}

/// 32x32 pixels, squared distance. Half the default number of pictures, to take seconds in a build without
/// optimisation; with all of them 24 % are right.
#[test]
fn the_nearest_neighbour_in_pixels_is_of_the_right_class_less_than_half_of_the_time() {
    const SIZE: u32 = 64;
    let pictures = |split, num_images: usize| -> Vec<Vec<i32>> {
        let draw =
            |index: usize| halved(&drawing::scene(index % CLASSES.len(), SIZE, 0, split, index as u64), SIZE as usize);
        (0..num_images).into_par_iter().map(draw).collect()
    };
    let (train, val) = (pictures(0, 500), pictures(1, 125));
    let is_right = |(index, picture): (usize, &Vec<i32>)| {
        let distance =
            |other: &Vec<i32>| -> i64 { picture.iter().zip(other).map(|(a, b)| i64::from((a - b) * (a - b))).sum() };
        let nearest = (0..train.len()).min_by_key(|&other| distance(&train[other])).expect("training pictures");
        nearest % CLASSES.len() == index % CLASSES.len()
    };
    let num_right = val.par_iter().enumerate().filter(|&pair| is_right(pair)).count();
    assert!(num_right * 2 < val.len(), "{num_right} of {}", val.len());
}

/// Sums of 2x2 pixels.
fn halved(pixels: &[u8], size: usize) -> Vec<i32> {
    let at = |x: usize, y: usize, channel: usize| i32::from(pixels[(y * size + x) * 3 + channel]);
    let half = size / 2;
    let sum = |i: usize| {
        let (x, y, channel) = (i / 3 % half * 2, i / 3 / half * 2, i % 3);
        (at(x, y, channel) + at(x + 1, y, channel) + at(x, y + 1, channel) + at(x + 1, y + 1, channel)) / 4
    };
    (0..half * half * 3).map(sum).collect()
}

#[test]
fn classes_are_balanced_and_the_pictures_have_the_size_asked_for() {
    let cache = folder();
    let splits = made(&cache);
    assert_eq!(splits.train.classes(), CLASSES);
    assert_eq!(splits.val.classes(), CLASSES);
    for (dataset, expected) in [(&splits.train, 3), (&splits.val, 1)] {
        let mut counts = HashMap::new();
        (0..dataset.len()).for_each(|index| *counts.entry(dataset.label(index)).or_insert(0) += 1);
        assert_eq!(counts.len(), 10);
        assert!(counts.values().all(|&count| count == expected), "{counts:?}");
    }
    let encoded = splits.train.sample(0).expect("read").content.bytes().to_vec();
    let image = crate::rgb_from_bytes(&encoded, &Default::default()).expect("a JPEG");
    assert_eq!((image.width, image.height), (24, 24));
    assert!(encoded.starts_with(&[0xFF, 0xD8]));
}

#[test]
fn a_picture_depends_on_seed_split_and_index_alone() {
    let (one, two) = (folder(), folder());
    let (first, second) = (made(&one), made(&two));
    for index in 0..30 {
        assert_eq!(first.train.sample(index).expect("read"), second.train.sample(index).expect("read"));
    }
    let scene = |seed, split, index| drawing::scene(0, 16, seed, split, index);
    assert_ne!(scene(0, 0, 0), scene(1, 0, 0));
    assert_ne!(scene(0, 0, 0), scene(0, 1, 0));
    assert_ne!(scene(0, 0, 0), scene(0, 0, 10));
}

#[test]
fn the_second_time_nothing_is_drawn() {
    let cache = folder();
    made(&cache);
    fs::write(a_file(&cache), b"mine").expect("written");
    assert_eq!(made(&cache).val.sample(0).expect("read").content.bytes().to_vec(), b"mine");
    let left: Vec<_> = fs::read_dir(cache.path()).expect("listed").collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn other_options_are_another_folder() {
    let cache = folder();
    made(&cache);
    let other = open_or_create(Some(cache.path()), &ScenesConfig { size: 16, ..small() }).expect("the data set");
    assert_eq!((made(&cache).train.len(), other.train.len()), (30, 30));
    assert_eq!(fs::read_dir(cache.path()).expect("listed").count(), 2);
}

#[test]
fn a_damaged_copy_is_drawn_again() {
    let cache = folder();
    made(&cache);
    fs::remove_file(a_file(&cache)).expect("removed");
    assert_eq!(made(&cache).val.len(), 10);
    assert!(a_file(&cache).is_file());
}

#[test]
fn a_folder_that_is_not_ours_is_left_alone() {
    let cache = folder();
    let foreign = cache.path().join(small().folder_name()).join("thesis.txt");
    fs::create_dir_all(foreign.parent().expect("a folder")).expect("made");
    fs::write(&foreign, b"years of work").expect("written");
    let error = open_or_create(Some(cache.path()), &small()).err().expect("an error");
    assert!(matches!(error, DataError::Write { .. }), "{error}");
    assert!(foreign.is_file());
}

#[test]
fn options_out_of_range_are_all_reported() {
    let config = ScenesConfig { train_images: 9, val_images: 0, size: 8, seed: 0 };
    let error = open_or_create(Some(Path::new("unused")), &config).err().expect("an error");
    assert_eq!(
        error.to_string(),
        "unusable options of the embedded data set: train_images is 9; every one of the 10 classes needs an image; \
         val_images is 0; every one of the 10 classes needs an image; size is 8; it must lie between 16 and 4096"
    );
}

#[cfg(unix)]
#[test]
fn the_cache_folder_follows_the_variables_in_order() {
    let chosen = |variables: &[(&str, &str)]| {
        let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        cache_dir_from(find).map(|path| path.display().to_string())
    };
    let all = [("KILN_CACHE_DIR", "k"), ("XDG_CACHE_HOME", "/x"), ("HOME", "/h")];
    assert_eq!(chosen(&all).as_deref(), Some("k"));
    assert_eq!(chosen(&all[1..]).as_deref(), Some("/x/kiln"));
    assert_eq!(chosen(&all[2..]).as_deref(), Some("/h/.cache/kiln"));
    assert_eq!(chosen(&[("XDG_CACHE_HOME", "relative"), ("HOME", "/h")]).as_deref(), Some("/h/.cache/kiln"));
    assert_eq!(chosen(&[("KILN_CACHE_DIR", "")]), None);
}
