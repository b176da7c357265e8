//! The simulator beside a guest: Linux 6.18.15 with 4 CPUs, in virtual time.

mod guest;
mod loads;
mod shares;
mod turns;
