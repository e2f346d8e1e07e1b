//! The names a pickle may ask for, and what each stands for here. Everything else is refused.

use burn::tensor::{BoolStore, DType};

use crate::FileProblem;

/// A name the machine knows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::weights_file) enum Global {
    /// A call that makes a dictionary: `collections.OrderedDict` and its like.
    Dict,
    /// A class of storage, by the type of its numbers.
    Storage(DType),
    /// `torch._utils._rebuild_tensor` and `_rebuild_tensor_v2`.
    Tensor,
    /// `torch._utils._rebuild_parameter` and `_rebuild_parameter_with_state`: their first argument.
    Parameter,
    /// `torch._tensor._rebuild_from_type_v2`: calls its first argument with its third.
    Typed,
    /// A class whose objects hold no weights.
    Opaque,
}

/// What a name means here.
pub(super) fn known(module: &str, name: &str) -> Result<Global, FileProblem> {
    let global = match (module, name) {
        ("collections", "OrderedDict" | "defaultdict" | "Counter") => Global::Dict,
        // Lightning's hyper-parameters.
        (_, "AttributeDict") if LIGHTNING.contains(&module) => Global::Dict,
        ("torch", class) if class.ends_with("Storage") => Global::Storage(
            storage_dtype(class)
                .ok_or_else(|| FileProblem::Unsupported { what: format!("numbers of torch.{class}") })?,
        ),
        ("torch._utils", "_rebuild_tensor" | "_rebuild_tensor_v2") => Global::Tensor,
        ("torch._utils", "_rebuild_parameter" | "_rebuild_parameter_with_state") => Global::Parameter,
        ("torch._tensor", "_rebuild_from_type_v2") => Global::Typed,
        ("torch", "Tensor" | "Size" | "device") | ("torch.nn.parameter", "Parameter") => Global::Opaque,
        ("torch", name) if is_dtype(name) => Global::Opaque,
        ("argparse", "Namespace") | ("types", "SimpleNamespace") => Global::Opaque,
        ("pathlib", "PosixPath" | "PurePosixPath" | "WindowsPath" | "PureWindowsPath") => Global::Opaque,
        ("__builtin__" | "builtins", "set" | "frozenset" | "list" | "tuple" | "dict" | "int" | "float" | "str") => {
            Global::Opaque
        }
        ("numpy.core.multiarray" | "numpy._core.multiarray", "scalar" | "_reconstruct") => Global::Opaque,
        ("numpy", "dtype" | "ndarray") | ("_codecs", "encode") => Global::Opaque,
        _ => return Err(FileProblem::UnknownGlobal { name: format!("{module}.{name}") }),
    };
    Ok(global)
}

/// The modules from which Lightning's versions pickle their dictionary of hyper-parameters.
const LIGHTNING: [&str; 3] =
    ["pytorch_lightning.utilities.parsing", "lightning_fabric.utilities.data", "lightning.fabric.utilities.data"];

fn storage_dtype(class: &str) -> Option<DType> {
    Some(match class {
        "FloatStorage" => DType::F32,
        "DoubleStorage" => DType::F64,
        "HalfStorage" => DType::F16,
        "BFloat16Storage" => DType::BF16,
        "LongStorage" => DType::I64,
        "IntStorage" => DType::I32,
        "ShortStorage" => DType::I16,
        "CharStorage" => DType::I8,
        "ByteStorage" => DType::U8,
        "BoolStorage" => DType::Bool(BoolStore::Native),
        _ => return None,
    })
}

fn is_dtype(name: &str) -> bool {
    let kind = name.trim_end_matches(|c: char| c.is_ascii_digit());
    matches!(kind, "float" | "bfloat" | "int" | "uint" | "bool" | "half" | "double" | "long")
}
