/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * no_old_names.h: before the headers of scx. These fall back to names that Linux had up to 6.12, on which we do not run, and define
 * functions on a type that no kernel of today has. For each name that a kernel does not have, libbpf searches all of its types and those
 * of its modules in vain; so the fallbacks are the names that came after them, and what needs that type is left out.
 */
#ifndef SCHERZO_NO_OLD_NAMES_H
#define SCHERZO_NO_OLD_NAMES_H

/* The guard of scx/cid.bpf.h, whose functions on struct scx_cmask nothing here calls. */
#define __SCX_CID_BPF_H

#define scx_bpf_consume___old scx_bpf_dsq_move_to_local___v1
#define scx_bpf_dispatch___compat scx_bpf_dsq_insert___v1
#define scx_bpf_dispatch_vtime___compat scx_bpf_dsq_insert_vtime___compat
#define scx_bpf_dispatch_from_dsq___old scx_bpf_dsq_move___new
#define scx_bpf_dispatch_vtime_from_dsq___old scx_bpf_dsq_move_vtime___new
#define scx_bpf_dispatch_from_dsq_set_slice___old scx_bpf_dsq_move_set_slice___new
#define scx_bpf_dispatch_from_dsq_set_vtime___old scx_bpf_dsq_move_set_vtime___new

#endif /* SCHERZO_NO_OLD_NAMES_H */
