/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * place.bpf.h: where a task runs next: an idle CPU (idle.bpf.h), a CPU taken from a batch task, or a queue.
 */
#ifndef SCHERZO_PLACE_BPF_H
#define SCHERZO_PLACE_BPF_H

/* How far from now a key may lie. */
#define DEADLINE_REACH_NS (10000 * NSEC_PER_MSEC)
/* Candidates looked at before the latest deadline among them is taken. */
#define NR_VICTIM_SAMPLES 8

static __always_inline bool try_preempt(struct cpu_ctx *cpuc)
{
	u64 victim_deadline = READ_ONCE(cpuc->victim_deadline);

	return victim_deadline && __sync_val_compare_and_swap(&cpuc->victim_deadline, victim_deadline, 0) == victim_deadline;
}

/*
 * Where all run interactive work, wake-ups would look at the same CPUs in vain again and again: one look does until batch
 * work starts there anew. Both sides write before they read, so that whoever starts meanwhile is not missed. That the
 * atomic's value is used makes it order on every architecture.
 */
static __always_inline void clear_preemptible(struct cpu_ctx *cpuc, u64 *preemptible, u64 bit)
{
	if (__sync_fetch_and_and(preemptible, ~bit) & bit && cpuc && READ_ONCE(cpuc->victim_deadline))
		__sync_fetch_and_or(preemptible, bit);
}

/* Better to take than the best so far: a fast core instead of a slow one, or else a later deadline. */
static __always_inline bool is_better_victim(const struct cpu_ctx *cpuc, u64 victim_deadline, s32 best, u64 latest)
{
	const struct cpu_ctx *best_cpuc = cores_differ ? cpu_ctx(best) : NULL;

	if (best_cpuc && best_cpuc->slow != cpuc->slow)
		return best_cpuc->slow;
	return best < 0 || time_after(victim_deadline, latest);
}

/*
 * The CPU of the task's domain with the latest deadline among a sample of those that run batch work, a fast core's before a
 * slow one's; -1 if none.
 */
VERIFIED_ONCE s32 pick_victim(struct task_struct *p __arg_trusted, u32 llc)
{
	struct llc_ctx *llcx = llc_ctx(llc);
	u64 latest = 0;
	s32 best = -1;
	u32 word;
	int sample;

	if (!llcx)
		return -1;
	bpf_for(word, 0, NR_CPU_WORDS) {
		u64 *preemptible = &llcx->preemptible[word & (NR_CPU_WORDS - 1)];
		u64 bits = READ_ONCE(*preemptible);

		bpf_for(sample, 0, NR_VICTIM_SAMPLES) {
			struct cpu_ctx *cpuc;
			u64 victim_deadline;
			s32 cpu;

			if (!bits)
				break;
			cpu = word * 64 + ctzll(bits);
			cpuc = cpu_ctx(cpu);
			victim_deadline = cpuc ? READ_ONCE(cpuc->victim_deadline) : 0;
			if (!victim_deadline)
				clear_preemptible(cpuc, preemptible, bits & -bits);
			bits &= bits - 1;
			if (!victim_deadline || !may_run_on(p, cpu))
				continue;
			if (is_better_victim(cpuc, victim_deadline, best, latest)) {
				latest = victim_deadline;
				best = cpu;
			}
		}
		if ((word + 1) * 64 >= nr_cpu_slots)
			break;
	}
	return best;
}

/* Preempts a CPU of a domain. Two tries, as others may do so at the same time. Returns -1 if nothing may be taken. */
VERIFIED_ONCE s32 preempt_in_llc(struct task_struct *p __arg_trusted, u32 llc)
{
	int attempt;

	bpf_for(attempt, 0, 2) {
		s32 cpu = pick_victim(p, llc);
		struct cpu_ctx *cpuc;

		if (cpu < 0)
			break;
		cpuc = cpu_ctx(cpu);
		if (cpuc && try_preempt(cpuc))
			return cpu;
	}
	return -1;
}

/*
 * Preempts a CPU that runs batch work: the one where the task was, since its cache is warm there, else the sample's latest
 * deadline. A task that was on a slow core looks where there are fast ones first. Returns -1 if nothing may be taken.
 */
VERIFIED_ONCE s32 preempt_cpu(struct task_struct *p __arg_trusted, s32 prev_cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);
	u32 llc = cpuc ? cpuc->llc : 0;
	s32 cpu;

	if (cores_differ && cpuc && cpuc->slow) {
		cpu = preempt_in_llc(p, fast_llc);
		if (cpu >= 0)
			return cpu;
	}
	if (cpuc && may_run_on(p, prev_cpu) && try_preempt(cpuc))
		return prev_cpu;
	return preempt_in_llc(p, llc);
}

/*
 * The CPU where the task was runs interactive work that has been at it for longer than the task was the last time: the task
 * is let through, and the other goes on after it. Who has run least goes first, as in the foreground-background discipline
 * (L. Kleinrock, Queueing Systems II, 1976).
 */
static __always_inline bool interrupts_longer(struct task_struct *p, const struct task_ctx *tctx, s32 prev_cpu)
{
	struct cpu_ctx *cpuc = cpu_ctx(prev_cpu);
	u64 since = cpuc ? READ_ONCE(cpuc->burst_since_ns) : 0;
	s64 ran_ns;

	if (!since)
		return false;
	ran_ns = time_delta(scx_bpf_now(), since);
	if (ran_ns < (s64)BURST_MIN_NS || ran_ns <= (s64)tctx->last_burst_ns || !may_run_on(p, prev_cpu) ||
	    __sync_val_compare_and_swap(&cpuc->burst_since_ns, since, 0) != since)
		return false;
	WRITE_ONCE(cpuc->makes_room, true);
	return true;
}

/* How long a task must have run the last time at most to be worth waiting for, rather than to take another CPU. */
#define WORTH_WAITING_NS (50 * NSEC_PER_USEC)
/* What it takes until a CPU that was taken from batch work runs who took it. */
#define TAKEOVER_NS (20 * NSEC_PER_USEC)

/* The task has the CPU from then on. */
static __always_inline void note_brief(struct cpu_ctx *cpuc, const struct task_ctx *tctx, u64 from_ns)
{
	if (tctx->last_burst_ns < WORTH_WAITING_NS)
		WRITE_ONCE(cpuc->brief_until_ns, from_ns + tctx->last_burst_ns);
}

/* The guess was wrong, and somebody waits for who runs here now: true once it has had that time several times over. */
static __always_inline bool outstays_brief(const struct cpu_ctx *cpuc, s32 cpu, u64 now)
{
	u64 until_ns = READ_ONCE(cpuc->brief_until_ns);

	return until_ns && signed_delta(now, until_ns) > (s64)(10 * WORTH_WAITING_NS) &&
	       scx_bpf_dsq_nr_queued(SCX_DSQ_LOCAL_ON | cpu) > 0;
}

/* Published when a batch task starts: this CPU may be taken from it. */
static __always_inline void publish_victim(struct cpu_ctx *cpuc, s32 cpu, u64 deadline_ns)
{
	struct llc_ctx *llcx = llc_ctx(cpuc->llc);
	u32 word = (u32)cpu / 64;
	u64 bit = 1ULL << (cpu & 63);

	__sync_lock_test_and_set(&cpuc->victim_deadline, deadline_ns | 1);
	if (llcx && word < NR_CPU_WORDS && !(READ_ONCE(llcx->preemptible[word]) & bit))
		__sync_fetch_and_or(&llcx->preemptible[word], bit);
}

static __always_inline void retract_victim(struct cpu_ctx *cpuc)
{
	if (READ_ONCE(cpuc->victim_deadline))
		WRITE_ONCE(cpuc->victim_deadline, 0);
}

static __always_inline void withdraw_cpu(struct cpu_ctx *cpuc, s32 cpu)
{
	struct llc_ctx *llcx = llc_ctx(cpuc->llc);
	u32 word = (u32)cpu / 64;

	retract_victim(cpuc);
	if (llcx && word < NR_CPU_WORDS)
		__sync_fetch_and_and(&llcx->preemptible[word], ~(1ULL << (cpu & 63)));
}

/* The key that user space last gave the task, or now if it never did. */
static __always_inline u64 published_deadline_ns(const struct task_ctx *tctx, u64 now)
{
	const struct scherzo_slot *slot;

	if (kernel_seat())
		return tctx->vruntime;
	slot = task_slot(tctx);
	return (slot ? READ_ONCE(slot->deadline_ns) : 0) ?: now;
}

/* First CPU that carries batch work in low-power mode and that the task may use; -1 if its affinity holds none. */
VERIFIED_ONCE s32 low_power_cpu(struct task_struct *p __arg_trusted)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (cpuc->low_power && may_run_on(p, cpu))
			return cpu;
	}
	return -1;
}

/* An idle CPU among those that carry batch work; -1 if none. */
VERIFIED_ONCE s32 idle_low_power_cpu(struct task_struct *p __arg_trusted)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (cpuc->low_power && may_run_on(p, cpu) && scx_bpf_test_and_clear_cpu_idle(cpu))
			return cpu;
	}
	return -1;
}

/* Preempts one of the CPUs that are awake for batch work anyway; -1 if none of them runs any. */
VERIFIED_ONCE s32 preempt_low_power_cpu(struct task_struct *p __arg_trusted)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (cpuc->low_power && may_run_on(p, cpu) && try_preempt(cpuc))
			return cpu;
	}
	return -1;
}

/* The counts live in memory because the verifier would follow each of their values through the loop. */
static u32 nr_online, nr_ranked;

/* Goes on with the CPUs of one kind of core. */
VERIFIED_ONCE int rank_low_power_cpus(bool slow)
{
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (!cpuc)
			break;
		if (cpuc->slow != slow)
			continue;
		cpuc->low_power = cpuc->online && (!nr_ranked || nr_ranked < nr_online / 4);
		if (cpuc->online)
			nr_ranked++;
	}
	return 0;
}

/* The CPUs that stay awake for batch work: the first quarter of those online, at least one, those of slow cores first. */
VERIFIED_ONCE int choose_low_power_cpus(void)
{
	struct scherzo_control *page = control_page();
	s32 cpu;

	if (!page)
		return -EINVAL;
	nr_online = 0;
	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && cpuc->online)
			nr_online++;
	}
	nr_ranked = 0;
	if (cores_differ)
		rank_low_power_cpus(true);
	rank_low_power_cpus(false);
	page->nr_online_cpus = nr_online;
	return 0;
}

/* In low-power mode batch work does not wake sleeping CPUs, unless it may run on no other. */
static __always_inline bool stays_packed(struct task_struct *p, struct control_word word, u32 klass)
{
	return word.mode == SCHERZO_MODE_LOW_POWER && klass != SCHERZO_CLASS_INTERACTIVE && low_power_cpu(p) >= 0;
}

/* Wakes a CPU for a task that was just queued for its domain; false if none sleeps that may take it. */
VERIFIED_ONCE int kick_idle_for(struct task_struct *p __arg_trusted, u64 bits, u32 klass)
{
	struct control_word word = word_of(bits);
	s32 cpu;

	if (READ_ONCE(nr_idle) <= 0)
		return false;
	if (stays_packed(p, word, klass))
		cpu = idle_low_power_cpu(p);
	else if (cores_differ || word.own_idle)
		cpu = find_idle_cpu(p, scx_bpf_task_cpu(p), bits);
	else
		cpu = pick_idle_cpu(p, 0);
	if (cpu < 0)
		return false;
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

/* The domain whose queue a task enters: its own, but in low-power one that has a CPU awake for it. */
static __always_inline u32 target_llc(struct task_struct *p, struct control_word word, u32 klass)
{
	s32 awake;

	if (word.mode == SCHERZO_MODE_LOW_POWER && klass != SCHERZO_CLASS_INTERACTIVE && nr_llcs > 1) {
		awake = low_power_cpu(p);
		if (awake >= 0)
			return cpu_llc(awake);
	}
	return cpu_llc(scx_bpf_task_cpu(p));
}

/*
 * Queues a task by itself, without asking user space: for threads that must not wait for it, and whenever there is no
 * slot, no room or no answer. In deadline order the key is the arrival. The caller arms the watchdog timer.
 */
VERIFIED_ONCE int queue_in_kernel(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word = word_of(bits);
	u64 now = scx_bpf_now();
	u64 slice_ns = page ? default_slice_ns(page) : SCX_SLICE_DFL;
	u32 klass = !tctx || is_kthread(p) ? SCHERZO_CLASS_INTERACTIVE : task_class(tctx);
	u32 kind = klass == SCHERZO_CLASS_INTERACTIVE ? DSQ_INTERACTIVE : DSQ_BATCH;
	u32 llc = target_llc(p, word, klass);
	s32 cpu = scx_bpf_task_cpu(p);

	count(SCHERZO_CNT_KERNEL);
	if (!page || !tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, slice_ns, enq_flags);
		return 0;
	}
	if (is_pinned(p)) {
		insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), slice_ns, now, enq_flags);
		scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
		return 0;
	}
	if (effective_order(word) == SCHERZO_ORDER_FIFO)
		kind = DSQ_FIFO;
	insert(p, tctx, DSQ_ID(kind, llc), slice_ns, now, enq_flags);
	kick_idle_for(p, bits, klass);
	return 0;
}

/*
 * A per-CPU kernel thread whose CPU a higher class has taken: it waits in that CPU's own DSQ, before everything else there,
 * and runs when the CPU is free.
 */
static __always_inline void queue_kthread_on_own_cpu(struct task_struct *p, struct task_ctx *tctx,
						     const struct scherzo_control *page, u64 enq_flags)
{
	u32 kind = control_word(page).kernel_seat ? DSQ_CPU_PROMPT : DSQ_CPU;
	s32 cpu = scx_bpf_task_cpu(p);

	insert(p, tctx, DSQ_ID(kind, cpu), default_slice_ns(page), scx_bpf_now() - DEADLINE_REACH_NS, enq_flags);
	count(SCHERZO_CNT_REQUEUED);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
}

/* How long the classification of an interactive task may be acted on without asking again. */
#define CLASSIFICATION_LASTS_NS (250 * NSEC_PER_MSEC)

/*
 * The key of an interactive task that was woken now, as user space classified it a moment ago: the same distance from its
 * arrival to its key. False if there is no such classification.
 */
VERIFIED_ONCE int classified_deadline(const struct scherzo_slot *slot, u64 now, u64 *deadline_ns)
{
	u64 classified_ns;
	s64 ahead_ns;

	if (!slot || !deadline_ns || READ_ONCE(slot->klass) != SCHERZO_CLASS_INTERACTIVE)
		return false;
	classified_ns = READ_ONCE(slot->classified_ns);
	ahead_ns = signed_delta(READ_ONCE(slot->deadline_ns), classified_ns);
	if (time_delta(now, classified_ns) > (s64)CLASSIFICATION_LASTS_NS || ahead_ns > (s64)DEADLINE_REACH_NS ||
	    ahead_ns < -(s64)DEADLINE_REACH_NS)
		return false;
	*deadline_ns = now + ahead_ns;
	return true;
}

/* Queues an interactive task that was woken by that key. False if it has none. */
VERIFIED_ONCE int queue_as_classified(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	struct task_ctx *tctx = task_ctx(p);
	const struct scherzo_slot *slot = tctx ? task_slot(tctx) : NULL;
	struct control_word word = word_of(bits);
	u64 now = scx_bpf_now();
	u32 llc = target_llc(p, word, SCHERZO_CLASS_INTERACTIVE), kind;
	u64 slice_ns, deadline_ns = 0;

	if (!slot || !classified_deadline(slot, now, &deadline_ns))
		return false;
	slice_ns = READ_ONCE(slot->slice_ns);
	if (!slice_ns || slice_ns > SLICE_MAX_NS)
		return false;

	count(SCHERZO_CNT_AS_CLASSIFIED);
	if (is_pinned(p)) {
		insert(p, tctx, DSQ_ID(DSQ_CPU, scx_bpf_task_cpu(p)), slice_ns, deadline_ns, enq_flags);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
		return true;
	}
	kind = word.order == SCHERZO_ORDER_FIFO ? DSQ_FIFO : DSQ_INTERACTIVE;
	insert(p, tctx, DSQ_ID(kind, llc), slice_ns, deadline_ns, enq_flags);
	kick_idle_for(p, bits, SCHERZO_CLASS_INTERACTIVE);
	return true;
}

/* What is left of the slice of a task that stopped; the kernel sets its own number to 0 to take the CPU away. */
static __always_inline u64 slice_left_ns(const struct task_struct *p, const struct task_ctx *tctx)
{
	return p->scx.slice ?: tctx->slice_ns;
}

/*
 * A task that had started its slice lost its CPU to a higher class or to the engine. It keeps its place (its key) and the
 * rest of its slice, without asking user space again, and any CPU may have it meanwhile.
 */
VERIFIED_ONCE int take_place_again(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct task_ctx *tctx = task_ctx(p);
	struct control_word word = word_of(bits);
	u64 now = scx_bpf_now(), deadline_ns, slice_ns;
	u32 klass, kind, llc;

	if (!page || !tctx) {
		scx_bpf_dsq_insert(p, SCX_DSQ_GLOBAL, SCX_SLICE_DFL, enq_flags);
		return 0;
	}
	deadline_ns = published_deadline_ns(tctx, now);
	slice_ns = slice_left_ns(p, tctx) ?: default_slice_ns(page);
	klass = task_class(tctx);
	kind = klass == SCHERZO_CLASS_INTERACTIVE ? DSQ_INTERACTIVE : DSQ_BATCH;
	llc = target_llc(p, word, klass);
	if (is_pinned(p)) {
		insert(p, tctx, DSQ_ID(DSQ_CPU, scx_bpf_task_cpu(p)), slice_ns, deadline_ns, enq_flags);
		scx_bpf_kick_cpu(scx_bpf_task_cpu(p), SCX_KICK_IDLE);
		return 0;
	}
	if (effective_order(word) == SCHERZO_ORDER_FIFO) {
		kind = DSQ_FIFO;
		enq_flags |= SCX_ENQ_HEAD;
	}
	insert(p, tctx, DSQ_ID(kind, llc), slice_ns, deadline_ns, enq_flags);
	return 0;
}

/*
 * A task that is to move up (begins_to_move_up()) goes to the fast core that idles, with its place and the rest of its slice.
 * False if that has been taken meanwhile.
 */
VERIFIED_ONCE int move_up(struct task_struct *p __arg_trusted, u64 bits, u64 enq_flags)
{
	const struct scherzo_control *page = control_page();
	struct control_word word = word_of(bits);
	struct task_ctx *tctx = task_ctx(p);
	u64 slice_ns, deadline_ns;
	s32 cpu;

	/* Kernels up to 6.13 ask here about tasks that may not leave their CPU for a moment. */
	if (!page || !tctx || may_not_migrate(p))
		return false;
	cpu = idle_cpu_of_kind(p, scx_bpf_task_cpu(p), false, word.whole_cores);
	if (cpu < 0 || !scx_bpf_test_and_clear_cpu_idle(cpu))
		return false;
	deadline_ns = published_deadline_ns(tctx, scx_bpf_now());
	slice_ns = slice_left_ns(p, tctx) ?: default_slice_ns(page);
	insert(p, tctx, DSQ_ID(DSQ_CPU, cpu), slice_ns, deadline_ns, enq_flags);
	scx_bpf_kick_cpu(cpu, SCX_KICK_IDLE);
	return true;
}

static void requeue(struct task_struct *p, struct task_ctx *tctx, struct control_word word, u64 enq_flags)
{
	u32 klass = task_class(tctx);
	s32 cpu;

	count(SCHERZO_CNT_REQUEUED);
	take_place_again(p, word_bits(word), enq_flags);
	if (is_pinned(p) || kick_idle_for(p, word_bits(word), klass) || klass != SCHERZO_CLASS_INTERACTIVE || !word.preemption)
		return;
	cpu = preempt_cpu(p, scx_bpf_task_cpu(p));
	if (cpu >= 0)
		scx_bpf_kick_cpu(cpu, SCX_KICK_PREEMPT);
}

/* Any CPU that no higher class holds; -1 if there is none. */
VERIFIED_ONCE s32 free_of_higher_class(struct task_struct *p __arg_trusted)
{
	u64 now = scx_bpf_now();
	s32 cpu;

	bpf_for(cpu, 0, nr_cpu_slots) {
		struct cpu_ctx *cpuc = cpu_ctx(cpu);

		if (cpuc && cpuc->online && !busy_with_higher_class(cpuc, now) && may_run_on(p, cpu))
			return cpu;
	}
	return -1;
}

/*
 * Chooses a CPU for the engine's own thread: an idle one, else one taken from batch work, else one that no higher class
 * holds. In low-power the CPU that called for it serves it, so that none wakes up. Says how to kick it.
 */
static s32 engine_cpu(struct task_struct *p, struct control_word word, u64 *kick_flags)
{
	s32 this_cpu = bpf_get_smp_processor_id();
	struct cpu_ctx *cpuc = cpu_ctx(this_cpu);
	s32 cpu;

	*kick_flags = SCX_KICK_IDLE;
	if (word.mode != SCHERZO_MODE_LOW_POWER) {
		cpu = pick_idle_cpu(p, 0);
		if (cpu >= 0)
			return cpu;
	}
	*kick_flags = SCX_KICK_PREEMPT;
	cpu = preempt_cpu(p, this_cpu);
	if (cpu >= 0)
		return cpu;
	if (cpuc && !busy_with_higher_class(cpuc, scx_bpf_now()) && may_run_on(p, this_cpu))
		return this_cpu;
	cpu = free_of_higher_class(p);
	return cpu >= 0 ? cpu : this_cpu;
}

#endif /* SCHERZO_PLACE_BPF_H */
