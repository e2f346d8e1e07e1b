//! Steps that decide which source pixels the output is made of.

pub(crate) mod affine;
pub(crate) mod center_crop;
pub(crate) mod perspective;
pub(crate) mod random_horizontal_flip;
pub(crate) mod random_resized_crop;
pub(crate) mod resize;
