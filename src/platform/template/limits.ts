/** @module The bounds of a render, in one place. */
import { KiB, MiB, minutes, seconds } from '../units.ts'

/** Of each part's source, and of the JSON text of the variables. The API refuses longer ones before. */
export const MAX_SOURCE_BYTES = MiB
export const MAX_DATA_BYTES = MiB
/** Lists and mappings in each other. */
export const MAX_DATA_DEPTH = 100
/** Of what each part becomes. */
export const MAX_OUTPUT_BYTES = 1_000_000

/**
 * Units of work of a request; metering.ts says what one is. On one core they take 1 to 6 ns each, a usual message of 6 KB takes 0.1 million.
 * All parts share them, and there are more for larger data, which has to be taken in first.
 */
export const RENDER_UNITS = 10_000_000
export const RENDER_UNITS_PER_DATA_BYTE = 20
/** For each part, when it is compiled: its own, since it is not compiled each time. */
export const COMPILE_UNITS = 2_000_000
export const COMPILE_UNITS_PER_BYTE = 8
/** Of the WASM memory: room for two bodies, data and output of a MiB. */
export const MAX_MEMORY_BYTES = 64 * MiB
/** An instance that took more is replaced; whether a template has enough memory must not depend on those before it. */
export const MAX_RETAINED_MEMORY_BYTES = 48 * MiB
/** What one call of a filter that is not minijinja's own is handed, in UTF-8. */
export const MAX_ARGUMENT_BYTES = 8 * MiB
/** What templates that are kept compiled take, as far as it can be told. */
export const MAX_COMPILED_BYTES = 24 * MiB

/** Requests of one account that wait, and what their texts take. */
export const MAX_WAITING_REQUESTS = 2000
export const MAX_WAITING_BYTES = 64 * MiB
/** Of an account's requests and bytes, what those of `bulk` may take: the rest is free for clients that wait for an answer. */
export const MAX_BULK_FRACTION = 0.5
/** Of all accounts. */
export const MAX_TOTAL_WAITING_BYTES = 256 * MiB
/** What a request counts beside its texts. */
export const REQUEST_BYTES = KiB

/** So many renders that ran out of something within the time, and the account's renders get that share of the units for as long again. */
export const STRIKES = 5
export const STRIKE_MS = minutes(1)
export const PENALTY_FRACTION = 0.1

/**
 * A Worker is looked at so often while it works, and is dead when it has said nothing in so many looks: between two and three seconds, since the first may
 * come at once. A long pause of the process is one look.
 */
export const CHECK_INTERVAL_MS = seconds(1)
export const MAX_SILENT_CHECKS = 3
/** So long nothing is rendered for an account whose template silenced a Worker: what got by the budget once does it again. */
export const REFUSAL_MS = minutes(1)
export const MAX_CHECKS_WHILE_STARTING = 30
/** A Worker with nothing to do ends, and with it its memory. */
export const IDLE_MS = minutes(1)
