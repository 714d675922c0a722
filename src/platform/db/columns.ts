/**
 * @module Column types that all tables share. Times are integer milliseconds, public ids 16-byte blobs, flags 0 or 1.
 */
import { sql } from 'drizzle-orm'
import { customType, integer } from 'drizzle-orm/sqlite-core'
import type { UuidBytes } from '../ids.ts'

/** A public UUID as its 16 bytes. */
export const uuid = customType<{ data: UuidBytes; driverData: Uint8Array }>({ dataType: () => 'blob' })

/** Sealed secrets, hashes. */
export const bytes = customType<{ data: Uint8Array; driverData: Uint8Array }>({ dataType: () => 'blob' })

/** Milliseconds since the epoch. */
export const time = (name: string) => integer(name)

export const flag = (name: string) => integer(name, { mode: 'boolean' })

export const ZERO = sql`0`
