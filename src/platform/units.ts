/** @module Times and durations in milliseconds, and sizes in bytes. */

/** Milliseconds since the Unix epoch, UTC. */
export type Millis = number

export const seconds = (n: number): number => n * 1000
export const minutes = (n: number): number => n * 60_000
export const hours = (n: number): number => n * 3_600_000
export const days = (n: number): number => n * 86_400_000
export const KiB = 1024
export const MiB = 1024 * 1024
export const GiB = 1024 * 1024 * 1024
