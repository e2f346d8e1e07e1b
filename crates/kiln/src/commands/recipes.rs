//! `kiln recipes`: the recipes that come with Kiln.

use clap::Args;
use kiln::ShippedRecipe;
use kiln_train::Recipe;
use serde_json::json;
use std::io::Write;
use std::process::ExitCode;

const EXAMPLES: &str = "\
Examples:
  kiln recipes                                 what there is, with published accuracy
  kiln recipes fine-tune > my.toml             one as a file of your own
  kiln train --recipe my.toml --data photos    and trained with
  kiln train --recipe fine-tune --data photos  or as it is

Exit code: 0 if all went well, 1 if there is no such recipe.";

/// Lists the recipes that come with Kiln, or shows one.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Recipes {
    /// Show this one
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// Print JSON: name, published, hardware, source, epochs, arch, image_size; of one recipe its settings
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Recipes) -> anyhow::Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    match (&args.name, args.json) {
        (Some(name), json) => {
            let text = ShippedRecipe::find(name)?.text;
            match json {
                true => writeln!(out, "{}", Recipe::from_toml(text)?.to_json()?)?,
                false => write!(out, "{text}")?,
            }
        }
        (None, true) => {
            let rows: Vec<_> = ShippedRecipe::ALL.iter().map(row).collect::<Result<_, _>>()?;
            writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        }
        (None, false) => {
            for ShippedRecipe { name, text } in ShippedRecipe::ALL {
                let published = remark(text, "Published").unwrap_or_default();
                writeln!(out, "{name:16} {published}")?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn row(ShippedRecipe { name, text }: &ShippedRecipe) -> anyhow::Result<serde_json::Value> {
    let recipe = Recipe::from_toml(text)?;
    Ok(json!({
        "name": name,
        "published": remark(text, "Published"),
        "hardware": remark(text, "Hardware"),
        "source": remark(text, "Source"),
        "epochs": recipe.run.epochs,
        "arch": recipe.model.arch,
        "image_size": recipe.augment.image_size,
    }))
}

/// What the head comment says behind `# what:`, with the lines that continue it.
fn remark(text: &str, what: &str) -> Option<String> {
    let head = text.lines().take_while(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#'));
    let begin = format!(" {what}:");
    let mut lines = head.skip_while(|line| !line.starts_with(&begin));
    let first = lines.next()?.strip_prefix(&begin)?.trim().to_owned();
    // A line that continues is indented further than one space.
    let rest = lines.take_while(|line| line.starts_with("  "));
    Some(rest.fold(first, |text, line| text + " " + line.trim()))
}
