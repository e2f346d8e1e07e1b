//! Steps that decide which source pixels the output is made of.

pub(crate) mod affine;
pub(crate) mod center_crop;
pub(crate) mod corner_crop;
pub(crate) mod pad;
pub(crate) mod perspective;
pub(crate) mod random_affine;
pub(crate) mod random_crop;
pub(crate) mod random_horizontal_flip;
pub(crate) mod random_perspective;
pub(crate) mod random_resized_crop;
pub(crate) mod random_rotation;
pub(crate) mod random_vertical_flip;
pub(crate) mod resize;
pub(crate) mod views;
