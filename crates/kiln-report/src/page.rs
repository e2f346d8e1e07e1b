//! One HTML page that needs nothing else: its style is inside, it has no script, and it asks nobody for anything.
//!
//! In: a title and sections. Out: HTML 5. Light or dark by the reader's preference; one column on a telephone, several on a
//! wide screen; wide tables scroll inside themselves, never the page.

use crate::chart::Figure;
use crate::ink;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#1f2328;--quiet:#59636e;--line:#d1d9e0;--soft:#f6f8fa;--good:#1a7f37;--bad:#cf222e}\
@media (prefers-color-scheme:dark){:root{--page:#0d1117;--text:#e6edf3;--quiet:#9198a1;--line:#3d444d;--soft:#151b23;--good:#3fb950;--bad:#ff7b72}}\
*{box-sizing:border-box}\
body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;overflow-wrap:anywhere}\
main{max-width:1280px;margin:0 auto;padding:24px 16px 48px}\
h1{font-size:1.6rem;line-height:1.2;margin:0 0 4px}h2{font-size:1.2rem;margin:40px 0 12px;padding-bottom:6px;border-bottom:1px solid var(--line)}\
p{margin:0 0 12px;max-width:80ch}.quiet{color:var(--quiet)}\
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:12px;margin:16px 0}\
.tile{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:10px 12px}\
.tile b{display:block;font-size:1.35rem;line-height:1.3}.tile span{color:var(--quiet);font-size:.85rem}\
.charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,360px),1fr));gap:20px}\
figure{margin:0;min-width:0}figure svg{display:block;width:100%;max-width:520px;height:auto}\
figcaption{font-weight:600;margin-bottom:4px}.key{display:inline-block;width:12px;height:12px;border-radius:3px;margin:0 5px 0 12px;vertical-align:-1px}\
.legend{font-weight:400;color:var(--quiet);font-size:.85rem;white-space:nowrap}\
.wide{overflow-x:auto;max-width:100%}table{border-collapse:collapse;font-size:.9rem}\
td,th{padding:5px 12px 5px 0;text-align:left;border-bottom:1px solid var(--line);vertical-align:top}\
td:first-child,th{white-space:nowrap;overflow-wrap:normal}\
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\
.gallery{display:grid;grid-template-columns:repeat(auto-fill,minmax(132px,1fr));gap:12px}\
.gallery figure{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:8px;font-size:.82rem;line-height:1.35}\
.gallery img{display:block;width:100%;aspect-ratio:1;object-fit:contain;margin-bottom:6px}\
.good{color:var(--good)}.bad{color:var(--bad)}img.grid{display:block;max-width:100%;height:auto;border-radius:8px}\
pre{background:var(--soft);border:1px solid var(--line);border-radius:8px;padding:12px;overflow-x:auto;font-size:.82rem;overflow-wrap:normal}\
summary{cursor:pointer}details{margin-bottom:12px}";

/// The whole page.
pub(crate) fn page(title: &str, sections: &[String]) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{}</title>\n<style>{STYLE}{}{}</style>\n</head>\n<body>\n<main>\n{}\n\
         </main>\n</body>\n</html>\n",
        escaped(title),
        ink::legend_style(),
        ink::dark_style(),
        sections.join("\n")
    )
}

/// Text that HTML and SVG show as it is.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

/// A section with a heading; nothing if it has no content.
pub(crate) fn section(heading: &str, content: &str) -> String {
    if content.is_empty() {
        String::new()
    } else {
        format!("<section>\n<h2>{}</h2>\n{content}\n</section>", escaped(heading))
    }
}

/// Charts beside each other, as many as there is room for.
pub(crate) fn charts(figures: &[Figure]) -> String {
    if figures.is_empty() {
        return String::new();
    }
    let figure = |figure: &Figure| {
        let key = |(name, ink): &(String, ink::Ink)| {
            format!("<span class=\"legend\"><span class=\"key {}\"></span>{}</span>", ink.class(), escaped(name))
        };
        let legend: String = figure.legend.iter().map(key).collect();
        format!("<figure><figcaption>{}{legend}</figcaption>\n{}</figure>", escaped(&figure.title), figure.svg)
    };
    format!("<div class=\"charts\">\n{}\n</div>", figures.iter().map(figure).collect::<Vec<_>>().join("\n"))
}

/// Figures worth a look at once: a value and what it is.
pub(crate) fn tiles(tiles: &[(String, String)]) -> String {
    let tile = |(value, what): &(String, String)| {
        format!("<div class=\"tile\"><b>{}</b><span>{}</span></div>", escaped(value), escaped(what))
    };
    format!("<div class=\"tiles\">{}</div>", tiles.iter().map(tile).collect::<String>())
}

/// A table; columns from the second on are numbers if `numbers`.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>], numbers: bool) -> String {
    let class = |column: usize| if numbers && column > 0 { " class=\"n\"" } else { "" };
    let cells = |tag: &str, cells: &[String]| {
        let cell = |(column, text): (usize, &String)| format!("<{tag}{}>{}</{tag}>", class(column), escaped(text));
        cells.iter().enumerate().map(cell).collect::<String>()
    };
    let head: Vec<String> = head.iter().map(|text| text.to_string()).collect();
    let head = if head.is_empty() { String::new() } else { format!("<tr>{}</tr>", cells("th", &head)) };
    let rows: String = rows.iter().map(|row| format!("<tr>{}</tr>\n", cells("td", row))).collect();
    format!("<div class=\"wide\"><table>{head}\n{rows}</table></div>")
}

/// A picture inside the page.
pub(crate) fn jpeg(bytes: &[u8], class: &str, description: &str) -> String {
    let data = STANDARD.encode(bytes);
    format!("<img class=\"{class}\" alt=\"{}\" src=\"data:image/jpeg;base64,{data}\">", escaped(description))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_look_like_html_are_shown_as_they_are() {
        let row = vec!["<b onclick='x'>".to_owned(), "1 & \"2\"".to_owned()];
        let text = table(&["class"], &[row], true);
        assert!(text.contains("&lt;b onclick=&#39;x&#39;&gt;") && text.contains("1 &amp; &quot;2&quot;"), "{text}");
        assert!(text.contains("<td class=\"n\">1"), "{text}");
    }

    #[test]
    fn a_page_asks_for_nothing_outside_itself() {
        let text = page("run <1>", &[section("Empty", ""), section("Full", "<p>x</p>")]);
        for outside in ["http://", "https://", "<script", "@import", "url(", "src=\"/"] {
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(text.contains("<title>run &lt;1&gt;</title>") && !text.contains("Empty"));
    }
}
