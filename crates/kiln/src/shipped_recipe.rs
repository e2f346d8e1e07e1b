//! The recipes that come with Kiln, inside the program: `--recipe NAME` and `kiln recipes` need no files.
//!
//! They are the files of `crates/kiln/recipes`, which `examples/recipes` leads to.

/// A recipe that comes with Kiln.
pub struct ShippedRecipe {
    /// What `--recipe` calls it.
    pub name: &'static str,
    /// TOML, with source, published accuracy and hardware in its first lines.
    pub text: &'static str,
}

macro_rules! shipped {
    ($($name:literal),*) => {
        [$(ShippedRecipe { name: $name, text: include_str!(concat!("../recipes/", $name, ".toml")) }),*]
    };
}

impl ShippedRecipe {
    /// All of them, by name.
    pub const ALL: [Self; 12] = shipped!(
        "cifar10-fast",
        "fashion-mnist",
        "ffcv-16",
        "ffcv-88",
        "fine-tune",
        "laptop-4gb",
        "linear-probe",
        "timm-a1",
        "timm-a2",
        "timm-a3",
        "torchvision-v1",
        "torchvision-v2"
    );

    /// The one called `name`.
    ///
    /// # Errors
    /// If there is none, with the nearest name and all the others.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        Self::ALL.into_iter().find(|recipe| recipe.name == name).ok_or_else(|| {
            let names = Self::ALL.map(|recipe| format!("`{}`", recipe.name)).join(", ");
            anyhow::anyhow!(kiln_data::with_nearest_name(&format!("unknown recipe `{name}`, expected one of {names}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folder_is_in_the_program() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/recipes")).expect("the recipes");
        let mut files: Vec<String> =
            folder.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        assert_eq!(files, ShippedRecipe::ALL.map(|recipe| format!("{}.toml", recipe.name)));
    }
}
