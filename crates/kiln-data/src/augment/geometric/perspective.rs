//! Perspective: a quadrangle of the image becomes another one.
//!
//! Source: torchvision 0.29 `v2.functional.perspective`: the map is the projective one that leads four points of the
//! output to four of the source.

use crate::augment::geometry::Matrix;

/// The map that leads each of `from`, points of the output as x and y, to the same one of `to`, points of the source.
/// `None` if three points lie on one line.
pub(crate) fn quadrangle_map(from: [[f64; 2]; 4], to: [[f64; 2]; 4]) -> Option<Matrix> {
    // Eight equations a x + b y + c - u (g x + h y) = u, and likewise for v, as rows with their right-hand side.
    let mut rows = Vec::with_capacity(8);
    for ([x, y], [u, v]) in from.into_iter().zip(to) {
        rows.push([x, y, 1.0, 0.0, 0.0, 0.0, -u * x, -u * y, u]);
        rows.push([0.0, 0.0, 0.0, x, y, 1.0, -v * x, -v * y, v]);
    }
    let [a, b, c, d, e, f, g, h] = solve(rows)?;
    Some([a, b, c, d, e, f, g, h, 1.0])
}

/// Gauss elimination with pivoting.
fn solve(mut rows: Vec<[f64; 9]>) -> Option<[f64; 8]> {
    for column in 0..8 {
        let pivot = (column..8).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-9 {
            return None;
        }
        let pivot_row = rows[column];
        for (index, row) in rows.iter_mut().enumerate() {
            let factor = row[column] / pivot_row[column];
            if index != column {
                (column..9).for_each(|at| row[at] -= factor * pivot_row[at]);
            }
        }
    }
    Some(std::array::from_fn(|index| rows[index][8] / rows[index][index]))
}
