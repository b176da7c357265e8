//! The test rig: a Debian 13 guest with real kernels, made from nothing but `mmdebstrap`.
//!
//! From the bottom up: [`cache`] keeps everything that took long to make outside the checkout; [`roots`] makes and
//! enters the Debian roots (one that builds, one that is booted, two with desktops); [`kernels`] picks kernels from
//! what the archive offers; [`image`] turns the guest root into disks; [`qemu`] starts a machine; [`guest`] runs
//! programs in it by talking [`protocol`] with the [`agent`]; [`build`] compiles the checkout inside the build root and
//! [`product`] lays it out as installed, with its [`translations`]. [`rig`] has all of it ready; [`harness`] runs cases
//! on it, which talk to the [`service`]; [`measure`] takes figures; the
//! [`report`] keeps the results, also as [`junit`].
//!
//! Nothing here needs more on the host than `mmdebstrap` and util-linux. Nothing stays mounted: whoever enters a root
//! does so in a mount namespace that ends with the process.

pub mod agent;
pub mod architecture;
pub mod arm64;
pub mod build;
pub mod cache;
pub mod guest;
pub mod harness;
pub mod image;
pub mod junit;
pub mod kernel_log;
pub mod kernels;
pub mod measure;
mod monitor;
pub mod namespace;
pub mod product;
pub mod progress;
pub mod protocol;
pub mod qemu;
pub mod report;
pub mod rig;
pub mod roots;
pub mod service;
pub mod shell;
pub mod storm;
pub mod system;
pub mod translations;
