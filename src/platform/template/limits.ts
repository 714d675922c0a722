/** @module The limits of a render. */
import { KiB, MiB, minutes, seconds } from '../units.ts'

/** Limits for each part's source, and for the JSON text of the variables. The API refuses longer texts earlier. */
export const MAX_SOURCE_BYTES = MiB
export const MAX_DATA_BYTES = MiB
/** Limit for each rendered part. */
export const MAX_OUTPUT_BYTES = 1_000_000

/**
 * Units of work per request, shared by all its parts; metering.ts defines a unit. On one core a unit takes 1 to 6 ns; a
 * usual message of 6 KB takes 0.1 million units. A request with larger data gets more units, because the data must be
 * imported first.
 */
export const RENDER_UNITS = 13_000_000
export const RENDER_UNITS_PER_DATA_BYTE = 20
/**
 * Units for compiling each part. They are separate from those of the render, because a part is not compiled at each
 * render.
 */
export const COMPILE_UNITS = 2_000_000
export const COMPILE_UNITS_PER_BYTE = 8
/** Limit for the WASM memory: enough for two bodies, data and output of one MiB each. */
export const MAX_MEMORY_BYTES = 64 * MiB
/**
 * An instance whose memory is larger is replaced, because what earlier templates used must not decide whether a
 * template has enough memory.
 */
export const MAX_RETAINED_MEMORY_BYTES = 48 * MiB
/** Limit for the total input of one call of our own filters, in octets of UTF-8. */
export const MAX_ARGUMENT_BYTES = 8 * MiB
/** Limit for the estimated memory of cached templates. */
export const MAX_COMPILED_BYTES = 24 * MiB

/** Limits for the waiting requests of one account: their number, and the size of their texts. */
export const MAX_WAITING_REQUESTS = 2000
export const MAX_WAITING_BYTES = 64 * MiB
/**
 * Fraction of an account's requests and bytes that `bulk` may use: the rest is for clients that wait for a response.
 */
export const MAX_BULK_FRACTION = 0.5
/** Limit for the waiting requests of all accounts together. */
export const MAX_TOTAL_WAITING_BYTES = 256 * MiB
/** Bytes that a request counts for in addition to its texts. */
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
 * two to three seconds, since the first check may come immediately. A long pause of the whole process counts as a
 * single check.
 */
export const CHECK_INTERVAL_MS = seconds(1)
export const MAX_SILENT_CHECKS = 3
/**
 * After a template made a Worker hang, nothing is rendered for the template's account for this long: the template
 * escaped its budget once and would do so again.
 */
export const REFUSAL_MS = minutes(1)
export const MAX_CHECKS_WHILE_STARTING = 30
/** A Worker that has been idle for this long ends, and frees its memory. */
export const IDLE_MS = minutes(1)
