//! Test-time views: several deterministic ways of looking at one image, over whose predictions the mean is taken.
//!
//! In: the [`Augment`] of an evaluation. Out: one [`Augment`] per view; running each on the same batch and
//! averaging the probabilities is the caller's.
//! Source: Krizhevsky et al., NIPS 2012, section 4.1 (ten crops); the order is torchvision 0.29 `v2.TenCrop`'s.

use crate::augment::{Augment, Augmentation, CenterCrop, Corner, CornerCrop, RandomHorizontalFlip};

/// Which views.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestTimeViews {
    /// The centre alone: the augmentation as it is.
    Centre,
    /// The centre, and its mirror image.
    CentreAndFlip,
    /// Top left, top right, bottom left, bottom right, centre.
    FiveCrop,
    /// The five, then the same five of the mirrored image.
    TenCrop,
}

impl TestTimeViews {
    /// The views of `augment`, in order. The last centre crop takes each place; a list without one gets it at its end.
    ///
    /// ```
    /// use kiln_data::{Augment, TestTimeViews};
    ///
    /// let views = TestTimeViews::TenCrop.of(&Augment::eval(224));
    /// assert_eq!(views.len(), 10);
    /// assert_eq!(views[4], Augment::eval(224));
    /// ```
    pub fn of(self, augment: &Augment) -> Vec<Augment> {
        let views = |crops: &[Option<Corner>], is_mirrored: bool| -> Vec<Augment> {
            crops.iter().map(|corner| view(augment, *corner, is_mirrored)).collect()
        };
        let centre = [None];
        let corners = [Corner::TopLeft, Corner::TopRight, Corner::BottomLeft, Corner::BottomRight];
        let [a, b, c, d] = corners.map(Some);
        let five = [a, b, c, d, None];
        match self {
            Self::Centre => views(&centre, false),
            Self::CentreAndFlip => [views(&centre, false), views(&centre, true)].concat(),
            Self::FiveCrop => views(&five, false),
            Self::TenCrop => [views(&five, false), views(&five, true)].concat(),
        }
    }
}

/// `augment` with its centre crop moved to `corner`, of the mirrored image if asked for.
fn view(augment: &Augment, corner: Option<Corner>, is_mirrored: bool) -> Augment {
    let mut steps = augment.steps.clone();
    let found = steps.iter().rposition(|step| matches!(step, Augmentation::CenterCrop(_)));
    let place = found.unwrap_or(steps.len());
    let size = match steps.get(place) {
        Some(Augmentation::CenterCrop(CenterCrop { size })) => *size,
        _ => None,
    };
    let crop = match corner {
        Some(corner) => Augmentation::CornerCrop(CornerCrop { corner, size }),
        None => Augmentation::CenterCrop(CenterCrop { size }),
    };
    let flip = is_mirrored.then_some(Augmentation::RandomHorizontalFlip(RandomHorizontalFlip { probability: 1.0 }));
    let end = if found.is_some() { place + 1 } else { place };
    steps.splice(place..end, flip.into_iter().chain([crop]));
    Augment { steps, ..augment.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What each view shows of an image 14 high and 20 wide, of which evaluation takes 8 × 8 of 9 × 12.
    fn boxes(views: TestTimeViews) -> Vec<[f64; 4]> {
        let views = views.of(&Augment::eval(8));
        views.iter().map(|view| view.draw(0, 0, 0, 12, 9).source_box()).collect()
    }

    #[test]
    fn five_views_are_the_corners_and_the_centre() {
        let want = [[0.0, 0.0, 8.0, 8.0], [0.0, 4.0, 8.0, 12.0], [1.0, 0.0, 9.0, 8.0], [1.0, 4.0, 9.0, 12.0]];
        assert_eq!(boxes(TestTimeViews::FiveCrop)[..4], want);
        assert_eq!(boxes(TestTimeViews::FiveCrop)[4..], boxes(TestTimeViews::Centre));
    }

    #[test]
    fn ten_views_are_five_and_five_of_the_mirrored_image() {
        let found = boxes(TestTimeViews::TenCrop);
        assert_eq!(found[..5], boxes(TestTimeViews::FiveCrop));
        assert_eq!(found[5], [0.0, 12.0, 8.0, 4.0]);
        assert_eq!(boxes(TestTimeViews::CentreAndFlip), [found[4], found[9]]);
    }

    #[test]
    fn every_view_of_a_valid_list_is_valid() {
        let plain = Augment { steps: Vec::new(), ..Augment::eval(8) };
        for view in TestTimeViews::TenCrop.of(&Augment::eval(8)).iter().chain(&TestTimeViews::FiveCrop.of(&plain)) {
            assert_eq!(view.validate(), Ok(()));
            assert_eq!(view.draw(0, 0, 0, 50, 40).size(), [8, 8]);
        }
    }
}
