// SPDX-License-Identifier: GPL-2.0-only
//! Plots how costs grow with the size of a commit, the records of a delta, live nodes, and clients.

use std::path::Path;

use anyhow::anyhow;
use anyhow::Result;
use plotters::coord::Shift;
use plotters::prelude::*;

/// A diagram: the label of its x axis, and its lines.
struct Diagram {
    title: &'static str,
    across: &'static str,
    lines: &'static [Line],
}

/// The operations of a line, by their x value.
struct Line {
    name: &'static str,
    points: &'static [(u32, &'static str)],
}

const DIAGRAMS: [Diagram; 4] = [
    Diagram {
        title: "COMMIT, by its size",
        across: "KiB of states",
        lines: &[Line {
            name: "COMMIT",
            points: &[
                (0, "commit-ioctl"),
                (4, "commit-4k"),
                (16, "commit-16k"),
                (32, "commit-32k"),
            ],
        }],
    },
    Diagram {
        title: "COMMIT that switches contexts",
        across: "records of each delta",
        lines: &[Line {
            name: "COMMIT",
            points: &[(0, "switch-0"), (100, "switch-100"), (1000, "switch-1000")],
        }],
    },
    Diagram {
        title: "allocate + lock + unlock + free, 4 KiB",
        across: "live nodes",
        lines: &[
            Line {
                name: "pool",
                points: &[
                    (1, "pool-4k-1"),
                    (1000, "pool-4k-1000"),
                    (10_000, "pool-4k-10000"),
                ],
            },
            Line {
                name: "page-backed",
                points: &[
                    (1, "pages-4k-1"),
                    (1000, "pages-4k-1000"),
                    (10_000, "pages-4k-10000"),
                ],
            },
        ],
    },
    Diagram {
        title: "COMMIT + wait, each",
        across: "clients at once",
        lines: &[Line {
            name: "COMMIT + wait",
            points: &[(1, "clients-1"), (4, "clients-4"), (16, "clients-16")],
        }],
    },
];

/// Writes an SVG of the medians, by operation name. Operations without a measurement are left out.
pub fn plot(path: &Path, median: impl Fn(&str) -> Option<u64>) -> Result<()> {
    let root = SVGBackend::new(path, (1200, 800)).into_drawing_area();
    let wrong = |error: &dyn std::fmt::Display| anyhow!("{}: {error}", path.display());
    root.fill(&WHITE).map_err(|error| wrong(&error))?;
    for (area, diagram) in root.split_evenly((2, 2)).iter().zip(&DIAGRAMS) {
        draw(area, diagram, &median).map_err(|error| wrong(&error))?;
    }
    root.present().map_err(|error| wrong(&error))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw(
    area: &Area<'_>,
    diagram: &Diagram,
    median: impl Fn(&str) -> Option<u64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let lines: Vec<(&str, Vec<(u32, u64)>)> = diagram
        .lines
        .iter()
        .map(|line| {
            let found = |&(across, name): &(u32, &str)| Some((across, median(name)?));
            (line.name, line.points.iter().filter_map(found).collect())
        })
        .collect();
    let points = || lines.iter().flat_map(|(_, points)| points);
    let (Some(right), Some(top)) = (
        points().map(|point| point.0).max(),
        points().map(|point| point.1).max(),
    ) else {
        return Ok(());
    };
    let mut chart = ChartBuilder::on(area)
        .caption(diagram.title, ("sans-serif", 20))
        .margin(15)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0..right.max(1), 0..top + top / 10)?;
    chart
        .configure_mesh()
        .x_desc(diagram.across)
        .y_desc("instructions")
        .draw()?;
    for (index, (name, points)) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(points.iter().copied(), &colour).point_size(3))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 15, y)], colour));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE)
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_measured_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bench.svg");
        let median = |name: &str| match name {
            "clients-1" => Some(100),
            "clients-16" => Some(1700),
            _ => None,
        };
        plot(&path, median).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains("clients at once"), "{text}");
        assert!(!text.contains("live nodes"), "{text}");
        assert_eq!(text.matches("<circle").count(), 2, "{text}");
    }
}
