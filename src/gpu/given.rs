// SPDX-License-Identifier: GPL-2.0-only

//! Words that the front ends have got, for display: see [`crate::ring::Given`].

use super::{
    any::{
        each,
        AnyCore, //
    },
    Device, //
};
use crate::{
    ring::{
        Given,
        Payload, //
    },
    stream::decode::FrontEnd, //
};

impl<P: Payload> Device<P> {
    /// The core of any kind at a place.
    pub(crate) fn core_at(&self, place: usize) -> Option<AnyCore<P>> {
        self.any_at(place)
    }
}

impl<P: Payload> AnyCore<P> {
    /// The kind of front end.
    pub(crate) fn front_end(&self) -> FrontEnd {
        match self {
            Self::Ring(_) => FrontEnd::Pipes,
            Self::Vector(_) => FrontEnd::Vector,
        }
    }

    /// The oldest job from number `from` on whose words are all still in the memory for jobs.
    pub(crate) fn given(&self, from: u64) -> Option<Given> {
        each!(self, core => core.engine().given(from))
    }

    /// Copies words of a job, from its byte `offset` on. Returns whether they are the job's: its
    /// place may have been reused.
    pub(crate) fn copy_given(&self, job: &Given, offset: u32, to: &mut [u32]) -> bool {
        each!(self, core => core.engine().copy_given(job, offset, to))
    }
}
