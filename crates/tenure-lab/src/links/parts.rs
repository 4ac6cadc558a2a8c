//! The connected parts of a network.

/// Nodes that are joined step by step.
#[derive(Debug)]
pub(super) struct Parts(Vec<u32>);

impl Parts {
    pub(super) fn new(nodes: usize) -> Self {
        Self((0..nodes as u32).collect())
    }

    pub(super) fn part(&mut self, node: u32) -> u32 {
        let mut root = node;
        while self.0[root as usize] != root {
            let above = self.0[root as usize];
            self.0[root as usize] = self.0[above as usize];
            root = above;
        }
        root
    }

    /// Joins the parts of two nodes. Returns whether they were different.
    pub(super) fn join(&mut self, one: u32, other: u32) -> bool {
        let (one, other) = (self.part(one), self.part(other));
        self.0[one as usize] = other;
        one != other
    }

    pub(super) fn sizes(&mut self) -> Vec<u32> {
        let mut sizes = vec![0; self.0.len()];
        for node in 0..self.0.len() as u32 {
            sizes[self.part(node) as usize] += 1;
        }
        sizes
    }

    pub(super) fn largest(mut self) -> u32 {
        self.sizes().into_iter().max().unwrap_or_default()
    }
}
