// SPDX-License-Identifier: GPL-2.0-only
//! Assembly of vertices to points, lines and triangles.

/// Primitive type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Points,
    Lines,
    LineStrip,
    LineLoop,
    Triangles,
    TriangleStrip,
    TriangleFan,
}

impl Kind {
    /// The kind with this number in a draw command.
    pub(super) fn of(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Points,
            2 => Self::Lines,
            3 => Self::LineStrip,
            4 => Self::Triangles,
            5 => Self::TriangleStrip,
            6 => Self::TriangleFan,
            7 => Self::LineLoop,
            _ => return None,
        })
    }

    /// Number of vertices for this number of primitives.
    pub(super) fn vertices(self, primitives: u32) -> u32 {
        let (each, more) = match self {
            Self::Points | Self::LineLoop => (1, 0),
            Self::Lines => (2, 0),
            Self::LineStrip => (1, 1),
            Self::Triangles => (3, 0),
            Self::TriangleStrip | Self::TriangleFan => (1, 2),
        };
        match primitives {
            0 => 0,
            _ => primitives.saturating_mul(each).saturating_add(more),
        }
    }
}

/// A point, line or triangle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Primitive {
    /// Its vertices.
    pub(super) vertices: [u32; 3],
    /// Number of vertices.
    pub(super) count: usize,
    /// Index of the vertex that supplies flat varyings.
    pub(super) provoking: usize,
    /// The vertices are positions in the list of shaded ones, no longer vertex numbers.
    pub(super) is_placed: bool,
}

/// Assembles primitives from a sequence of vertices.
pub(super) struct Assembler {
    kind: Kind,
    is_last_provoking: bool,
    /// Number of vertices since the last restart, the first of them, and the last two.
    seen: usize,
    first: u32,
    last: [u32; 2],
}

impl Assembler {
    pub(super) fn new(kind: Kind, is_last_provoking: bool) -> Self {
        Self {
            kind,
            is_last_provoking,
            seen: 0,
            first: 0,
            last: [0; 2],
        }
    }

    fn push(&self, vertices: &[u32], first: usize, out: &mut Vec<Primitive>) {
        let mut all = [0; 3];
        all[..vertices.len()].copy_from_slice(vertices);
        out.push(Primitive {
            vertices: all,
            count: vertices.len(),
            provoking: if self.is_last_provoking {
                vertices.len() - 1
            } else {
                first
            },
            is_placed: false,
        });
    }

    /// Adds the next vertex.
    pub(super) fn vertex(&mut self, new: u32, out: &mut Vec<Primitive>) {
        let [before, last] = self.last;
        if self.seen == 0 {
            self.first = new;
        }
        let number = self.seen;
        self.seen += 1;
        self.last = [last, new];
        match self.kind {
            Kind::Points => self.push(&[new], 0, out),
            Kind::Lines if number % 2 == 1 => self.push(&[last, new], 0, out),
            Kind::LineStrip | Kind::LineLoop if number >= 1 => self.push(&[last, new], 0, out),
            Kind::Triangles if number % 3 == 2 => self.push(&[before, last, new], 0, out),
            // All triangles of a strip face the same way.
            Kind::TriangleStrip if number >= 2 && number % 2 == 1 => {
                self.push(&[last, before, new], 1, out);
            }
            Kind::TriangleStrip if number >= 2 => self.push(&[before, last, new], 0, out),
            Kind::TriangleFan if number >= 2 => self.push(&[self.first, last, new], 1, out),
            _ => {}
        }
    }

    /// Ends a strip, fan or loop. Incomplete primitives are dropped.
    pub(super) fn restart(&mut self, out: &mut Vec<Primitive>) {
        if self.kind == Kind::LineLoop && self.seen >= 2 {
            self.push(&[self.last[1], self.first], 0, out);
        }
        self.seen = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assembled(kind: Kind, is_last_provoking: bool, runs: &[u32]) -> Vec<(Vec<u32>, u32)> {
        let mut assembler = Assembler::new(kind, is_last_provoking);
        let mut out = Vec::new();
        let mut next = 0;
        for run in runs {
            for vertex in next..next + run {
                assembler.vertex(vertex, &mut out);
            }
            next += run;
            assembler.restart(&mut out);
        }
        out.iter()
            .map(|it| (it.vertices[..it.count].to_vec(), it.vertices[it.provoking]))
            .collect()
    }

    #[test]
    fn each_kind_takes_its_vertices() {
        let all = |kind, runs: &[u32]| {
            let list = assembled(kind, true, runs);
            list.into_iter().map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(all(Kind::Points, &[2]), [[0], [1]]);
        assert_eq!(all(Kind::Lines, &[5]), [[0, 1], [2, 3]]);
        assert_eq!(all(Kind::LineStrip, &[3]), [[0, 1], [1, 2]]);
        assert_eq!(all(Kind::LineLoop, &[3]), [[0, 1], [1, 2], [2, 0]]);
        assert_eq!(all(Kind::Triangles, &[7]), [[0, 1, 2], [3, 4, 5]]);
        assert_eq!(
            all(Kind::TriangleStrip, &[5]),
            [[0, 1, 2], [2, 1, 3], [2, 3, 4]]
        );
        assert_eq!(all(Kind::TriangleFan, &[4]), [[0, 1, 2], [0, 2, 3]]);
    }

    #[test]
    fn flat_varyings_come_from_the_provoking_vertex() {
        let provoking = |kind, is_last| {
            let list = assembled(kind, is_last, &[6]);
            list.into_iter().map(|it| it.1).collect::<Vec<_>>()
        };
        assert_eq!(provoking(Kind::TriangleStrip, true), [2, 3, 4, 5]);
        assert_eq!(provoking(Kind::TriangleStrip, false), [0, 1, 2, 3]);
        assert_eq!(provoking(Kind::TriangleFan, false), [1, 2, 3, 4]);
        assert_eq!(provoking(Kind::Triangles, false), [0, 3]);
        assert_eq!(provoking(Kind::Lines, true), [1, 3, 5]);
    }

    #[test]
    fn a_restart_begins_anew() {
        let all = |kind| {
            let list = assembled(kind, true, &[4, 3]);
            list.into_iter().map(|it| it.0).collect::<Vec<_>>()
        };
        assert_eq!(all(Kind::TriangleStrip), [[0, 1, 2], [2, 1, 3], [4, 5, 6]]);
        assert_eq!(all(Kind::Triangles), [[0, 1, 2], [4, 5, 6]]);
        assert_eq!(
            all(Kind::LineLoop),
            [[0, 1], [1, 2], [2, 3], [3, 0], [4, 5], [5, 6], [6, 4]]
        );
    }

    #[test]
    fn primitives_have_so_many_vertices() {
        let kinds = (1..=7).filter_map(Kind::of);
        let counts: Vec<_> = kinds.map(|kind| kind.vertices(4)).collect();
        assert_eq!(counts, [4, 8, 5, 12, 6, 6, 4]);
        assert_eq!(Kind::of(8), None);
        assert_eq!(Kind::TriangleFan.vertices(0), 0);
    }
}
