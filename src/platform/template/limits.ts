/** @module The limits of a render. */
import { KiB, MiB, minutes, seconds } from '../units.ts'

/** Limits for each part's source, and for the JSON text of the variables. The API refuses longer ones earlier. */
export const MAX_SOURCE_BYTES = MiB
export const MAX_DATA_BYTES = MiB
/** Nesting of lists and mappings. */
export const MAX_DATA_DEPTH = 100
/** Limit for each rendered part. */
export const MAX_OUTPUT_BYTES = 1_000_000

/**
 * Units of work per request; metering.ts defines a unit. On one core a unit takes 1 to 6 ns, a usual message of 6 KB
 * takes 0.1 million. All parts share them. A request with larger data gets more units, because the data must be
 * imported first.
 */
export const RENDER_UNITS = 10_000_000
export const RENDER_UNITS_PER_DATA_BYTE = 20
/** Units for compiling each part: separate, since a part is not compiled at each render. */
export const COMPILE_UNITS = 2_000_000
export const COMPILE_UNITS_PER_BYTE = 8
/** Limit for the WASM memory: enough for two bodies, data and output of a MiB each. */
export const MAX_MEMORY_BYTES = 64 * MiB
/**
 * An instance that has grown larger is replaced, because earlier templates must not decide whether a template has
 * enough memory.
 */
export const MAX_RETAINED_MEMORY_BYTES = 48 * MiB
/** Total input of one call of our own filters, in UTF-8. */
export const MAX_ARGUMENT_BYTES = 8 * MiB
/** Estimated memory of cached templates. */
export const MAX_COMPILED_BYTES = 24 * MiB

/** Waiting requests of one account, and the size of their texts. */
export const MAX_WAITING_REQUESTS = 2000
export const MAX_WAITING_BYTES = 64 * MiB
/**
 * Fraction of an account's requests and bytes that `bulk` may use: the rest is for clients that wait for a response.
 */
export const MAX_BULK_FRACTION = 0.5
/** Limit for the waiting requests of all accounts together. */
export const MAX_TOTAL_WAITING_BYTES = 256 * MiB
/** Size of a request besides its texts. */
export const REQUEST_BYTES = KiB

/**
 * Once this many renders of an account have exceeded a limit within `STRIKE_MS`, its renders get only this fraction of
 * the units for the next `STRIKE_MS`.
 */
export const STRIKES = 5
export const STRIKE_MS = minutes(1)
export const PENALTY_FRACTION = 0.1

/**
 * A working Worker is checked at this interval, and counts as dead after this many checks without a message. That takes
 * two to three seconds, since the first check may come immediately. A long pause of the process counts as one check.
 */
export const CHECK_INTERVAL_MS = seconds(1)
export const MAX_SILENT_CHECKS = 3
/**
 * After a template made a Worker hang, nothing is rendered for its account for this long: a template that escaped the
 * budget once will do so again.
 */
export const REFUSAL_MS = minutes(1)
export const MAX_CHECKS_WHILE_STARTING = 30
/** An idle Worker ends, and frees its memory. */
export const IDLE_MS = minutes(1)
